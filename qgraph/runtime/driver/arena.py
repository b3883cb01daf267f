"""Device memory for the temporaries of one executable: one buffer, which grows and never shrinks.

It is taken from the pool that is current when it grows, if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from qgraph.runtime.driver.device_pool import buffer as allocate
from qgraph.runtime.driver.driver import DeviceContext, call, driver
from qgraph.runtime.driver.memory import Buffer
from qgraph.runtime.values.array_view import ArrayView, contiguous_strides
from qgraph.runtime.values.temporaries import Temporaries

_ALIGNMENT = 256


class Arena:
    """Places for all temporaries, side by side but for those that share memory.

    Launches of one executable follow each other, so they have one arena.
    """

    def __init__(self, device: DeviceContext, temporaries: Temporaries) -> None:
        self._device = device
        self._temporaries = temporaries
        self._buffer: Buffer | None = None
        self._size = 0

    @property
    def empty(self) -> bool:
        """Whether there are no temporaries."""
        return self._temporaries.empty

    def values(self, host: tuple[int, ...], elsewhere: Mapping[str, int]) -> tuple[ArrayView, ...]:
        """The temporaries for these host values; the context must be current.

        Args:
            host: the host values.
            elsewhere: the addresses of those that do not lie in the arena, by the names of their leaves.

        Raises:
            CudaError: there is not enough memory; the arena is as it was.
        """
        if self._temporaries.empty:
            return ()
        shapes = self._temporaries.shapes(host)
        names = self._temporaries.names
        offsets, total = dict[str, int](), 0
        for name, size in self._temporaries.sizes(host).items():
            offsets[name] = total
            if name not in elsewhere:
                total += -(-size // _ALIGNMENT) * _ALIGNMENT
        if self._buffer is None or total > self._size:
            self._grow(max(total, _ALIGNMENT))
        assert self._buffer is not None
        base = self._buffer.pointer
        memories = zip(names, self._temporaries.memories, strict=True)
        pointers = [elsewhere[name] if name in elsewhere else base + offsets[memory] for name, memory in memories]
        return tuple(
            ArrayView(pointer, shape, contiguous_strides(shape, dtype.itemsize), dtype, False, self._device.ordinal, None)
            for pointer, (shape, dtype) in zip(pointers, shapes, strict=True)
        )

    def sizes(self, host: tuple[int, ...]) -> dict[str, int]:
        """The bytes of each temporary, by the name of its leaf."""
        shapes = self._temporaries.shapes(host)
        return {
            name: math.prod(shape) * dtype.itemsize
            for name, (shape, dtype) in zip(self._temporaries.names, shapes, strict=True)
        }

    def _grow(self, size: int) -> None:
        fresh = allocate(self._device, size)
        old, self._buffer, self._size = self._buffer, fresh, size
        if old is not None:
            # Launches in flight still use the old one.
            call(driver.cuCtxSynchronize)
            old.free()

    def free(self) -> None:
        """Free the memory now. Nothing happens the second time."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.free()

"""Device memory for the temporaries of one executable: one buffer, which grows and never shrinks."""

from __future__ import annotations

import math

from qgraph.runtime.array_view import ArrayView, contiguous_strides
from qgraph.runtime.cuda_driver import DeviceContext, call, driver
from qgraph.runtime.cuda_memory import Buffer
from qgraph.runtime.temporaries import Temporaries

_ALIGNMENT = 256


class Arena:
    """Places for all temporaries, side by side. Launches of one executable follow each other, so they share it."""

    def __init__(self, device: DeviceContext, temporaries: Temporaries) -> None:
        self._device = device
        self._temporaries = temporaries
        self._buffer: Buffer | None = None
        self._size = 0

    def values(self, host: tuple[int, ...]) -> tuple[ArrayView, ...]:
        """The temporaries for these host values; the context must be current.

        Raises:
            CudaError: there is not enough memory; the arena is as it was.
        """
        if self._temporaries.empty:
            return ()
        shapes = self._temporaries.shapes(host)
        offsets, total = [], 0
        for shape, dtype in shapes:
            offsets.append(total)
            total += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        if self._buffer is None or total > self._size:
            self._grow(max(total, _ALIGNMENT))
        assert self._buffer is not None
        base = self._buffer.pointer
        return tuple(
            ArrayView(base + offset, shape, contiguous_strides(shape, dtype.itemsize), dtype, False, self._device.ordinal, None)
            for offset, (shape, dtype) in zip(offsets, shapes, strict=True)
        )

    def _grow(self, size: int) -> None:
        fresh = Buffer(self._device, size)
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

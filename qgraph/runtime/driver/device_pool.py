"""The memory of a pool on a device: one allocation, and who may have a block that was freed.

What the host frees may still be in use: by work in a stream, or by a graph that was captured. A block is bound to the stream
that it was taken for, and to the capture that went on there. Freed, it may be had at once by the same stream, in the same
capture; by others after a wait of the host for the device, of a captured graph not before that and its executables are gone.
The driver is asked nothing of a stream after a block was taken, since the stream may be gone by then.
"""

from __future__ import annotations

from functools import partial

from qgraph.errors import CudaError, PoolError
from qgraph.runtime.driver.captures import Capture, GraphLifetime, KeptForGraphs
from qgraph.runtime.driver.driver import DeviceContext, call, driver, outside_captures
from qgraph.runtime.driver.memory import Buffer
from qgraph.runtime.driver.stream import LASTING, captures, current_streams, is_capturing
from qgraph.runtime.values.pool_blocks import Order
from qgraph.runtime.values.pool_memory import CURRENT_POOL, PoolMemory


class DevicePoolMemory(PoolMemory):
    """One ``cuMemAlloc``, which is freed after all work on the device when nobody holds this object."""

    def __init__(self, device: DeviceContext, nbytes: int) -> None:
        self._buffer = Buffer(device, nbytes)
        self._epoch = device.epoch
        self.device = device
        # Of the captures during which blocks were taken, by their numbers.
        self._graphs: dict[int, GraphLifetime] = {}
        super().__init__(nbytes, self._buffer.pointer)

    def buffer(self, nbytes: int, stream: int | None = None) -> Buffer:
        """``nbytes`` bytes, which go back with the buffer."""
        if nbytes == 0:
            return Buffer(self.device, 0)
        pointer, order = self.take(nbytes, stream)
        return Buffer(self.device, nbytes, pointer, partial(self.give, pointer, order))

    def _order(self, stream: int | None) -> Order | None:
        with self.device.activate(), outside_captures():
            if self.device.epoch != self._epoch:
                raise PoolError("this pool's memory is gone: its device was reset", hint="make the pool again")
            for each in current_streams() if stream is None else [stream]:
                if each not in LASTING and is_capturing(each):
                    # The handle, since the number of a stream cannot be had meanwhile; it lasts as long as the capture.
                    return Order(stream, self._captured(each))
            return Order(None if stream is None else _number(stream))

    def _captured(self, stream: int) -> int:
        """The number of the capture on ``stream``, whose graph keeps the pool."""
        capture = Capture.on(stream)
        if capture.number not in self._graphs:
            self.device.once(KeptForGraphs).keep(self, capture.graph)
            self._graphs[capture.number] = GraphLifetime(capture.graph)
        return capture.number

    def _settle(self, order: Order | None) -> None:
        gone = {number for number, graph in self._graphs.items() if graph.over}
        for number in gone:
            del self._graphs[number]
        # Work outside the graph may have followed it, on any stream.
        self._blocks.reorder(lambda each: Order(None) if each.capture in gone else each)
        if any(each.capture == 0 for each in self._blocks.orders()) and self._may_wait(order):
            self.device.wait()
            self._blocks.reorder(lambda each: each if each.capture else None)

    def _may_wait(self, order: Order | None) -> bool:
        """Whether waiting breaks no capture that is known here."""
        if order is not None and order.capture:
            return False
        with self.device.activate(), outside_captures():
            return not captures()

    def _why(self) -> tuple[str, str]:
        orders = self._blocks.orders()
        if any(each.capture == 0 for each in orders):
            return (
                "no block that is surely out of use is large enough, and waiting would break the capture that goes on",
                "call pool.settle() before the capture, or make a larger pool",
            )
        if orders:
            return (
                "no block is large enough that no captured graph works on",
                "drop graphs that are not needed any more, make a larger pool, or free what lies in this one",
            )
        return super()._why()

    def settle(self) -> None:
        """Wait for the device: what was freed so far is then nobody's, but for what captured graphs work on.

        Raises:
            CudaError: a current stream is being captured, or work failed.
        """
        with self._lock:
            self._take_back()
            if not self._may_wait(None):
                raise CudaError("a stream is being captured, and waiting would break that", hint="settle before the capture")
            self._settle(None)


def _number(stream: int) -> int:
    # Handles are used again when their streams are gone; numbers never are.
    return -1 if stream in LASTING else int(call(driver.cuStreamGetId, stream))


def buffer(device: DeviceContext, nbytes: int) -> Buffer:
    """``nbytes`` bytes of ``device``, of the current pool where that lies on it.

    Raises:
        PoolError: the pool is sealed, or has no such block.
        CudaError: the device has not enough memory.
    """
    pool = CURRENT_POOL.get()
    if isinstance(pool, DevicePoolMemory) and pool.device is device:
        return pool.buffer(nbytes)
    return Buffer(device, nbytes)

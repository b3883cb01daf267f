"""How the host writes the words that end device loops, and reads what these write, while they run."""

from __future__ import annotations

from collections.abc import Callable

from qgraph.runtime.driver.driver import DeviceContext, call, driver, outside_captures
from qgraph.runtime.driver.memory import PinnedWords, copy_out, write_bytes

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class SideStream:
    """A stream that waits for no other; get it with ``device.once(SideStream)``.

    It is made before any loop runs. Streams share queues of the device where there are many, and a write behind a loop would
    never come: streams of the highest priority have queues of their own.
    """

    def __init__(self, device: DeviceContext) -> None:
        self._device = device
        with device.activate(), outside_captures():
            _, highest = call(driver.cuCtxGetStreamPriorityRange)
            self._stream = int(call(driver.cuStreamCreateWithPriority, _NON_BLOCKING, highest))

    def writer(self, word: int) -> Callable[[int], None]:
        """What writes a number to the word at this address, and returns when it is there."""

        def write(value: int) -> None:
            with self._device.activate(), outside_captures():
                # The driver takes the number with the call, and no multiprocessor is needed.
                write_bytes(word, value.to_bytes(4, "little"), self._stream)
                call(driver.cuStreamSynchronize, self._stream)

        return write

    def reader(self, words: int, into: PinnedWords) -> Callable[[], None]:
        """What copies the words at this address, as many as ``into`` has, and returns when they are there."""

        def read() -> None:
            with self._device.activate(), outside_captures():
                copy_out(words, into.pointer, 8 * len(into.words), self._stream)

        return read

"""Deferred device errors in page-locked host memory: kernels write them, and synchronisation raises them."""

from __future__ import annotations

import threading

from qgraph.errors import CudaError
from qgraph.ir.faults import FAULT_WORDS
from qgraph.ir.program import Program
from qgraph.runtime.driver.driver import DeviceContext
from qgraph.runtime.driver.memory import PinnedWords
from qgraph.runtime.values.deferred_errors import FaultReader


class DeviceFaults:
    """The words of one executable. What is noted stays until somebody waits for the device and is told.

    Attributes:
        pointer: the address of the words, for kernels and the host.
    """

    __slots__ = ("_device", "_epoch", "_lock", "_pinned", "_reader", "pointer")

    def __init__(self, device: DeviceContext, program: Program) -> None:
        self._device = device
        self._epoch = device.epoch
        self._reader = FaultReader(program.faults, program.tasks())
        self._lock = threading.Lock()
        self._pinned = PinnedWords(device, FAULT_WORDS)
        self._pinned.words[:] = [0] * FAULT_WORDS
        self.pointer = self._pinned.pointer
        device.kept.watch(self)

    def error(self) -> Exception | None:
        """What was noted, which is then forgotten; None if nothing was."""
        # A reset has freed the words.
        if not self._device.alive(self._epoch) or self._pinned.words[0] == 0:
            return None
        with self._lock:
            # The kernel that noted it may still run, on a stream that nobody waited for: then the rest is not written yet.
            self._device.wait()
            return self._reader.error(self._pinned.words)

    def free(self) -> None:
        """Let go of the words, after all launches; what nobody was told yet is kept."""
        self._device.kept.unwatch(self)
        try:
            error = self.error()
        except CudaError:  # a poisoned context; the failure is reported to whoever waits
            error = None
        if error is not None:
            self._device.kept.keep(error)
        self._pinned.free()

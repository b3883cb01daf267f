"""The kernel that runs in the place of one that is watched."""

from __future__ import annotations

import time
from typing import Any

from qgraph.dispatch.dispatch_cache import DispatchCache
from qgraph.kernel import Kernel
from qgraph.watching.rings import CURRENT, RINGS


class WatchedKernel(Kernel[..., Any]):
    """A kernel whose tasks write rows: its function is that of ``kernel``, and so is what ran last."""

    def __init__(self, kernel: Kernel[..., Any]) -> None:
        super().__init__(kernel._source.function, kernel.options)
        self._rings, self._profiles = RINGS, kernel._profiles
        self._ran = kernel._ran
        self._recent = DispatchCache(self._ran, self._lock)
        # Since when code is made; None where none is.
        self.building: float | None = None

    def _notice(self, *_call: Any) -> None:
        """No call is repeated as it is: each looks for its ring."""

    def _launch(self, variant: Any, leaves: Any, simple: bool, stream: int, given: Any = None) -> Any:
        ring = CURRENT.get()
        if variant.backend == "cuda" and ring is not None:
            ring.launched_on(stream)
        return super()._launch(variant, leaves, simple, stream, given)

    def _executable(self, specialisation: Any, call: Any) -> Any:
        if specialisation.executable is not None:
            return specialisation.executable
        self.building = time.perf_counter()
        try:
            return super()._executable(specialisation, call)
        finally:
            self.building = None

"""The kernel that runs in the place of one that is watched."""

from __future__ import annotations

from typing import Any

from qgraph.dispatch_cache import DispatchCache
from qgraph.errors import CudaError
from qgraph.kernel import Kernel
from qgraph.watching.rings import CURRENT, RINGS


class Captured(CudaError):  # noqa: N818 - no error: the call runs without rows
    """A call becomes nodes of somebody's graph, which may run when nobody watches any more; nothing ran."""


class WatchedKernel(Kernel[..., Any]):
    """A kernel whose tasks write rows: its function is that of ``kernel``, and so is what ran last."""

    def __init__(self, kernel: Kernel[..., Any]) -> None:
        super().__init__(kernel._source.function, kernel.options)
        self._rings = RINGS
        self._ran = kernel._ran
        self._recent = DispatchCache(self._ran, self._lock)

    def _notice(self, *_call: Any) -> None:
        """No call is repeated as it is: each looks for its ring."""

    def _launch(self, variant: Any, leaves: Any, simple: bool, stream: int, given: Any = None) -> Any:
        ring = CURRENT.get()
        if variant.backend == "cuda" and ring is not None:
            from qgraph.runtime.driver.stream import LASTING, is_capturing

            if stream not in LASTING and is_capturing(stream):
                raise Captured("the stream is being captured")
            ring.launched_on(stream)
        return super()._launch(variant, leaves, simple, stream, given)

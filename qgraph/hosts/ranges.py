"""NVTX ranges around calls of kernels, for Nsight and PyTorch's profiler: with ``QGRAPH_NVTX=1`` when qgraph is imported."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from qgraph.errors import BackendError, QGraphError

Function = TypeVar("Function", bound=Callable[..., Any])


def in_range(call: Function) -> Function:
    """``call``, a ``__call__`` of kernels, in a range of the domain ``qgraph``; as it is where nobody asked for ranges.

    Raises:
        QGraphError: ``QGRAPH_NVTX`` is neither 0 nor 1.
        BackendError: at a call, the package ``nvtx`` is not installed.
    """
    text = os.environ.get("QGRAPH_NVTX", "")
    if text not in ("", "0", "1"):
        raise QGraphError(f"QGRAPH_NVTX={text!r} is neither 0 nor 1", hint="1 puts an NVTX range around each call of a kernel")
    if text != "1":
        return call

    @functools.wraps(call)
    def ranged(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        nvtx = _nvtx()
        source = kernel._source
        nvtx.push_range(f"{source.name} ({os.path.basename(source.file)}:{source.tree.lineno})", domain="qgraph")
        try:
            return call(kernel, *args, **kwargs)
        finally:
            nvtx.pop_range(domain="qgraph")

    return ranged  # type: ignore[return-value]


def _nvtx() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError as error:
        raise BackendError(
            "QGRAPH_NVTX=1 asks for NVTX ranges, and the package nvtx, which makes them, is not installed",
            hint="pip install nvtx, or unset QGRAPH_NVTX",
        ) from error

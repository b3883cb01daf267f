"""The libraries that the same work is written in, and whether each can run it here."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import qgraph
from benchmarks.raw_c import Missing
from benchmarks.timing import Action

Device = Literal["cuda", "cpu"]


@dataclass(frozen=True, slots=True)
class Run:
    """A program made ready by one library.

    ``action`` starts it, ``wait`` returns when its work is done, ``answer`` gives its results as NumPy arrays and numbers
    by name after that. It may be run again and again.
    """

    action: Action
    wait: Action
    answer: Callable[[], dict[str, Any]]


def nothing() -> None:
    """What waiting is where an action returns only when its work is done."""


def with_options(kernel: Any, **options: Any) -> Any:
    """The kernel of the same function with other options."""
    return qgraph.kernel(**options)(kernel.__wrapped__)


def require(library: str, device: Device) -> None:
    """Start ``library`` on ``device``; ``Missing``, with the reason, where it cannot run there."""
    found = _start(library, device)
    if found:
        raise Missing(found)


@functools.cache
def _start(library: str, device: Device) -> str:
    """Why not, or nothing. Once a process: Quadrants forgets its arrays when it is started again."""
    try:
        importlib.import_module(library)
        return _STARTS[library](device)
    except ImportError as error:
        return f"not importable: {' '.join(str(error).split())}"


def _start_quadrants(device: Device) -> str:
    import quadrants as qd

    qd.init(arch=qd.cuda if device == "cuda" else qd.cpu, offline_cache=False, log_level=qd.WARN)
    arch = str(qd.lang.impl.current_cfg().arch)
    if device == "cuda" and not arch.endswith("cuda"):
        return f"it runs on {arch} here, not on CUDA"
    return ""


def _start_warp(device: Device) -> str:
    import warp as wp

    wp.config.quiet = True
    wp.init()
    if device == "cuda" and not wp.is_cuda_available():
        return "it finds no CUDA device"
    wp.set_device("cuda:0" if device == "cuda" else "cpu")
    return ""


def _start_cupy(device: Device) -> str:
    import cupy

    if device == "cpu":
        return "it runs on GPUs only"
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"it finds no CUDA device: {error}"
    return ""


def _start_torch(device: Device) -> str:
    import torch

    if device == "cpu":
        return "its graphs are CUDA's"
    return "" if torch.cuda.is_available() else "it is installed without CUDA"


def _start_jax(device: Device) -> str:
    import jax

    if device == "cpu":
        return "it is compared on the GPU only"
    # Else it takes most of the memory that the others need; it looks when it first finds its devices.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        return f"it finds no CUDA device: {error}"
    return ""


def _start_numba(device: Device) -> str:
    from qgraph.compat.numba_cuda import cuda

    if device == "cpu":
        return "it is compared on the GPU only"
    return "" if cuda.is_available() else "it finds no CUDA device"


def _start_nvmath(device: Device) -> str:
    return "its device functions are CUDA's" if device == "cpu" else _start_numba(device)


_STARTS: dict[str, Callable[[Device], str]] = {
    "quadrants": _start_quadrants,
    "warp": _start_warp,
    "cupy": _start_cupy,
    "torch": _start_torch,
    "jax": _start_jax,
    "numba": _start_numba,
    "nvmath.device": _start_nvmath,
}

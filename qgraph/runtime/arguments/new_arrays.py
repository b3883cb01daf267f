"""New arrays for the caller of a kernel, of the library whose arrays it passed; of NumPy or qgraph where it passed none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy

from qgraph.runtime.arguments.array_adapters import adopt
from qgraph.runtime.values.array_view import ArrayView

Maker = Callable[[tuple[int, ...], numpy.dtype], ArrayView]


def maker(side: ArrayView | None, device: int | None) -> Maker:
    """What makes arrays with any contents, as ``side`` is one, on ``device``, None for the host.

    PyTorch's and CuPy's are theirs, on their current stream. Of other libraries arrays are NumPy's or qgraph's, and so they are
    on a device where ``side`` is on the host.
    """
    library = "" if side is None or (side.device is None) != (device is None) else _library(side.owner)
    return lambda shape, dtype: _viewed(_array(library, device, shape, dtype))


def on_host(side: ArrayView | None, made: ArrayView) -> ArrayView:
    """``made``, an array that ``maker`` gave, on the side of ``side``: copied to the host where that is there."""
    if side is None or side.device is not None:
        return made
    array: Any = made.owner.numpy()  # type: ignore[attr-defined]
    return _viewed(sys.modules["torch"].from_numpy(array) if _library(side.owner) == "torch" else array)


def _viewed(array: object) -> ArrayView:
    view = adopt(array, "the array that is returned")
    assert view is not None
    return view


def _library(owner: object) -> str:
    roots = [(base.__module__.partition(".")[0], base.__name__) for base in type(owner).__mro__]
    return next((root for root, name in roots if (root, name) in (("torch", "Tensor"), ("cupy", "ndarray"))), "")


def _array(library: str, device: int | None, shape: tuple[int, ...], dtype: numpy.dtype) -> Any:
    if library == "torch":
        torch = sys.modules["torch"]
        place = "cpu" if device is None else f"cuda:{device}"
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=place)
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device):
            return cupy.empty(shape, dtype)
    if device is None:
        return numpy.empty(shape, dtype)
    from qgraph.runtime.arguments import device_array

    return device_array.empty(shape, dtype, device)

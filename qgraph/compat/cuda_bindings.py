"""What differs between releases of cuda.bindings, read from 12.9 and 13.5."""

from __future__ import annotations

from typing import Any

from qgraph.compat import Library
from qgraph.errors import CudaError

CUDA_BINDINGS = Library("cuda-bindings", "12.9 to 13.5", CudaError)


def with_edge_data(driver: Any, name: str, version: str = "v2") -> Any:
    """The driver's function that takes edge data: bindings of CUDA 13 have it as ``name``, those of 12 as ``name_version``."""
    return getattr(driver, f"{name}_{version}", None) or CUDA_BINDINGS.part(driver, name)

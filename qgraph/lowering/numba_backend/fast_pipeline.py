"""Numba's passes for CUDA, the short way: ``fast_passes``, and LLVM's text from ``fast_lowering`` in fewer words.

NVVM makes the same kernel of that text, or one whose conditions have other branches.
"""

from __future__ import annotations

from typing import Any, ClassVar

# Numba's own modules are those of the real numba.cuda: its simulator has none of them.
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering
from numba.cuda.core.typed_passes import IRLegalization
from numba.cuda.lowering import CUDALower

from qgraph.compat.numba import LocalValues
from qgraph.lowering.numba_backend.fast_lowering import FastLower
from qgraph.lowering.numba_backend.fast_passes import FastPipeline


class Lower(FastLower, LocalValues, CUDALower):
    """Numba's hook."""

    package = "numba.cuda.core"


class Lowering(CUDANativeLowering):
    """Numba's pass."""

    lowering_class = Lower


class Compiler(FastPipeline, CUDACompiler):
    """Numba's hook for a pipeline."""

    package = "numba.cuda.core"
    # No variable is deleted, so that none of their lives needs an end.
    instead: ClassVar[Any] = {IRLegalization: lambda state: None, CUDANativeLowering: Lowering().run_pass}

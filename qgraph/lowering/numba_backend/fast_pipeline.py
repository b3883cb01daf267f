"""Numba's passes for CUDA, the short way: ``fast_passes``, and LLVM's text from ``fast_lowering`` in fewer words.

NVVM makes the same kernel of that text, or one whose conditions have other branches.
"""

from __future__ import annotations

from typing import Any

# Numba's own modules are those of the real numba.cuda: its simulator has none of them.
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering
from numba.cuda.core.typed_passes import IRLegalization

from qgraph.lowering.numba_backend.fast_lowering import Lowering
from qgraph.lowering.numba_backend.fast_passes import FastPasses


class Compiler(CUDACompiler):
    """Numba's hook for a pipeline."""

    # The same for all functions, and expensive to make.
    _passes: FastPasses | None = None

    def define_pipelines(self) -> list[Any]:
        """Numba's hook."""
        if self.state.func_ir is not None:
            pipelines: list[Any] = super().define_pipelines()
            return pipelines
        if Compiler._passes is None:
            (numbas,) = super().define_pipelines()
            Compiler._passes = FastPasses(numbas, "numba.cuda.core", INSTEAD)
        return [Compiler._passes]


# No variable is deleted, so that none of their lives needs an end.
INSTEAD = {IRLegalization: lambda state: None, CUDANativeLowering: Lowering().run_pass}

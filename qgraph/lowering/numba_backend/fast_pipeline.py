"""Numba's passes for CUDA, the short way: ``fast_passes``, and LLVM's text from ``fast_lowering`` in fewer words.

NVVM makes the same kernel of that text, or one whose conditions have other branches.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

# Numba's own modules are those of the real numba.cuda: its simulator has none of them.
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering
from numba.cuda.core import ir
from numba.cuda.core.analysis import compute_cfg_from_blocks
from numba.cuda.core.typed_passes import IRLegalization
from numba.cuda.lowering import CUDALower

from qgraph.compat.llvmlite import loop_id
from qgraph.compat.numba import LocalValues
from qgraph.lowering.numba_backend.fast_lowering import FastLower
from qgraph.lowering.numba_backend.fast_passes import FastPipeline
from qgraph.lowering.number_types.number_llvm import types

# Operators, calls and elements of a block that not every iteration runs, from which on it is a branch that threads part at.
_LONG = 4
_WORK = ("binop", "inplace_binop", "call", "getitem", "static_getitem")
_ROLLED, _ONE_COPY = "llvm.loop.unroll.runtime.disable", "llvm.loop.unroll.disable"


class Lower(FastLower, LocalValues, CUDALower):
    """Numba's hook.

    NVVM does several iterations at once, and then those that are left. Threads of a warp whose loops have few iterations, and
    part in them, take longer for that: such loops stay as they are, unless it is known how many iterations they have. A loop
    around one of those, of as many iterations in all threads, is not written out: on an H200 the neighbours in 27 cells took a
    quarter less so. One that counts from a constant may be, since its copies have constant indices.
    """

    package = "numba.cuda.core"

    def lower_inst(self, inst: Any) -> None:
        """Numba's hook: a statement; a branch back to the beginning of a loop says how that is compiled."""
        super().lower_inst(inst)
        if isinstance(inst, ir.Jump) and inst.target in self._kept:
            self.builder.block.terminator.set_metadata("llvm.loop", loop_id(self.module, self._kept[inst.target]))

    @functools.cached_property
    def _kept(self) -> dict[int, str]:
        """What NVVM is told of the loops that stay as they are, by the labels of their first blocks."""
        blocks = self.func_ir.blocks
        graph = compute_cfg_from_blocks(blocks)
        loops, found = list(graph.loops().values()), dict[int, str]()
        for loop in loops:
            if any(other.header in loop.body for other in loops if other is not loop):
                continue
            after = graph.post_dominators()
            always = set.intersection(*(after[label] for label, _ in graph.successors(loop.header) if label in loop.body))
            if any(_work(blocks[label]) >= _LONG for label in loop.body - always - {loop.header}):
                around = [other.header for other in loops if other is not loop and loop.header in other.body]
                found |= {header: _ONE_COPY for header in around if not self._counts_from_constant(header)}
                found[loop.header] = _ROLLED
        return found

    def _counts_from_constant(self, header: int) -> bool:
        """Whether a loop is one over a range that begins at a constant, or none over a range."""
        blocks = self.func_ir.blocks
        # The first block may be empty.
        first = [blocks[header], *(blocks[label] for label in blocks[header].terminator.get_targets())]
        found: Any = next((each for block in first for each in block.find_exprs(op="iternext")), None)
        while isinstance(found, ir.Expr) and found.op in ("iternext", "getiter"):
            found = self.func_ir.get_definition(found.value)
        if not isinstance(found, ir.Expr) or found.op != "call" or len(found.args) < 2:
            return True
        return isinstance(self.typeof(found.args[0].name), types.Literal)


def _work(block: Any) -> int:
    return sum(each.op in _WORK for each in block.find_exprs())


class Lowering(CUDANativeLowering):
    """Numba's pass."""

    lowering_class = Lower


class Compiler(FastPipeline, CUDACompiler):
    """Numba's hook for a pipeline."""

    package = "numba.cuda.core"
    # No variable is deleted, so that none of their lives needs an end.
    instead: ClassVar[Any] = {IRLegalization: lambda state: None, CUDANativeLowering: Lowering().run_pass}

"""Numba's passes over a function for CUDA, without what plain code never needs.

Numba computes the lifetimes of all variables again after most passes, for lifted loops and generators, and looks for closures,
lists and `with`. A function without those goes the short way here: the same passes, each once, in the same order, up to LLVM's
text. That is written by ``cuda_lower`` in fewer words; NVVM makes the same kernel of it, or one whose conditions have other
branches. Any other function goes Numba's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Numba's own modules are those of the real numba.cuda: its simulator has none of them.
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering, CUDATranslateBytecode
from numba.cuda.core import errors, ir, untyped_passes
from numba.cuda.core.compiler_machinery import PassManager
from numba.cuda.core.inline_closurecall import RewriteArrayOfConsts
from numba.cuda.core.ir_utils import build_definitions, fixup_var_define_in_scope
from numba.cuda.core.rewrites import rewrite_registry
from numba.cuda.core.rewrites.static_getitem import RewriteStringLiteralGetitems, RewriteStringLiteralSetitems
from numba.cuda.core.ssa import reconstruct_ssa
from numba.cuda.core.transforms import canonicalize_cfg
from numba.cuda.core.typed_passes import AnnotateTypes, IRLegalization, NopythonRewrites, PreLowerStripPhis

from qgraph.compat import numba_cuda
from qgraph.lowering.numba_backend.fast_lowering import Lowering
from qgraph.lowering.numbers.number_llvm import types

_STATEMENTS = (ir.Assign, ir.Branch, ir.Jump, ir.Return, ir.SetItem)
_EXPRESSIONS = frozenset(
    (
        *("binop", "inplace_binop", "unary", "call", "cast", "build_tuple", "getattr", "getitem", "static_getitem"),
        *("getiter", "iternext", "pair_first", "pair_second", "exhaust_iter"),
    )
)
# Functions whose calls Numba writes out, where they are called by a name of their own.
_INLINED = ("reduce", "literal_unroll")
# What changes a function after its types are known; each needs a list, or a string as an index.
_KNOWN_REWRITES = {RewriteStringLiteralGetitems, RewriteStringLiteralSetitems, RewriteArrayOfConsts}


class Compiler(CUDACompiler):
    """Numba's hook for a pipeline."""

    # The same for all functions, and expensive to make.
    _passes: _Passes | None = None

    def define_pipelines(self) -> list[Any]:
        """Numba's hook."""
        if self.state.func_ir is not None:
            pipelines: list[Any] = super().define_pipelines()
            return pipelines
        if Compiler._passes is None:
            (numbas,) = super().define_pipelines()
            Compiler._passes = _Passes(numbas)
        return [Compiler._passes]


class _Passes:
    """Stands for Numba's pass manager."""

    def __init__(self, numbas: Any) -> None:
        self.pipeline_name = numbas.pipeline_name
        self.exec_times = numbas.exec_times
        passes = [each for each, _ in numbas.passes]
        assert passes[:2] == [CUDATranslateBytecode, untyped_passes.FixupArgs]
        self._short = [_SHORTER.get(each) or numba_cuda.pass_of(each, numbas).run_pass for each in passes[2:]]
        self._rest = PassManager(self.pipeline_name)
        self._rest.passes = numbas.passes[2:]
        self._rest.finalize()

    def run(self, state: Any) -> None:
        """Numba's hook: compile the function of ``state``."""
        with errors.new_error_context("the passes of CUDA"):
            for each in _FIRST:
                each.run_pass(state)
            if _is_plain(state.func_ir):
                for run in self._short:
                    run(state)
                return
        self._rest.run(state)


def _is_plain(function: Any) -> bool:
    """Whether the function has nothing that the passes left out, or cut short, would look for."""
    return all(
        isinstance(statement, _STATEMENTS) and (not isinstance(statement, ir.Assign) or _is_plain_value(statement.value))
        for statement in _statements(function)
    )


def _statements(function: Any) -> Iterator[Any]:
    for block in function.blocks.values():
        yield from block.body


def _is_plain_value(value: Any) -> bool:
    if isinstance(value, ir.Expr):
        return value.op in _EXPRESSIONS
    if isinstance(value, (ir.Global, ir.FreeVar)):
        return getattr(value.value, "__name__", None) not in _INLINED
    return isinstance(value, (ir.Const, ir.Var, ir.Arg))


def _nothing(state: Any) -> None:
    """There is nothing to be done for plain code."""


def _canonical(state: Any) -> None:
    state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)


def _without_closures(state: Any) -> None:
    fixup_var_define_in_scope(state.func_ir.blocks)


def _rewrites_before(state: Any) -> None:
    """As ``RewriteRegistry.apply``, without lifetimes."""
    for rewriter in rewrite_registry.rewrites["before-inference"]:
        rewrite = rewriter(state)
        blocks = state.func_ir.blocks
        waiting = list(blocks.items())
        while waiting:
            label, block = waiting.pop()
            if rewrite.match(state.func_ir, block, state.typemap, state.calltypes):
                blocks[label] = rewrite.apply()
                waiting.append((label, blocks[label]))


def _rewrites_after(state: Any) -> None:
    others = set(rewrite_registry.rewrites["after-inference"]) - _KNOWN_REWRITES
    if others or any(isinstance(each, types.StringLiteral) for each in state.typemap.values()):
        NopythonRewrites().run_pass(state)


def _single_assignment(state: Any) -> None:
    state.func_ir = reconstruct_ssa(state.func_ir)
    numba_cuda.set_definitions(state.func_ir, build_definitions(state.func_ir.blocks))


def _strip_phis(state: Any) -> None:
    state.func_ir = numba_cuda.without_phis(state.func_ir)


_FIRST = (CUDATranslateBytecode(), untyped_passes.FixupArgs())
_SHORTER = {
    untyped_passes.IRProcessing: _canonical,
    untyped_passes.WithLifting: _nothing,
    untyped_passes.InlineClosureLikes: _without_closures,
    untyped_passes.GenericRewrites: _rewrites_before,
    untyped_passes.RewriteDynamicRaises: _nothing,
    untyped_passes.MakeFunctionToJitFunction: _nothing,
    untyped_passes.ReconstructSSA: _single_assignment,
    PreLowerStripPhis: _strip_phis,
    NopythonRewrites: _rewrites_after,
    AnnotateTypes: _nothing,
    IRLegalization: _nothing,
    CUDANativeLowering: Lowering().run_pass,
}

"""Numba's passes over a function, without what plain code never needs: those of its CPU target, or numba-cuda's copies.

Numba computes the lifetimes of all variables again after most passes, for lifted loops and generators, and looks for closures,
lists and `with`. A function without those goes the short way here: the same passes, each once, in the same order, up to LLVM's
text. Any other function goes Numba's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

from qgraph.compat import numba

_Run = Callable[[Any], object]

_MODULES = (
    *("compiler_machinery", "errors", "inline_closurecall", "ir", "ir_utils", "rewrites", "ssa", "transforms"),
    *("typed_passes", "untyped_passes"),
)
_EXPRESSIONS = frozenset(
    (
        *("binop", "inplace_binop", "unary", "call", "cast", "build_tuple", "getattr", "getitem", "static_getitem"),
        *("getiter", "iternext", "pair_first", "pair_second", "exhaust_iter"),
    )
)
# Functions whose calls Numba writes out, where they are called by a name of their own.
_INLINED = ("reduce", "literal_unroll")


class FastPasses:
    """Stands for Numba's pass manager.

    Args:
        numbas: the pass manager.
        package: where the modules of its passes lie, "numba.core" or "numba.cuda.core".
        instead: what runs in place of a pass, besides what is the same for both.
    """

    def __init__(self, numbas: Any, package: str, instead: Mapping[type, _Run]) -> None:
        self.pipeline_name = numbas.pipeline_name
        self.exec_times = numbas.exec_times
        self._core = SimpleNamespace(**{name: import_module(f"{package}.{name}") for name in _MODULES})
        passes = [each for each, _ in numbas.passes]
        # The function's bytecode becomes Numba's IR: of that it is seen which way it goes.
        assert passes[1] is self._core.untyped_passes.FixupArgs
        run = {each: numba.pass_of(each, numbas, self._core.compiler_machinery).run_pass for each in passes}
        self._first = [run[each] for each in passes[:2]]
        shorter = {**self._shorter(), **instead}
        self._short = [shorter.get(each) or run[each] for each in passes[2:]]
        self._rest = self._core.compiler_machinery.PassManager(self.pipeline_name)
        self._rest.passes = numbas.passes[2:]
        self._rest.finalize()
        ir = self._core.ir
        self._statements = (ir.Assign, ir.Branch, ir.Jump, ir.Return, ir.SetItem)

    def run(self, state: Any) -> None:
        """Numba's hook: compile the function of ``state``."""
        with self._core.errors.new_error_context("Numba's passes"):
            for run in self._first:
                run(state)
            if self.is_plain(state.func_ir):
                for run in self._short:
                    run(state)
                return
        self._rest.run(state)

    def is_plain(self, function: Any) -> bool:
        """Whether a function of Numba's IR has nothing that the passes left out, or cut short, would look for."""
        assign = self._core.ir.Assign
        return all(
            isinstance(statement, self._statements)
            and (not isinstance(statement, assign) or self._is_plain_value(statement.value))
            for statement in _statements(function)
        )

    def _is_plain_value(self, value: Any) -> bool:
        ir = self._core.ir
        if isinstance(value, ir.Expr):
            return value.op in _EXPRESSIONS
        if isinstance(value, (ir.Global, ir.FreeVar)):
            return getattr(value.value, "__name__", None) not in _INLINED
        return isinstance(value, (ir.Const, ir.Var, ir.Arg))

    def _shorter(self) -> dict[type, _Run]:
        untyped, typed = self._core.untyped_passes, self._core.typed_passes
        return {
            untyped.IRProcessing: self._canonical,
            untyped.WithLifting: _nothing,
            untyped.InlineClosureLikes: self._without_closures,
            untyped.GenericRewrites: self.rewrites_before,
            untyped.RewriteDynamicRaises: _nothing,
            untyped.MakeFunctionToJitFunction: _nothing,
            untyped.ReconstructSSA: self._single_assignment,
            typed.PreLowerStripPhis: self._strip_phis,
            typed.NopythonRewrites: self.rewrites_after,
            typed.AnnotateTypes: _nothing,
        }

    def _canonical(self, state: Any) -> None:
        state.func_ir.blocks = self._core.transforms.canonicalize_cfg(state.func_ir.blocks)

    def _without_closures(self, state: Any) -> None:
        self._core.ir_utils.fixup_var_define_in_scope(state.func_ir.blocks)

    def rewrites_before(self, state: Any) -> None:
        """As ``RewriteRegistry.apply``, without lifetimes."""
        for rewriter in self._core.rewrites.rewrite_registry.rewrites["before-inference"]:
            rewrite = rewriter(state)
            blocks = state.func_ir.blocks
            waiting = list(blocks.items())
            while waiting:
                label, block = waiting.pop()
                if rewrite.match(state.func_ir, block, state.typemap, state.calltypes):
                    blocks[label] = rewrite.apply()
                    waiting.append((label, blocks[label]))

    def rewrites_after(self, state: Any) -> None:
        """What changes a function whose types are known, where it may find something."""
        statics = self._core.rewrites.static_getitem
        # Each needs a list, or a string as an index.
        known = {
            *(statics.RewriteStringLiteralGetitems, statics.RewriteStringLiteralSetitems),
            self._core.inline_closurecall.RewriteArrayOfConsts,
        }
        others = set(self._core.rewrites.rewrite_registry.rewrites["after-inference"]) - known
        others = {each for each in others if each.__name__ != "RewriteArrayExprs" or _has_array_expressions(state)}
        if others or any(type(each).__name__ == "StringLiteral" for each in state.typemap.values()):
            self._core.typed_passes.NopythonRewrites().run_pass(state)

    def _single_assignment(self, state: Any) -> None:
        state.func_ir = self._core.ssa.reconstruct_ssa(state.func_ir)
        numba.set_definitions(state.func_ir, self._core.ir_utils.build_definitions(state.func_ir.blocks))

    def _strip_phis(self, state: Any) -> None:
        state.func_ir = numba.without_phis(state.func_ir, self._core.typed_passes.PreLowerStripPhis())


class FastPipeline:
    """Mixin of a compiler class of Numba's: functions of Python go the short way through its passes.

    ``package`` and ``instead`` are those of ``FastPasses``.
    """

    package: str
    instead: ClassVar[Mapping[type, _Run]] = {}
    state: Any
    # The same for all functions, and expensive to make.
    _passes: FastPasses | None = None

    def define_pipelines(self) -> list[Any]:
        """Numba's hook."""
        cls = type(self)
        if self.state.func_ir is None and cls._passes is not None:
            return [cls._passes]
        pipelines: list[Any] = super().define_pipelines()  # type: ignore[misc]
        if self.state.func_ir is not None:
            return pipelines
        (numbas,) = pipelines
        cls._passes = FastPasses(numbas, self.package, self.instead)
        return [cls._passes]


def _statements(function: Any) -> Iterator[Any]:
    for block in function.blocks.values():
        yield from block.body


def _has_array_expressions(state: Any) -> bool:
    """Whether an operation gives an array: numbers alone are no array expression."""
    return any(hasattr(each.return_type, "ndim") for each in state.calltypes.values() if each is not None)


def _nothing(state: Any) -> None:
    """There is nothing to be done for plain code."""

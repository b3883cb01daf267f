"""The short way through Numba's passes: the same code as Numba's own for these functions, and not for every function."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace

import numba
import pytest

from qgraph.errors import KernelTypeError
from qgraph.ir.argument_types import ArrayType

pytestmark = pytest.mark.needs("compiler")

X32 = ArrayType("float32", 1, "C")


def source(*statements: str) -> str:
    return "\n".join(["def k(x, y):", " i = cuda.grid(1)", *(f" {each}" for each in statements)])


PLAIN = {
    "straight": source("y[i] = x[i] * 2 + 1"),
    "constant index": source("y[0] = x[i]"),
    "branches": source("s = x[i]", "if s > 0:", "  s = s * 2", "elif s < -1:", "  s = -s", "y[i] = s"),
    "loops": source("s = x[0]", "for j in range(i):", "  if x[j] < 0:", "    continue", "  s += x[j]", "y[i] = s"),
    "loop with two ends": source("j = 0", "while j < i:", "  j += 1", "  if x[j] < 0:", "    continue", "  y[j] = x[j]"),
    "tuples": source("t = (x[i], i)", "a, b = t", "y[b] = a + t[0]"),
    "dead branch": source("if False:", "  y[i] = 1", "else:", "  y[i] = 2"),
    "a name of two types": source("s = i * 2", "t = s + 1", "s = x[t]", "y[i] = s * s"),
    "closure variable": source("y[i] = scaled(x[i])"),
}
OTHER = {
    "reduce": source("y[i] = reduce(f, (x[i], x[0], x[1]))"),
    "literal_unroll": source("for e in literal_unroll((1, 2.5)):", "  y[i] += e"),
    "closure": source("g = lambda a: a * 2", "y[i] = g(x[i])"),
    "assert": source("assert i >= 0", "y[i] = x[i]"),
}


@numba.njit
def plus(a, b):
    return a + b


def scaled_by(factor):
    @numba.njit
    def scaled(a):
        return a * factor

    return scaled


def compiled(function, compile_ptx, text, monkeypatch):
    """The code by the pipeline as it is, and by Numba's own; and whether each function of the first went the short way."""
    from numba.cuda.misc.special import literal_unroll

    from qgraph.lowering.numba_backend import cuda, fast_pipeline

    ways, modules = [], []
    is_plain, nvvm = fast_pipeline._is_plain, cuda._nvvm
    names = {"cuda": cuda.cuda_module(), "f": plus, "reduce": functools.reduce, "literal_unroll": literal_unroll}
    names["scaled"] = scaled_by(3)

    def code():
        modules.clear()
        ptx = compile_ptx(function(text, **names), X32, X32)
        return ptx, [_without_numbers(module) for module in modules]

    monkeypatch.setattr(cuda, "_nvvm", lambda texts, options: (modules.extend(texts), nvvm(texts, options))[1])
    monkeypatch.setattr(fast_pipeline, "_is_plain", lambda each: (ways.append(is_plain(each)), ways[-1])[1])
    first = code()
    monkeypatch.setattr(fast_pipeline, "_is_plain", lambda each: False)
    return first, code(), ways


def _without_numbers(module: str) -> str:
    """LLVM's text without what Numba counts over all functions of a process."""
    return re.sub(r"ModuleID.*|B\d+v\d+|v\d+B\d+|\b0x[0-9a-f]+", "", module)


@pytest.mark.parametrize("name", PLAIN)
def test_the_short_way_leads_to_the_same_code(name, function, compile_ptx, monkeypatch):
    (short, texts), (numbas, others), ways = compiled(function, compile_ptx, PLAIN[name], monkeypatch)
    assert ways
    assert all(ways)
    assert short == numbas
    # Variables that are kept in memory are not set to zero at the ends of their lives, nor read before they are written.
    shorter, longer = sum(map(len, texts)), sum(map(len, others))
    assert shorter < longer if "alloca" in texts[-1] else shorter == longer


@pytest.mark.parametrize("name", PLAIN)
def test_before_llvm_the_short_way_leads_to_the_same(name, function, compile_ptx, monkeypatch):
    from qgraph.lowering.numba_backend import fast_pipeline

    for each in (fast_pipeline.IRLegalization, fast_pipeline.CUDANativeLowering):
        monkeypatch.delitem(fast_pipeline._SHORTER, each)
    monkeypatch.setattr(fast_pipeline.Compiler, "_passes", None)
    short, numbas, ways = compiled(function, compile_ptx, PLAIN[name], monkeypatch)
    assert all(ways)
    assert short == numbas


@pytest.mark.parametrize("name", OTHER)
def test_what_the_short_way_does_not_know_goes_numbas(name, function, compile_ptx, monkeypatch):
    (found, _), (numbas, _), ways = compiled(function, compile_ptx, OTHER[name], monkeypatch)
    assert ways[0] is False
    assert found == numbas


def test_what_llvm_is_not_made_of_is_told_with_its_statement(function, compile_ptx, monkeypatch):
    from numba.cuda.core.errors import LoweringError

    from qgraph.lowering.numba_backend import cuda, fast_lowering

    def refusing(each, ty, inst):
        if inst.target.name == "t":
            raise LoweringError("not made")
        return lower(each, ty, inst)

    lower = fast_lowering.Lower.lower_assign
    monkeypatch.setattr(fast_lowering.Lower, "lower_assign", refusing)
    text = source("s = x[i]", "t = s", "y[i] = t")
    with pytest.raises(KernelTypeError, match="not made") as caught:
        compile_ptx(function(text, cuda=cuda.cuda_module()), X32, X32)
    assert caught.value.span.line == 4
    assert 'lowering "t = s" at <kernel> (4)' in str(caught.value.__cause__)


@pytest.mark.parametrize("text", [PLAIN["closure variable"], OTHER["assert"]])
def test_each_function_is_translated_once(text, function, compile_ptx, monkeypatch):
    from qgraph.lowering.numba_backend import fast_pipeline

    translated = []
    translate = fast_pipeline.CUDATranslateBytecode.run_pass
    monkeypatch.setattr(
        fast_pipeline.CUDATranslateBytecode,
        "run_pass",
        lambda each, state: (translated.append(state.func_id.func_name), translate(each, state))[1],
    )
    monkeypatch.setattr(fast_pipeline.Compiler, "_passes", None)
    _, _, ways = compiled(function, compile_ptx, text, monkeypatch)
    # Once by each of two pipelines.
    assert len(translated) == 2 * len(ways)


def test_what_is_no_function_of_python_goes_numbas_and_the_passes_are_made_once(monkeypatch):
    from qgraph.lowering.numba_backend import fast_pipeline

    monkeypatch.setattr(fast_pipeline.CUDACompiler, "define_pipelines", lambda each: ["Numba's"])
    monkeypatch.setattr(fast_pipeline.Compiler, "_passes", "made before")
    compiler = object.__new__(fast_pipeline.Compiler)
    compiler.state = SimpleNamespace(func_ir="of a loop that was lifted")
    assert compiler.define_pipelines() == ["Numba's"]
    compiler.state = SimpleNamespace(func_ir=None)
    assert compiler.define_pipelines() == ["made before"]


def test_a_block_is_rewritten_as_long_as_there_is_something_to_rewrite(monkeypatch):
    from qgraph.lowering.numba_backend import fast_pipeline

    class Shorter:
        """Takes away one item at a time."""

        def __init__(self, state):
            pass

        def match(self, func_ir, block, typemap, calltypes):
            self.block = block
            return bool(block)

        def apply(self):
            return self.block[1:]

    monkeypatch.setitem(fast_pipeline.rewrite_registry.rewrites, "before-inference", [Shorter])
    state = SimpleNamespace(func_ir=SimpleNamespace(blocks={0: "abc", 8: "de"}), typemap=None, calltypes=None)
    fast_pipeline._SHORTER[fast_pipeline.untyped_passes.GenericRewrites](state)
    assert state.func_ir.blocks == {0: "", 8: ""}


@pytest.mark.parametrize(("item", "others", "runs"), [(1, [], False), ("a", [], True), (1, ["another"], True)])
def test_what_rewrites_typed_code_runs_where_it_may_find_something(item, others, runs, monkeypatch):
    from numba.cuda import types

    from qgraph.lowering.numba_backend import fast_pipeline

    passes, found = fast_pipeline, []
    rewrites = passes.rewrite_registry.rewrites
    monkeypatch.setitem(rewrites, "after-inference", [*rewrites["after-inference"], *others])
    monkeypatch.setattr(passes.NopythonRewrites, "run_pass", lambda each, state: found.append(state))
    state = SimpleNamespace(typemap={"i": types.int64, "k": types.literal(item)})
    passes._SHORTER[passes.NopythonRewrites](state)
    assert bool(found) == runs


def test_signatures_belong_to_the_flags(function, compile_ptx):
    from qgraph.lowering.numba_backend import cuda

    typing = cuda._COMPILERS.get("float32").typing
    names = {"cuda": cuda.cuda_module()}
    compile_ptx(function(PLAIN["loops"], **names), X32, X32)
    before = dict(typing.resolved)
    assert before
    compile_ptx(function(PLAIN["straight"], **names), X32, X32)
    assert before.items() <= typing.resolved.items()
    compile_ptx(function(PLAIN["straight"], **names), X32, X32, fastmath=True)
    assert not before.keys() <= typing.resolved.keys()

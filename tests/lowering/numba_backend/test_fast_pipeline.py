"""The short way through Numba's passes: the same code as Numba's own for these functions, and not for every function."""

from __future__ import annotations

import functools
import re
from importlib import import_module
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import typed_passes
from numba.core.runtime import _nrt_python, rtsys

import qgraph
from qgraph.errors import KernelTypeError
from qgraph.ir.argument_types import ArrayType
from qgraph.lowering.numba_backend import cpu
from qgraph.lowering.numba_backend.dead_zero_fills import Library
from qgraph.lowering.numba_backend.fast_lowering import counts_references
from qgraph.lowering.numba_backend.fast_passes import FastPasses

pytestmark = pytest.mark.needs("compiler")

X32 = ArrayType("float32", 1, "C")
PACKAGES = ("numba.core", "numba.cuda.core")


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

    from qgraph.lowering.numba_backend import cuda

    ways, modules = [], []
    is_plain, nvvm = FastPasses.is_plain, cuda._nvvm
    names = {"cuda": cuda.cuda_module(), "f": plus, "reduce": functools.reduce, "literal_unroll": literal_unroll}
    names["scaled"] = scaled_by(3)

    def code():
        modules.clear()
        ptx = compile_ptx(function(text, **names), X32, X32)
        return ptx, [_without_numbers(module) for module in modules]

    monkeypatch.setattr(cuda, "_nvvm", lambda texts, options: (modules.extend(texts), nvvm(texts, options))[1])
    monkeypatch.setattr(FastPasses, "is_plain", lambda each, function: (ways.append(is_plain(each, function)), ways[-1])[1])
    first = code()
    monkeypatch.setattr(FastPasses, "is_plain", lambda each, function: False)
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

    monkeypatch.setattr(fast_pipeline.Compiler, "instead", {})
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

    from qgraph.lowering.numba_backend import cuda, fast_pipeline

    def refusing(each, ty, inst):
        if inst.target.name == "t":
            raise LoweringError("not made")
        return lower(each, ty, inst)

    lower = fast_pipeline.Lower.lower_assign
    monkeypatch.setattr(fast_pipeline.Lower, "lower_assign", refusing)
    text = source("s = x[i]", "t = s", "y[i] = t")
    with pytest.raises(KernelTypeError, match="not made") as caught:
        compile_ptx(function(text, cuda=cuda.cuda_module()), X32, X32)
    assert caught.value.span.line == 4
    assert 'lowering "t = s" at <kernel> (4)' in str(caught.value.__cause__)


@pytest.mark.parametrize("text", [PLAIN["closure variable"], OTHER["assert"]])
def test_each_function_is_translated_once(text, function, compile_ptx, monkeypatch):
    from numba.cuda.compiler import CUDATranslateBytecode

    from qgraph.lowering.numba_backend import fast_pipeline

    translated = []
    translate = CUDATranslateBytecode.run_pass
    monkeypatch.setattr(
        CUDATranslateBytecode,
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


def fast_passes(package):
    """The short way through the first passes of ``package``, after which all are what they are in any other."""
    first = {"numba.core": ("numba.core.untyped_passes", "TranslateByteCode")}.get(package)
    module, name = first or ("numba.cuda.compiler", "CUDATranslateBytecode")
    passes = import_module(f"{package}.compiler_machinery").PassManager("the first two")
    passes.add_pass(getattr(import_module(module), name), "")
    passes.add_pass(import_module(f"{package}.untyped_passes").FixupArgs, "")
    passes.finalize()
    return FastPasses(passes, package, {})


@pytest.mark.parametrize("package", PACKAGES)
def test_a_block_is_rewritten_as_long_as_there_is_something_to_rewrite(package, monkeypatch):
    class Shorter:
        """Takes away one item at a time."""

        def __init__(self, state):
            pass

        def match(self, func_ir, block, typemap, calltypes):
            self.block = block
            return bool(block)

        def apply(self):
            return self.block[1:]

    passes = fast_passes(package)
    monkeypatch.setitem(import_module(f"{package}.rewrites").rewrite_registry.rewrites, "before-inference", [Shorter])
    state = SimpleNamespace(func_ir=SimpleNamespace(blocks={0: "abc", 8: "de"}), typemap=None, calltypes=None)
    passes.rewrites_before(state)
    assert state.func_ir.blocks == {0: "", 8: ""}


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    ("item", "result", "others", "runs"),
    [(1, "int64", [], False), ("a", "int64", [], True), (1, "int64", [type("Another", (), {})], True)],
)
def test_what_rewrites_typed_code_runs_where_it_may_find_something(package, item, result, others, runs, monkeypatch):
    types = import_module("numba.core.types" if package == "numba.core" else "numba.cuda.types")
    found = []
    rewrites = import_module(f"{package}.rewrites").rewrite_registry.rewrites
    monkeypatch.setitem(rewrites, "after-inference", [*rewrites["after-inference"], *others])
    passes = import_module(f"{package}.typed_passes")
    monkeypatch.setattr(passes.NopythonRewrites, "run_pass", lambda each, state: found.append(state))
    calltypes = {0: SimpleNamespace(return_type=getattr(types, result)), 1: None}
    state = SimpleNamespace(typemap={"i": types.int64, "k": types.literal(item)}, calltypes=calltypes)
    fast_passes(package).rewrites_after(state)
    assert bool(found) == runs


def test_expressions_of_arrays_are_rewritten_on_the_cpu(monkeypatch):
    """By Numba, in functions of its own: a loop in place of a call for each operation."""
    found = []
    rewrite = typed_passes.NopythonRewrites.run_pass

    def rewriting(each, state):
        found.append(state.func_id.func_name)
        return rewrite(each, state)

    monkeypatch.setattr(typed_passes.NopythonRewrites, "run_pass", rewriting)

    @numba.njit
    def tripled(x):
        return (x * 2 + x)[1]

    @qgraph.kernel(backend="cpu")
    def k(x, y):
        for i in qgraph.serial(range(x.shape[0])):
            y[i] = tripled(x)

    x, y = np.arange(3.0), np.zeros(3)
    k(x, y)
    assert y.tolist() == [3.0] * 3
    assert found == ["tripled"]


def rows(x, y, n):
    total = 0.0
    for i in range(n):
        for j in range(x.shape[1]):
            if x[i, j] < 0:
                continue
            total += x[i, j] * y[j]
    for j in range(y.shape[0]):
        y[j] = max(y[j], total) if j % 2 else y[j] ** 2
    return total


def halving(x, y, n):
    it, most = 0, 1.0
    while most > 0.1 and it < n:
        most = 0.0
        for j in range(y.shape[0]):
            y[j] = y[j] / 2 + x[0, j]
            most = max(most, abs(y[j]))
        it += 1
    return it


def raising(x, y, n):
    for j in range(y.shape[0]):
        if y[j] > 1e9:
            raise ValueError("too large")
        y[j] = 0


def of_arrays(x, y, n):
    t = x[:, 0].copy()
    t[:n] += y[:n]
    y[:] = np.where(y > 0, t[: y.shape[0]].sum(), np.sqrt(np.abs(y)))


@pytest.mark.parametrize("function", [rows, halving, raising, of_arrays])
def test_both_ways_lead_to_the_same_code_on_the_cpu(function, monkeypatch):
    texts, ways = [], []
    is_plain, add = FastPasses.is_plain, Library.add_ir_module

    def adding(library, module):
        # Numba's runtime is compiled once in a process.
        if 'define i64 @"nrt_atomic_add"' not in str(module):
            texts[-1].append(_without_numbers(str(module)))
        add(library, module)

    monkeypatch.setattr(Library, "add_ir_module", adding)
    monkeypatch.setattr(cpu, "counts_references", lambda state: True)
    for plain in (lambda each, code: (ways.append(is_plain(each, code)), ways[-1])[1], lambda each, code: False):
        cpu.forget()
        texts.append([])
        monkeypatch.setattr(FastPasses, "is_plain", plain)
        qgraph.kernel(backend="cpu")(function)(np.ones((3, 4)), np.ones(4), 2)
    short, numbas = texts
    assert short
    assert short == numbas
    assert any(ways)
    assert all(ways) or function is raising


@numba.njit
def middle(x):
    return np.sort(x)[x.shape[0] // 2]


@numba.njit
def last(x):
    return x[1:][-1]


@pytest.mark.parametrize(("function", "counts"), [(last, False), (middle, True)])
def test_references_are_counted_where_memory_is_made(function, counts, monkeypatch):
    asked = {}

    def asking(state):
        return asked.setdefault(state.func_id.func_name, counts_references(state))

    monkeypatch.setattr(cpu, "counts_references", asking)

    @qgraph.kernel(backend="cpu")
    def k(x, y):
        for i in range(y.shape[0]):
            y[i] = function(x[i])

    x, y = np.arange(3000.0).reshape(1000, 3), np.zeros(1000)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    k(x, y)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert y.tolist() == [function.py_func(row) for row in x]
    assert asked[function.__name__] == counts
    # What calls it holds no memory itself.
    assert not any(asked[name] for name in asked if name.startswith("k"))
    if not counts:
        assert not any(asked.values())
    assert after.alloc - before.alloc == after.free - before.free
    assert (after.alloc > before.alloc) == counts


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

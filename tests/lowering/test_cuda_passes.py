"""The short way through Numba's passes: the same PTX as Numba's own, and not for every function."""

from __future__ import annotations

import functools

import numba
import pytest

from qgraph.program import ArrayType

pytestmark = pytest.mark.needs("compiler")

X32 = ArrayType("float32", 1, "C")


def source(*statements: str) -> str:
    return "\n".join(["def k(x, y):", " i = cuda.grid(1)", *(f" {each}" for each in statements)])


PLAIN = {
    "straight": source("y[i] = x[i] * 2 + 1"),
    "branches": source("s = x[i]", "if s > 0:", "  s = s * 2", "elif s < -1:", "  s = -s", "y[i] = s"),
    "loops": source("s = x[0]", "for j in range(i):", "  if x[j] < 0:", "    continue", "  s += x[j]", "y[i] = s"),
    "loop with two ends": source("j = 0", "while j < i:", "  j += 1", "  if x[j] < 0:", "    continue", "  y[j] = x[j]"),
    "tuples": source("t = (x[i], i)", "a, b = t", "y[b] = a + t[0]"),
    "dead branch": source("if False:", "  y[i] = 1", "else:", "  y[i] = 2"),
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


def compiled(function, compile_ptx, text, monkeypatch):
    """The PTX by the pipeline as it is, and by Numba's own; and whether the first went the short way."""
    from numba.cuda.misc.special import literal_unroll

    from qgraph.lowering import cuda_passes, numba_cuda

    ways = []
    is_plain = cuda_passes._is_plain
    names = {"cuda": numba_cuda.cuda_module(), "f": plus, "reduce": functools.reduce, "literal_unroll": literal_unroll}
    monkeypatch.setattr(cuda_passes, "_is_plain", lambda each: (ways.append(is_plain(each)), ways[-1])[1])
    first = compile_ptx(function(text, **names), X32, X32)
    monkeypatch.setattr(cuda_passes, "_is_plain", lambda each: False)
    return first, compile_ptx(function(text, **names), X32, X32), ways


@pytest.mark.parametrize("name", PLAIN)
def test_the_short_way_leads_to_the_same_code(name, function, compile_ptx, monkeypatch):
    short, numbas, ways = compiled(function, compile_ptx, PLAIN[name], monkeypatch)
    assert ways == [True]
    assert short == numbas


@pytest.mark.parametrize("name", OTHER)
def test_what_the_short_way_does_not_know_goes_numbas(name, function, compile_ptx, monkeypatch):
    found, numbas, ways = compiled(function, compile_ptx, OTHER[name], monkeypatch)
    assert ways[0] is False
    assert found == numbas


def test_signatures_belong_to_the_flags(function, compile_ptx):
    from qgraph.lowering import numba_cuda

    typing = numba_cuda._COMPILERS.get("float32").typing
    names = {"cuda": numba_cuda.cuda_module()}
    compile_ptx(function(PLAIN["loops"], **names), X32, X32)
    before = dict(typing.resolved)
    assert before
    compile_ptx(function(PLAIN["straight"], **names), X32, X32)
    assert before.items() <= typing.resolved.items()
    compile_ptx(function(PLAIN["straight"], **names), X32, X32, fastmath=True)
    assert not before.keys() <= typing.resolved.keys()

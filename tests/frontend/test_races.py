"""When is a loop parallel: every row of the three verdicts, and random loops against what Python does."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgraph import language
from qgraph.errors import DataRaceError
from qgraph.frontend.accesses import Axis, LoopFacts, collect
from qgraph.frontend.races import Judgement, judge
from qgraph.program import Function
from qgraph.source import Span

WORDS = {
    "range": range,
    "ndrange": language.ndrange,
    "serial": language.serial,
    "atomic_add": language.atomic_add,
    "atomic_exch": language.atomic_exch,
    "min": min,
    "max": max,
    "len": len,
    "sqrt": np.sqrt,
}


def facts_of(source: str, ndim: str = "x:1 y:1 s:1 a:2 b:2", *, same: str = "", **names: object) -> LoopFacts:
    """The first loop of ``source``, as the frontend hands it over."""
    tree = ast.parse(textwrap.dedent(source))
    loop = tree.body[0]
    assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
    dimensions = {name: int(n) for name, n in (pair.split(":") for pair in ndim.split())}
    aliases = dict(pair.split("=") for pair in same.split())
    word = loop.iter.func
    assert isinstance(word, ast.Name)
    zero, one = ast.Constant(0), ast.Constant(1)
    arguments = loop.iter.args
    if word.id == "range":
        bounds = [zero, *arguments] if len(arguments) == 1 else arguments
        ranges = [(bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else one)]
    else:
        ranges = [(*part.elts, one) if isinstance(part, ast.Tuple) else (zero, part, one) for part in arguments]
    target = loop.target
    index_tuple = ""
    if isinstance(target, ast.Tuple):
        variables = [name.id for name in target.elts if isinstance(name, ast.Name)]
    else:
        assert isinstance(target, ast.Name)
        index_tuple = target.id if word.id == "ndrange" else ""
        variables = [f"_{at}" for at in range(len(ranges))] if index_tuple else [target.id]
    axes = tuple(Axis(variable, *bounds) for variable, bounds in zip(variables, ranges, strict=True))
    return LoopFacts(
        axes=axes,
        body=loop.body,
        names={**WORDS, **names},
        ndim=dimensions,
        same=aliases,
        paths={},
        file="loop.py",
        span=Span.of(loop.iter, "loop.py"),
        text=ast.unparse(loop.iter),
        index_tuple=index_tuple,
    )


def verdict(source: str, ndim: str = "x:1 y:1 s:1 a:2 b:2", **more: object) -> str:
    """One word for a loop: its verdict, and the operators of its atomics."""
    try:
        judgement = judge(facts_of(source, ndim, **more))  # type: ignore[arg-type]
    except DataRaceError:
        return "dependent"
    return " ".join([judgement.verdict.kind, *(access.operator for access in judgement.atomics)])


def function(source: str, **names: object) -> Function:
    tree = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree.name, tree, {**WORDS, **names}, "functions.py")


CASES = {
    "independent": [
        "for i in range(n): y[i] = x[i] + x[i - 1]",
        "for i in range(n): x[i] = x[i] * 2",
        "for i in range(n): x[i] *= 2",
        "for i in range(n): x[i] += y[i]",
        "for i in range(1, n - 1): y[i] = x[i - 1] + x[i + 1]",
        "for i, j in ndrange(n, m): a[i, j] = b[j, i]",
        "for i, j in ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)): b[i, j] = a[i - 1, j] + a[i, j + 1]",
        "for I in ndrange(*shape2): a[I] = b[I]".replace("*shape2", "a.shape[0], a.shape[1]"),
        "for i, j in ndrange(n, m): x[i * m + j] = a[i, j]",
        "for i, j in ndrange(n, m): x[i + j * n] = a[i, j]",
        "for i in range(n):\n  for j in range(m):\n    x[i * m + j] = a[i, j]",
        "for i in range(n):\n  for j in range(4):\n    x[4 * i + j] = y[i]",
        "for i in range(n):\n  for j in range(m):\n    x[j * n + i] = a[i, j]",
        "for i in range(0, n, 2): x[i] = x[i + 1]",  # red-black
        "for i in range(n): x[2 * i] = x[2 * i + 1]",
        "for i in range(n): x[i] = x[i + n]",
        "for i in range(n): x[i] = x[2 * n - i - 1 + 0]",
        "for i in range(8): x[i] = x[i + 8]",
        "for i in range(1, n): x[i] = x[i] - x[0]",
        "for i in range(x.shape[0] - 1): x[i] = x[-1]",
        "for i in range(n - 1, -1, -1): x[i] = y[i]",
        "for i in range(n): x[n - 1 - i] = y[i]",
        "for i in range(n):\n  row = a[i]\n  for j in range(m):\n    row[j] = row[j] + row[j - 1]",
        "for i in range(n): a[i, :] = 0",
        "for i in range(n):\n  if x[i] > 0: x[i] = 0",
        "for i in range(n):\n  k = i + 1\n  y[k] = x[k]",
        "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): y[i] += v[k] * x[c[k]]",
        "for i in range(n):\n  for j in range(i): a[i, j], a[j, i] = a[j, i], a[i, j]",  # in-place transpose
        "for i in range(n):\n  for j in range(i + 1, n): a[i, j] = a[j, i]",
        "for i in range(1): s[0] = s[0] + 1",
        "for i in range(5, 5): x[0] = i",
        "for i in range(n): x[i] = len(x)",
        "for i in range(lo, hi): x[i - lo] = y[i]",
        "for i in range(3, n): x[i] = x[2] + x[1]",
        "for i in range(n): print(x[i])",
        "for i in range(-1, x.shape[0] - 1): x[i] = 0",
        "for i, j in ndrange(n, m):\n  for k in range(3): t[i, j, k] = t[i, j, k] + t[i, j, k - 1]",
        "for i, j, k in ndrange(n, m, l): x[(i * m + j) * l + k] = 1",
        "for i, j, k in ndrange(t.shape[0], t.shape[1], t.shape[2]): t[i, j, k] = t[i, j, k] / 2",
        "for i in range(n): x[i], y[i] = y[i], x[i]",
        "for i in range(n): x[i] = sqrt(x[i])",
        "for i in range(n):\n  u, v2 = x, y\n  for k in range(3):\n    v2[i] = u[i]",
    ],
    "dependent": [
        "for i in range(1, n): x[i] = x[i - 1]",
        "for i in range(n): x[i] = x[i + 1]",
        "for i in range(n): x[i] = x[i + 10]",
        "for i in range(n, 0, -1): x[i] = x[i - 1]",
        "for t in range(steps):\n  for i in range(n): x[i] = x[i] * 2",
        "for t in range(steps):\n  for i in range(n): x[i] = t",
        "for i in range(n): s[0] = i",
        "for i in range(n): s[0] *= 2",
        "for i in range(n): s[0] = s[0] + x[i]",
        "for i in range(n): x[i] = x[i] / x[0]",
        "for i in range(n): x[i] = x[i] / x[n - 1]",
        "for i in range(lo, n): x[i] = x[i] / x[lo]",
        "for i in range(x.shape[0]): x[i] = x[i] / x[-1]",
        "for i in range(n): x[i] = x[n - 1 - i]",
        "for i, j in ndrange(n, n): a[i, j] = a[j, i]",
        "for i, j in ndrange(a.shape[0], a.shape[1]): a[i, j] = a[j, i]",
        "for i, j in ndrange((1, n), (1, m)): a[i, j] = a[i - 1, j]",
        "for i, j in ndrange((1, n), (1, m)): a[i, j] = a[i, j] + a[i, j + 1]",
        "for i, j, k in ndrange(n, n, n): t[i, j, k] = t[i, j, k + 1] + t[i, j + 1, k]",
        "for i, j in ndrange(n, m): x[i] = j",
        "for i, j in ndrange(n, m): x[i + j] = j",
        "for i in range(n):\n  for j in range(i): x[j] = i",
        "for i in range(n):\n  s[0] += x[i]\n  y[i] = s[0]",
        "for i in range(n):\n  x[i] += 1\n  y[i] = x[i + 1]",
        "for i in range(n):\n  s[0] += 1\n  s[0] = max(s[0], x[i])",
        "for i in range(n): a[0, :] = x[i]",
        "for i in range(n):\n  row = a[0]\n  row[3] = x[i]",
        "for i in range(0, 10, 3): x[i] = x[i + 6]",
        "for i in range(n):\n  for j in range(3): x[2 * i + j] = 1",
    ],
    "assumed": [
        "for i in range(n): x[idx[i]] = y[i]",
        "for i in range(n):\n  if y[i] > 0: s[0] = 1",
        "for i in range(n):\n  if y[i] > 0: x[i] = x[i - 1]",
        "for i in range(n): x[i] = x[m]",
        "for i in range(n): x[i] = x[i + m]",
        "for i in range(lo, hi): x[i] = 1",
        "for i in range(n): x[i // 2] = 1",
        "for i in range(n):\n  k = i\n  if y[i] > 0: k = 0\n  x[k] = 1",
        "for i in range(n):\n  while y[i] > 0: s[0] = 1",
        "for i in range(n):\n  if y[i] > 0: continue\n  s[0] = 1",
        "for i in range(n):\n  for j in range(m):\n    if y[j] > 0: break\n    s[0] = 1",
        "for i in range(n):\n  atomic_add(x, i, 1)\n  y[i] = x[i + 1]",
        "for i in range(n): mystery(x, i)",
        "for i in range(n): y[i] = x[i] if idx[i] else mystery(y)",
        "for i in range(n):\n  r = x if y[i] > 0 else s\n  r[0] = 1",
        "for i in range(n): x[0:2] = y[i]",
        "for i in range(n): x.fill(i)",
        "for i in range(n): a.T[i, 0] = 1",
        "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): x[k] = i",
        "for i in range(0, n, q): x[i] = 1",
        "for i in range(n):\n  u, w = x, y\n  for k in range(3):\n    u[i] = w[i + 1]\n    u, w = w, u",
        "for i in range(n): (y[i] > 0) and s.fill(0)",
        "for i in range(n):\n  x[i] = 1\n  for r in a: r[0] = 1",
    ],
    "independent +": [
        "for i in range(n): s[0] += x[i]",
        "for i in range(n): x[idx[i]] += 1",  # histogram
        "for i in range(n):\n  for j in range(m): s[j] += a[i, j]",
        "for t in range(steps):\n  for i in range(n): x[i] += 1",
        "for i in range(n): s[()] += x[i]".replace("s[()]", "z[()]"),
    ],
    "independent + +": [
        "for i in range(n):\n  x[i] += 1\n  x[i + 1] += 1",
        "for i in range(n):\n  atomic_add(x, 0, 1)\n  x[i] += 1\n  x[idx[i]] += 1",
    ],
    "independent -": ["for i in range(n): s[0] -= x[i]"],
    "independent max": ["for i in range(n): s[0] = max(s[0], x[i])"],
    "independent min": ["for i in range(n): s[0] = min(x[i], s[0])"],
    "independent |": ["for i in range(n): s[idx[i]] |= 1"],
}
NDIM = "x:1 y:1 s:1 v:1 c:1 ptr:1 idx:1 a:2 b:2 t:3 z:0"


@pytest.mark.parametrize(("expected", "source"), [(kind, source) for kind, sources in CASES.items() for source in sources])
def test_verdicts(expected: str, source: str) -> None:
    assert verdict(source, NDIM, mystery=SimpleNamespace()) == expected

"""Small programs at the edges of the language: funcs that give arrays and tuples of them, and statements that use these.

Most of them are plausible Python; many are no kernels. Each either runs as plain Python says, or is refused in words that its
author understands: no name that qgraph made, and a way out.
"""

from __future__ import annotations

from random import Random

import numpy as np

HEAD = """import numpy as np
import qgraph
from typing import NamedTuple
from dataclasses import dataclass


class Two(NamedTuple):
    left: object
    right: object


@dataclass
class Pair:
    left: object
    right: object


@qgraph.func
def same(v):
    return v


@qgraph.func
def part(v):
    return v[1:]


@qgraph.func
def number(v):
    return v[0] + 1.0


@qgraph.func
def nothing(v):
    v[0] = 2.0


@qgraph.func
def total(v):
    s = 0.0
    for i in range(v.shape[0]):
        s += v[i]
    return s
"""

# Bodies of funcs of two vectors of one length; `{a}` is an array expression of such.
BODIES = (
    "return {a}",
    "return {a}[1:]",
    "return {a}[::-1]",
    "return {a}, {a}",
    "return {a}[0], {a}[1]",
    "return {a}, {a}[0]",
    "return Two({a}, {a}[1])",
    "return Pair({a}, {a})",
    "w = {a}\nreturn w",
    "w = {a}[1:]\nreturn w[0]",
    "for i in range(v.shape[0]):\n    v[i] += 1.0\nreturn {a}",
    "for i in range(v.shape[0]):\n    v[i] += 1.0\nreturn {a}[1:]",
    "if v[0] > 0.5:\n    return {a}\nreturn {a}",
    "if v[0] > 0.5:\n    return {a}[1:]\nelse:\n    return {a}[1:]",
    "if v.shape[0] > 2:\n    return {a}\nreturn {a}",
    "if v[0] > 0.5:\n    return v[0], 1\nreturn v[1], 2",
    "for i in range(v.shape[0]):\n    if v[i] > 3:\n        return {a}\nreturn {a}",
    "n = v.shape[0]\nt = qgraph.zeros(n)\nfor i in range(n):\n    t[i] = v[i]\nreturn t",
    "n = len({a})\nt = qgraph.empty_like({a})\nt[:] = {a}\nreturn t",
    "t = np.empty_like(v)\nt[:] = {a}\nreturn t[1:]",
    "n = v.shape[0]\nif n > 2:\n    n = 2\nt = qgraph.zeros(n)\nreturn t[0]",
    "return v + {a}",
    "return np.sqrt({a})",
    "return np.sum({a})",
    "return np.sum({a}), np.max({a})",
    "return {a} @ u",
    "return qgraph.zeros(3)",
    "s = np.sum({a})\nreturn s, {a}",
    "return",
    "v[:] = {a}",
    "return same({a})",
    "return part({a})",
    "return same(part({a}))",
    "return same({a}), part({a})",
    "return total({a})",
    "a, b = {a}, {a}\nreturn b",
    "a, b = same(v), part(u)\nreturn a[0] + b[0]",
    "return v if v[0] > 0.5 else u",
    "return v[0] if u[0] > 0.5 else u[1]",
    "if (s := np.sum({a})) > 1:\n    v[0] = s\nreturn s",
    "while v[0] < 4:\n    v[0] += 1\nreturn {a}",
    "while total(v) < 40:\n    for i in range(v.shape[0]):\n        v[i] += 1\nreturn {a}",
)

# Arrays of one length in a func of `v` and `u`, and their names in the kernel.
IN_FUNC = ("v", "u", "same(v)", "same(u)", "v[:]", "u[:v.shape[0]]")

# Values that may be arrays or numbers, in the kernel.
VALUES = (
    "f(x, y)",
    "f(y, x)",
    "f(x, y)",
    "f(f(x, y), y)",
    "f(x[1:], y[1:])",
    "same(f(x, y))",
    "2 * f(x, y)",
    "f(x, y) + x",
    "f(x, y)[0]",
    "f(x, y)[1:]",
    "f(x, y)[::2] * 2",
    "f(x, y).left",
    "f(x, y).T",
    "np.sum(f(x, y))",
    "np.dot(f(x, y), y)",
    "f(x, y).sum()",
    "f(x, y) @ y",
    "len(f(x, y))",
    "f(x, y).shape[0]",
    "f(x, y) if x[0] > 1 else f(y, x)",
    "f(x, y) if n > 1 else f(y, x)",
    "f(x, y)[0] > 1 and f(y, x)[0] > 1",
    "f(x, y) > 1",
    "np.sqrt(f(x, y))",
    "np.where(f(x, y) > 1, x, y)",
    "np.cumsum(f(x, y))",
    "np.sort(x)",
    "np.flip(x)",
    "np.outer(x, y)",
    "np.copy(x)",
    "x.copy()",
    "np.linspace(0, 1, 6)",
    "np.arange(6)",
    "np.ones(6)",
    "np.ones_like(x)",
    "m @ x",
    "m @ m",
    "np.dot(m, x)",
    "m.dot(x)",
    "x.reshape(2, 3)",
    "np.reshape(x, (2, 3))",
    "x.astype(np.float32)",
    "np.concatenate((x, y))",
    "np.array([1, 2])",
    "np.transpose(m)",
    "np.sum(m, axis=0)",
    "m.sum(axis=0)",
    "np.argmax(x)",
    "x[x > 1]",
    "x.flatten()",
    "x.real",
    "np.zeros(n)",
    "np.zeros(k[0])",
    "x",
    "x[1:]",
    "x[k[0]:]",
    "(f(x, y), 1)",
    "(x, f(y, x))",
    "Two(f(x, y), 1)",
    "Pair(x, 2).left",
    "nothing(x)",
    "number(x)",
    "f(*(x, y))",
    "f(x)",
    "-f(x, y)",
    "not f(x, y)",
    "g",
    "None",
    "'text'",
    "np.linalg.norm(x)",
    "x.T[0]",
    "m[0] + f(x, y)",
    "m[k[0]]",
    "np.var(x)",
    "np.diff(x)",
    "np.abs(f(x, y))",
    "max(f(x, y))",
    "sum(x)",
    "round(f(x, y), 1)",
    "f(x, y)[k[0]:k[1]]",
    "0 < total(x) < 9",
    "total(x) + total(y)",
)

# Statements of a kernel; `{v}` is a value.
STATEMENTS = (
    "out[:] = {v}",
    "out[1:] = {v}",
    "out[:] += {v}",
    "out[0] = {v}",
    "out[0] += {v}",
    "out[0], res[0] = {v}",
    "out[:], res[:] = {v}",
    "out[0] = res[0] = {v}",
    "w = {v}\nfor i in range(3):\n    w[i] = 4.0",
    "w = {v}\nfor i in range(3):\n    out[i] = w[i]",
    "w = {v}\nout[:3] = w[:3]",
    "w = {v}\nw[:] = 3",
    "w = {v}\nout[0] = w",
    "a, b = {v}\nout[0] = a\nres[0] = b",
    "a, b = {v}\nout[:] = a",
    "a, b = {v}\nfor i in range(3):\n    out[i] = a[i]\n    res[i] = b",
    "a, *b = {v}\nout[0] = a",
    "(a, b), c = {v}, 1\nout[0] = b",
    "t = {v}, 1\nout[0] = t[0]",
    "t = {v}\nout[0] = t[0]",
    "t = {v}\nout[:] = t.left",
    "if {v}:\n    out[0] = 2",
    "if (s := {v}) > 1:\n    out[0] = s",
    "out[0] = (s := {v})\nres[0] = s",
    "while {v} < 3:\n    x[0] += 1\n    y[0] += 1",
    "for i in range({v}):\n    out[0] += 1",
    "for i in range(3):\n    out[i] = {v}",
    "for i in range(3):\n    w = {v}\n    out[i] = w[0]",
    "for i in qgraph.serial(range(2)):\n    out[:] = {v}\n    for j in range(3):\n        out[j] += i",
    "for i in qgraph.serial(range(2)):\n    w = {v}\n    for j in range(3):\n        out[j] += w[j]",
    "w = x\nfor i in qgraph.serial(range(2)):\n    w = {v}\n    for j in range(3):\n        w[j] += 1",
    "if x[0] > 1:\n    w = {v}\nelse:\n    w = {v}\nout[:] = w",
    "if x[0] > 1:\n    s = {v}\nelse:\n    s = 1.0\nout[0] = s",
    "if x[0] > 1:\n    out[:] = {v}\nfor i in range(3):\n    res[i] = out[i]",
    "{v}",
    "({v})[0] = 3",
    "({v})[:] = 3",
    "return {v}",
    "return {v}, 1",
    "out[:] = number({v})",
    "out[0] = total({v})",
    "nothing({v})\nfor i in range(3):\n    out[i] = x[i]",
    "out[0] = x[{v}]",
    "out[:2] = x[{v}:]",
    "t = qgraph.zeros({v})\nfor i in range(3):\n    t[i] = 2.0\nout[0] = t[1]",
    "t = qgraph.empty_like({v})\nt[:] = 2\nout[0] = t[0]",
    "q = Two({v}, 2)\nout[0] = q.right",
    "q = Pair({v}, x)\nout[:] = q.left",
    "out[:] = np.where(x > 1, {v}, y)",
    "out[:] = x * ({v})",
    "qgraph.atomic_add(out, 0, {v})",
    "print({v})",
    "s = 0.0\nfor i in range(3):\n    s += {v}\nout[0] = s",
    "for i in range(3):\n    z[i] += {v}",
    "w: float = {v}\nout[0] = w",
    "s = {v}\ns = s + 1\nout[0] = s",
    "match {v}:\n    case 1:\n        out[0] = 1\n    case _:\n        out[0] = 2",
    "z[:] = {v}",
    "r = range({v})\nfor i in r:\n    out[i] = 1",
)


def _indented(text: str, by: int = 4) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def arguments() -> list[object]:
    """What a program is called with, the same each time."""
    vectors = [np.linspace(0.5, 3, 6), np.linspace(2, 4, 6), np.full(6, 7.0), np.full(6, 8.0)]
    return [*vectors, np.arange(36.0).reshape(6, 6), np.full(6, 1 + 2j), np.array([1, 4, 2]), 3]


def program(random: Random) -> str:
    """The source of a module with a kernel `program` of (x, y, out, res, m, z, k, n)."""
    body = random.choice(BODIES).format(a=random.choice(IN_FUNC))
    if random.random() < 0.15:
        body = f"if u[0] > 99:\n{_indented(random.choice(BODIES).format(a='v'))}{body}"
    parts = [HEAD, f"\n\n@qgraph.func\ndef f(v, u):\n{_indented(body)}"]
    parts.append("\n\n@qgraph.func\ndef g(v, u):\n    return f(u, v)\n")
    statements = [random.choice(STATEMENTS).format(v=random.choice(VALUES)) for _ in range(random.choice((1, 1, 1, 2)))]
    if random.random() < 0.25:
        statements = [each.replace("f(x, y)", "g(x, y)") for each in statements]
    parts.append(f"\n\ndef program(x, y, out, res, m, z, k, n):\n{_indented(chr(10).join(statements))}")
    return "".join(parts)

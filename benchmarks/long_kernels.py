"""Kernels of many terms, branches, statements or loops: functions with a source, by kind and length."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import qgraph

LOOP = ["    for i in range(x.shape[0]):"]


def terms(length: int) -> list[str]:
    """A sum of so many products: a tree of so many levels."""
    return [*LOOP, f"        x[i] = {_sum(length, 'x[i]', 'y[i]')}"]


def kernel_terms(length: int) -> list[str]:
    """The same by one thread, into an element and a kernel scalar."""
    return [f"    s = {_sum(length, 'x[1]', 'y[2]')}", "    x[0] = s - y[1]", *LOOP, "        y[i] += s"]


def array_terms(length: int) -> list[str]:
    """The same with whole arrays."""
    return [f"    x[:] = {_sum(length, 'x', 'y')}"]


def _sum(length: int, first: str, second: str) -> str:
    # No two orders of these give the same bits.
    return " - ".join(f"{first} * {k}.37" if k % 3 else f"{second} / {k + 7}.1" for k in range(length))


def elifs(length: int) -> list[str]:
    """A chain of `elif` in a loop's body, of which elements take the first, some in the middle, the last, and none."""
    tests = (f"        {'el' if k else ''}if x[i] == {k % length if k < 3 else k - 3}.0:" for k in range(length))
    return [*LOOP, *(line for k, test in enumerate(tests) for line in (test, f"            y[i] -= {k}.25"))]


def kernel_elifs(length: int) -> list[str]:
    """A chain of `elif` that one thread decides."""
    return [f"    {'el' if k else ''}if x[{k % 5}] == {k - length + 5}.0:\n        y[{k % 4}] -= {k}.25" for k in range(length)]


def branches(length: int) -> list[str]:
    """A chain of `elif` with loops in it: branches in branches, of which the last but two is taken."""
    lines = []
    for k in range(length):
        lines += [f"    {'el' if k else ''}if x[{k % 5}] == {k - length + 5}.0:", *_in(LOOP), f"            y[i] -= {k}.25"]
    return lines


def statements(length: int) -> list[str]:
    """A body of many statements."""
    return [*LOOP, *(f"        {'xy'[k % 2]}[i] = x[i] * 0.5 - y[i] / {k + 3}" for k in range(length))]


def serial_statements(length: int) -> list[str]:
    """Many statements for one thread."""
    return [f"    x[{k % 3}] = x[{(k + 1) % 4}] * 0.5 - y[{k % 5}] / {k + 3}" for k in range(length)]


def loops(length: int) -> list[str]:
    """Many loops, each of which needs what the one before it wrote."""
    return [line for k in range(length) for line in (*LOOP, f"        {'xy'[k % 2]}[i] = x[i] * 0.5 - y[i] / {k + 3}")]


def equal_loops(length: int) -> list[str]:
    """Many loops that say the same, of two arrays in turn."""
    return [line for k in range(length) for line in (*LOOP, f"        {'xy'[k % 2]}[i] = {'xy'[k % 2]}[i] * 0.5 + 1.0")]


def scalars(length: int) -> list[str]:
    """Loops that sum up, and scalars made of the sums."""
    lines = ["    s = 0.5"]
    for k in range(length):
        lines += [f"    t{k} = 0.0", *LOOP, f"        t{k} += x[i]", f"    s = s * 0.5 - t{k}", "    x[1] = s"]
    return lines


def device_loops(length: int) -> list[str]:
    """Loops around loops, one after the other, and all in one."""
    lines = ["    for t in qgraph.serial(range(2)):"]
    for k in range(length):
        lines += [
            f"        for s{k} in qgraph.serial(range(2)):",
            *_in(_in(LOOP)),
            f"                x[i] = x[i] * 0.5 - {k}.1",
        ]
    return lines


def conjunctions(length: int) -> list[str]:
    """A chain of `and`, which is one level however long."""
    return [*LOOP, "        y[i] = x[i] < 9 and " + " and ".join(f"x[i] != {k}.5" for k in range(length))]


def choices(length: int) -> list[str]:
    """Conditional expressions in conditional expressions."""
    return [*LOOP, "        y[i] = " + " else ".join(f"{k}.5 if x[i] == {k}" for k in range(length)) + " else -1.5"]


def signs(length: int) -> list[str]:
    """Operators on operators."""
    return [*LOOP, f"        y[i] = {'-' * length}x[i]"]


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


# What makes the body, by kind.
KINDS: dict[str, Callable[[int], list[str]]] = {
    each.__name__: each
    for each in (
        terms,
        kernel_terms,
        array_terms,
        elifs,
        kernel_elifs,
        branches,
        statements,
        serial_statements,
        loops,
        equal_loops,
        scalars,
        device_loops,
        conjunctions,
        choices,
        signs,
    )
}


def long_function(kind: str, length: int) -> Callable[..., Any]:
    """``long(x, y)``, of ``length`` parts of one kind."""
    file = f"<long {kind} {length}>"
    source = "\n".join(["def long(x, y):", *KINDS[kind](length)]) + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"qgraph": qgraph, "__name__": "long_kernels"}
    usual = sys.getrecursionlimit()
    # What CPython's own compiler needs for the longest of them.
    sys.setrecursionlimit(20_000)
    try:
        exec(compile(source, file, "exec"), names)
    finally:
        sys.setrecursionlimit(usual)
    function: Callable[..., Any] = names["long"]
    return function


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Arguments: small integers, of which branches take some, and fractions."""
    return np.arange(7.0), np.linspace(0.3, 1.9, 7)

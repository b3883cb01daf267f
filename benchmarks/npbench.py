"""A table of the programs: ``python -m benchmarks.npbench [--backend cpu] [--scale 1] [NAME ...]``.

For each: how often a word of qgraph stands in its NumPy source; whether the kernel gives what plain Python does; seconds of the
first call, where nothing was compiled before, and of a later one; how many times as long the plain function takes, and
``numba.njit`` of it without those words, or a dash where Numba does not compile that.
"""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import os
import textwrap
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("QGRAPH_CACHE", "0")

import numba
import numpy as np

import qgraph
from qgraph.language import Func
from examples.npbench import data, grids, linear_algebra
from examples.npbench.programs import PROGRAMS, Program

MODULES = (data, grids, linear_algebra)
WORDS = ("serial", "static", "parallel", "Static")
# A later call is the fastest of as many as fit in this many seconds.
PATIENCE = 0.3


class _Plain(ast.NodeTransformer):
    """Takes the words of qgraph away."""

    def __init__(self) -> None:
        self.words = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in WORDS and ast.unparse(node.func.value) == "qgraph":
            self.words += 1
            return node.args[0]
        return node


def words_and_plain(program: Program) -> tuple[int, Callable[..., Any]]:
    """The number of words of qgraph in a program and its helpers, and ``numba.njit`` of it without them."""
    words, namespace = 0, dict(vars(inspect.getmodule(program.function)) or {})
    needed = [program.function]
    for function in needed:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        helpers = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        found = (namespace.get(name) for name in sorted(helpers))
        needed += [each.source.function for each in found if isinstance(each, Func) and each.source.function not in needed]
    for function in reversed(needed):
        tree, plain = ast.parse(textwrap.dedent(inspect.getsource(function))), _Plain()
        definition = plain.visit(tree).body[0]
        words += plain.words
        definition.decorator_list, definition.returns = [], None
        for argument in definition.args.args:
            words += argument.annotation is not None and "Static" in ast.unparse(argument.annotation)
            argument.annotation = None
        exec(compile(ast.fix_missing_locations(tree), "<plain>", "exec"), namespace)
        namespace[function.__name__] = numba.njit(namespace[function.__name__])
    return words, namespace[program.function.__name__]


def seconds(function: Callable[..., Any], args: tuple[Any, ...], backend: str = "cpu") -> float:
    """The fastest of some calls, each with fresh arguments."""
    best, until = float("inf"), time.perf_counter() + PATIENCE
    while best == float("inf") or time.perf_counter() < until:
        given = placed(args, backend)
        qgraph.synchronize()
        start = time.perf_counter()
        function(*given)
        qgraph.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def placed(args: tuple[Any, ...], backend: str) -> tuple[Any, ...]:
    """Copies of arguments, whose arrays are on the device for cuda."""
    if backend != "cuda":
        return copy.deepcopy(args)
    return tuple(qgraph.asarray(each, backend="cuda") if isinstance(each, np.ndarray) else copy.deepcopy(each) for each in args)


def same(one: Any, other: Any) -> bool:
    """Whether results, or arguments after a call, are equal: floats up to rounding."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None:
        return other is None
    one, other = qgraph.to_numpy(one), qgraph.to_numpy(other)
    scale = np.max(np.abs(one), initial=1.0)
    return one.dtype == other.dtype and one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-9 * scale, equal_nan=True)


def row(name: str, backend: str, scale: int) -> str:
    """The line of one program."""
    program = PROGRAMS[name]
    args = program.make(program.size * scale)
    words, plain = words_and_plain(program)
    kernel = qgraph.kernel(backend=backend)(program.function)
    given, expected = placed(args, backend), copy.deepcopy(args)
    start = time.perf_counter()
    try:
        result = kernel(*given)
        qgraph.synchronize()
    except qgraph.QGraphError as error:
        return f"{name:26}{words:5}  refused: {error.found}"
    cold = time.perf_counter() - start
    right = same(kernel.reference(*expected), result) and same(tuple(expected), tuple(given))
    warm = seconds(kernel, args, backend)
    numpy_time = seconds(program.function, args)
    try:
        plain(*copy.deepcopy(args))
        with_numba = f"{seconds(plain, args) / warm:8.2f}"
    except (numba.core.errors.NumbaError, TypeError, AssertionError):
        with_numba = f"{'-':>8}"
    return f"{name:26}{words:5}{'yes' if right else 'NO':>7}{cold:8.2f}{warm:12.6f}{numpy_time / warm:8.2f}{with_numba}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--scale", type=int, default=1, help="how many times the size of the tests")
    parser.add_argument("names", nargs="*", default=sorted(PROGRAMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    row("compute", given.backend, 1)  # what is imported at the first call
    print(f"{'program':26}{'words':>5}{'right':>7}{'cold s':>8}{'warm s':>12}{'x NumPy':>8}{'x Numba':>8}")
    for name in given.names:
        print(row(name, given.backend, given.scale), flush=True)


if __name__ == "__main__":
    main()

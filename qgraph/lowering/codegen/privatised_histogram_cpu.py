"""Privatised histograms on the CPU: a chunk collects colliding updates in an array of its own, which is added up at its end.

Threads that update the same few elements by atomics wait for each other's cache lines at every iteration.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from qgraph.ir.program import Task
from qgraph.ir.trees import assign, at_place, call_of, load
from qgraph.lowering.codegen.generated_names import KEPT_CASTS, Globals, Statements, generated, indented
from qgraph.lowering.codegen.privatised_histogram_cuda import Bins, bin_names, cast_name, changes, fitting, identity, update_of
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_ATOMIC
from qgraph.source import copied

# Iterations of a chunk for each element of the arrays, from which on collecting pays.
_WORTH = 2


def collecting_names(bins: Sequence[Bins]) -> Globals:
    """The globals of the generated statements."""
    kept = {
        f"{cast_name(each)}_{each.combination.keeps}": KEPT_CASTS[each.dtype, each.combination.keeps]
        for each in bins
        if each.combination.keeps
    }
    return {**bin_names(bins), **kept, "_stack_array": intrinsics.stack_array}


def collecting(
    task: Task,
    bins: Sequence[Bins],
    iteration: Statements,
    loops: Callable[[Statements], Statements],
) -> Statements:
    """The ``loops`` of a chunk around ``iteration``, both ways: only the arguments tell whether the arrays are small enough."""
    extents = " + ".join(f"{each.array}.shape[0]" for each in bins)
    mine = {each.array: (f"_mine{number}", cast_name(each)) for number, each in enumerate(bins)}
    rewriter = _Collecting(mine, task.names)
    return generated(
        f"if {fitting(bins)} and (_row1 - _row0) * (_col1 - _col0) >= {_WORTH} * ({extents}):",
        *indented([line for number, each in enumerate(bins) for line in _begin(number, each)]),
        "    collecting",
        *indented([line for number, each in enumerate(bins) for line in _end(number, each)]),
        "else:",
        "    updating",
        # In a module, since one statement may become several.
        collecting=loops(rewriter.visit(ast.Module(copied(list(iteration)), [])).body),
        updating=loops(iteration),
    )


def _begin(number: int, bins: Bins) -> list[str]:
    return [
        f"_mine{number} = _stack_array({bins.array}, {bins.most})",
        f"for _k in _range({bins.array}.shape[0]):",
        f"    _mine{number}[_k] = {cast_name(bins)}({identity(bins)})",
    ]


def _end(number: int, bins: Bins) -> list[str]:
    return [
        f"for _k in _range({bins.array}.shape[0]):",
        f"    _found{number} = _mine{number}[_k]",
        f"    if {changes(bins, f'_found{number}')}: _collect{number}({bins.array}, _k, _found{number})",
    ]


class _Collecting(ast.NodeTransformer):
    """Atomic updates of arrays to plain ones of the chunk's own: for each array, the name, and what converts to its type."""

    def __init__(self, mine: Mapping[str, tuple[str, str]], names: Globals) -> None:
        self._mine = mine
        self._names = names

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        found = update_of(node, self._names)
        if found is None or found[1] not in self._mine:
            return node
        call, array, word = found
        (name, cast), (combination, update) = self._mine[array], BY_ATOMIC[word]
        index, given = call.args[1:]
        cast = f"{cast}_{combination.keeps}" if combination.keeps else cast
        value = call_of(cast, given)
        if update.syntax is not None:
            place = ast.Subscript(load(name), index, ast.Store())
            return at_place(ast.AugAssign(place, update.syntax(), value), node)
        test = f"if _new {combination.better} {name}[_at]: {name}[_at] = _new"
        at, new = (assign(target, each) for target, each in (("_at", index), ("_new", value)))
        return [at_place(line, node) for line in (at, new, *generated(test))]

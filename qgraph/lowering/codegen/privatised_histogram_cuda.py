"""Privatised histograms on CUDA: a block collects colliding updates in shared memory and adds them to the array at its end.

Atomics on shared memory are many times faster than those that all blocks make on the same few places of global memory. Only
at run time is it known whether an array is small enough for that, so the kernel has both ways, and the whole block takes one.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import COARSENING
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task, itemsize
from qgraph.lowering.codegen.generated_names import ELEMENT_CASTS, generated, indented, shared_arrays
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_ATOMIC, COMBINATIONS, Combination
from qgraph.source import copied

# What the arrays of one kernel may take of a block's shared memory: with it, every GPU still fills all its threads.
_SHARED_BYTES = 16384
# Small arrays have so many copies in a block, which neighbouring threads use in turn: fewer meet in one element.
_COPIES = 4
# Iterations for each element of the arrays: in all, and in a block.
_WORTH = 32
_BLOCKS_WORTH = 4
# Blocks without enough iterations do nothing, as long as they are not more than this many for each one that has.
_IDLE = 8
_INTEGERS = ("int32", "uint32", "int64", "uint64")
_FLOATS = ("float32", "float64")
# What does not touch the elements.
_ATTRIBUTES = ("shape", "size", "ndim")


@dataclass(frozen=True, slots=True)
class Bins:
    """An array whose updates by a loop can be collected in shared memory.

    ``array``: its leaf. ``combination``: what its updates do, the first of them with what a block has collected.
    ``most``: the longest array that fits.
    """

    array: str
    dtype: str
    combination: Combination
    most: int


def bins_of(program: Program, task: Task) -> tuple[Bins, ...]:
    """The arrays of one dimension that the loop only updates by atomics that commute, and whose old values nobody takes."""
    # A loop with reductions has a use for shared memory already.
    if not task.axes or task.reductions:
        return ()
    words: dict[str, set[object]] = {}
    for name, word in _updates(task):
        words.setdefault(name, set()).add(word)
    if not words:
        return ()
    others = {name for pair in program.aliases for name in pair} | {leaf for each in task.selections for leaf in each.leaves}
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    used = _uses(task)
    found: list[tuple[str, str, Combination]] = []
    for name, which in words.items():
        type_ = types.get(name)
        combination = next((each for each in COMBINATIONS if which <= {update.atomic for update in each.updates}), None)
        if combination is None or not isinstance(type_, ArrayType) or type_.ndim != 1 or name in others or name in used:
            continue
        if type_.dtype in _INTEGERS or (type_.dtype in _FLOATS and combination.name == "+"):
            found.append((name, type_.dtype, combination))
    share = _SHARED_BYTES // max(1, len(found))
    return tuple(Bins(name, dtype, combination, share // itemsize(dtype)) for name, dtype, combination in found)


def bin_notes(plan: GraphPlan) -> dict[int, str]:
    """By node: which arrays its kernel updates in shared memory, and up to which length."""
    found = {node.index: _note(plan, node) for node in plan.nodes}
    return {index: note for index, note in found.items() if note}


def _note(plan: GraphPlan, node: Node) -> str:
    # Loops side by side have no blocks of their own.
    bins = bins_of(plan.program, node.task) if node.task is not None and not node.beside else ()
    if not bins:
        return ""
    return (
        f"collisions in shared memory, up to {bins[0].most} elements: {', '.join(plan.slot_text(each.array for each in bins))}"
    )


def _updates(task: Task) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The statements that are atomic updates of a named array: its name and the word."""
    for statement in task.body:
        for node in ast.walk(statement):
            call = update_of(node, task.names)
            if call is not None:
                yield call


def update_of(node: ast.AST, names: Mapping[str, object]) -> tuple[str, Callable[..., Any]] | None:
    """The array's name and the word, of a statement that is an atomic update of a named array."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    function = names.get(call.func.id) if isinstance(call.func, ast.Name) else None
    word = next((atomic for atomic in BY_ATOMIC if atomic is function), None)
    if word is None or len(call.args) != 3 or call.keywords:
        return None
    return (call.args[0].id, word) if isinstance(call.args[0], ast.Name) else None


def _uses(task: Task) -> set[str]:
    """The names that stand elsewhere than in an update, but for their shapes."""
    used: set[str] = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _ATTRIBUTES:
            return
        elif update_of(node, task.names) is not None:
            assert isinstance(node, ast.Expr)
            assert isinstance(node.value, ast.Call)
            for argument in node.value.args[1:]:
                look(argument)
        else:
            for child in ast.iter_child_nodes(node):
                look(child)

    for statement in task.body:
        look(statement)
    return used


# --- code -------------------------------------------------------------------------------------------------------------


def bin_names(bins: Sequence[Bins]) -> dict[str, object]:
    """The globals of the generated statements."""
    names: dict[str, object] = {"_max": builtins.max, "_copysign": math.copysign}
    names |= {f"_{word.__name__}": word for word in intrinsics.SPLIT}
    for number, each in enumerate(bins):
        names[f"_type_{each.dtype}"] = np.dtype(each.dtype)
        names[f"_to_{each.dtype}_element"] = ELEMENT_CASTS[each.dtype]
        names[f"_collect{number}"] = each.combination.updates[0].atomic
    return names


def binning(
    task: Task, bins: Sequence[Bins], head: Sequence[ast.stmt], iteration: Sequence[ast.stmt], *, several: bool
) -> list[ast.stmt]:
    """The body of a kernel that strides over ``_n`` iterations, as ``head`` has it; ``iteration`` is what number ``_t`` does.

    ``several``: so many iterations at once, whose loads start together.
    """
    extents = [f"{each.array}.shape[0]" for each in bins]
    idle = _IDLE if several else 1
    lines = [
        "_lane = _cuda.threadIdx.x",
        "_width = _cuda.blockDim.x",
        "_blocks = _cuda.gridDim.x",
        "_first = _cuda.grid(1)",
        "_stride = _cuda.gridsize(1)",
        f"_elements = _max(1, {' + '.join(extents)})",
        # Blocks that have something to do, if they work in shared memory.
        f"_busy = _min(_blocks, _n // ({_BLOCKS_WORTH} * _elements))",
        f"_fit = {' and '.join(f'{extent} <= {each.most}' for extent, each in zip(extents, bins, strict=True))}",
        f"if _fit and _n >= {_WORTH} * _elements and _busy * {idle} >= _blocks:",
        "    if _cuda.blockIdx.x >= _busy: return",
        "    _stride = _busy * _width",
        *indented([line for number, each in enumerate(bins) for line in _begin(number, each)]),
        "    _cuda.syncthreads()",
        "    pass",
        "    _cuda.syncthreads()",
        *indented([line for number, each in enumerate(bins) for line in _end(number, each)]),
        "else: pass",
    ]
    statements = generated("\n".join(lines))
    (choice,) = statements[-1:]
    assert isinstance(choice, ast.If)
    place = next(k for k, each in enumerate(choice.body) if isinstance(each, ast.Pass))
    mine = {each.array: (f"_mine{number}", each.dtype in ("int64", "uint64")) for number, each in enumerate(bins)}
    collecting = [_Collecting(mine, task.names).visit(copied(statement)) for statement in iteration]
    choice.body[place : place + 1] = strided(collecting, several=several)
    # Without other work in the loop, updates of global memory take longer than anything that could overlap.
    alone = task.effects.writes <= {each.array for each in bins}
    choice.orelse = strided(iteration, several=several and not alone)
    return [*_shared_arrays(task, bins), *head, *statements]


def strided(iteration: Sequence[ast.stmt], *, several: bool) -> list[ast.stmt]:
    """Iterations ``_first``, ``_first + _stride`` and so on before ``_n``; with ``several``, so many at once."""
    # Not a range: the compiler would count its iterations by a division, and copy the body some times more. The variable is
    # changed first, because the body may go on with the next iteration anywhere.
    (rest,) = generated("while _first < _n:\n    _t = _assume_ge(_first, 0)\n    _first += _stride")
    assert isinstance(rest, ast.While)
    rest.body += copied(list(iteration))
    if not several:
        return [rest]
    (whole,) = generated(
        f"while _first + {COARSENING - 1} * _stride < _n:\n"
        f"    for _part in _range({COARSENING}):\n"
        "        _t = _assume_ge(_first + _part * _stride, 0)\n"
        f"    _first += {COARSENING} * _stride"
    )
    assert isinstance(whole, ast.While)
    part = whole.body[0]
    assert isinstance(part, ast.For)
    part.body += copied(list(iteration))
    return [whole, rest]


def _begin(number: int, bins: Bins) -> list[str]:
    """The copies of an array, with nothing in them, and the one that this thread uses, as an array of the same length."""
    extent, shared = f"{bins.array}.shape[0]", f"_shared_bins{number}"
    return [
        # An odd distance: the same element of two copies is in two banks.
        f"_apart{number} = {extent} | 1",
        f"_copies{number} = {_COPIES} if _apart{number} * {_COPIES} <= {bins.most} else 1",
        "_k = _lane",
        f"while _k < _apart{number} * (_copies{number} - 1) + {extent}:",
        f"    {shared}[_k] = {cast_name(bins)}({identity(bins)})",
        "    _k += _width",
        f"_start{number} = _lane % _copies{number} * _apart{number}",
        f"_mine{number} = {shared}[_start{number}:_start{number} + {extent}]",
    ]


def _end(number: int, bins: Bins) -> list[str]:
    """Combine the copies, and update the array by what is not the identity."""
    shared, found, more, cast = f"_shared_bins{number}", f"_found{number}", f"_more{number}", cast_name(bins)
    better = bins.combination.better
    combine = [f"if {more} {better} {found}: {found} = {more}"]
    if not better:
        combine = [f"{found} = {cast}({found} {bins.combination.name} {more})"]
    return [
        "_k = _lane",
        f"while _k < {bins.array}.shape[0]:",
        f"    {found} = {shared}[_k]",
        f"    _place = _apart{number} + _k",
        f"    while _place < _apart{number} * _copies{number}:",
        f"        {more} = {shared}[_place]",
        *indented(combine, 2),
        f"        _place += _apart{number}",
        f"    if {changes(bins, found)}: _collect{number}({bins.array}, _k, {found})",
        "    _k += _width",
    ]


def changes(bins: Bins, found: str) -> str:
    """The test whether what was collected for an element, ``found``, is more than the identity."""
    if bins.dtype in _FLOATS:
        # All but -0.0, which changes nothing: elements that no iteration touched stay as they are, bit for bit.
        return f"{found} != 0 or _copysign(1, {found}) > 0"
    return f"{found} != {cast_name(bins)}({identity(bins)})"


def identity(bins: Bins) -> str:
    """What an update by changes nothing."""
    return bins.combination.identity(bins.dtype)


def cast_name(bins: Bins) -> str:
    """The function that converts to the type of an array's elements."""
    return f"_to_{bins.dtype}_element"


def _shared_arrays(task: Task, bins: Sequence[Bins]) -> list[ast.stmt]:
    lines = [f"_shared_bins{k} = _cuda.shared.array({each.most}, _type_{each.dtype})" for k, each in enumerate(bins)]
    return shared_arrays(task.span, lines)


class _Collecting(ast.NodeTransformer):
    """Updates of arrays to those of the copies in shared memory: for each array, the name, and whether halves are added."""

    def __init__(self, mine: Mapping[str, tuple[str, bool]], names: Mapping[str, object]) -> None:
        self._mine = mine
        self._names = names

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        found = update_of(node, self._names)
        if found is None or found[0] not in self._mine:
            return node
        call = node.value
        assert isinstance(call, ast.Call)
        array, function = call.args[0], call.func
        assert isinstance(array, ast.Name)
        assert isinstance(function, ast.Name)
        array.id, halves = self._mine[array.id]
        in_halves = BY_ATOMIC[found[1]][1].in_halves
        if halves and in_halves is not None:
            function.id = f"_{in_halves.__name__}"
        return node

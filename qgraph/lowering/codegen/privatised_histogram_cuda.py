"""Privatised histograms on CUDA: a block collects colliding updates in shared memory and adds them to the array at its end.

Atomics on shared memory are many times faster than those that all blocks make on the same few places of global memory. Only
at run time is it known whether an array is small enough for that, so the kernel has both ways, and the whole block takes one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import COARSENING
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.ir.slots import itemsize
from qgraph.ir.trees import load
from qgraph.lowering.codegen.generated_names import ELEMENT_CASTS, Globals, Statements, generated, indented, shared_arrays, walk
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_ATOMIC, COMBINATIONS, Combination
from qgraph.records import dataclass
from qgraph.source import children_of, copied

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
    for node in walk(task.body):
        update = update_of(node, task.names)
        if update is not None:
            words.setdefault(update[1], set()).add(update[2])
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


def update_of(node: ast.AST, names: Globals) -> tuple[ast.Call, str, Callable[..., Any]] | None:
    """The call, the array's name and the word, of a statement that is an atomic update of a named array."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id=function), args=[ast.Name(id=array), _, _], keywords=[]) as call):
            word = next((atomic for atomic in BY_ATOMIC if atomic is names.get(function)), None)
            return None if word is None else (call, array, word)
    return None


def _uses(task: Task) -> set[str]:
    """The names that stand elsewhere than in an update, but for their shapes."""
    used: set[str] = set()
    waiting: list[ast.AST] = list(task.body)
    while waiting:
        node = waiting.pop()
        update = update_of(node, task.names)
        match node:
            case ast.Name(id=name):
                used.add(name)
            case ast.Attribute(value=ast.Name(), attr=attribute) if attribute in _ATTRIBUTES:
                pass
            case _:
                waiting += children_of(node) if update is None else update[0].args[1:]
    return used


# --- code -------------------------------------------------------------------------------------------------------------


def bin_names(bins: Sequence[Bins]) -> Globals:
    """The globals of the generated statements."""
    names: dict[str, object] = {f"_{word.__name__}": word for word in intrinsics.SPLIT}
    for number, each in enumerate(bins):
        names[f"_type_{each.dtype}"] = np.dtype(each.dtype)
        names[f"_to_{each.dtype}_element"] = ELEMENT_CASTS[each.dtype]
        names[f"_collect{number}"] = each.combination.updates[0].atomic
    return names


def binning(task: Task, bins: Sequence[Bins], head: Statements, iteration: Statements, *, several: bool) -> Statements:
    """The body of a kernel that strides over ``_n`` iterations, as ``head`` has it; ``iteration`` is what number ``_t`` does.

    ``several``: so many iterations at once, whose loads start together.
    """
    extents = [f"{each.array}.shape[0]" for each in bins]
    idle = _IDLE if several else 1
    mine = {each.array: (f"_mine{number}", each.dtype in ("int64", "uint64")) for number, each in enumerate(bins)}
    rewriter = _Collecting(mine, task.names)
    # Without other work in the loop, updates of global memory take longer than anything that could overlap.
    alone = task.effects.writes <= {each.array for each in bins}
    statements = generated(
        "_lane = _cuda.threadIdx.x",
        "_width = _cuda.blockDim.x",
        "_blocks = _cuda.gridDim.x",
        "_first = _cuda.grid(1)",
        "_stride = _cuda.gridsize(1)",
        f"_elements = _max(1, {' + '.join(extents)})",
        # Blocks that have something to do, if they work in shared memory.
        f"_busy = _min(_blocks, _n // ({_BLOCKS_WORTH} * _elements))",
        f"_fit = {fitting(bins)}",
        f"if _fit and _n >= {_WORTH} * _elements and _busy * {idle} >= _blocks:",
        "    if _cuda.blockIdx.x >= _busy: return",
        "    _stride = _busy * _width",
        *indented([line for number, each in enumerate(bins) for line in _begin(number, each)]),
        "    _cuda.syncthreads()",
        "    collecting",
        "    _cuda.syncthreads()",
        *indented([line for number, each in enumerate(bins) for line in _end(number, each)]),
        "else:",
        "    updating",
        collecting=strided([rewriter.visit(each) for each in copied(list(iteration))], several=several),
        updating=strided(iteration, several=several and not alone),
    )
    arrays = [f"_shared_bins{k} = _cuda.shared.array({each.most}, _type_{each.dtype})" for k, each in enumerate(bins)]
    return [*shared_arrays(task.span, arrays), *head, *statements]


def fitting(bins: Sequence[Bins]) -> str:
    """The test whether all arrays are small enough."""
    return " and ".join(f"{each.array}.shape[0] <= {each.most}" for each in bins)


def strided(iteration: Statements, *, several: bool) -> Statements:
    """Iterations ``_first``, ``_first + _stride`` and so on before ``_n``; with ``several``, so many at once."""
    together = [
        f"while _first + {COARSENING - 1} * _stride < _n:",
        f"    for _part in _range({COARSENING}):",
        "        _t = _assume_ge(_first + _part * _stride, 0)",
        "        iteration",
        f"    _first += {COARSENING} * _stride",
    ]
    return generated(
        *(together if several else ()),
        # Not a range: the compiler would count its iterations by a division, and copy the body some times more. The variable
        # is changed first, because the body may go on with the next iteration anywhere.
        "while _first < _n:",
        "    _t = _assume_ge(_first, 0)",
        "    _first += _stride",
        "    iteration",
        iteration=iteration,
    )


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


class _Collecting(ast.NodeTransformer):
    """Updates of arrays to those of the copies in shared memory: for each array, the name, and whether halves are added."""

    def __init__(self, mine: Mapping[str, tuple[str, bool]], names: Globals) -> None:
        self._mine = mine
        self._names = names

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        found = update_of(node, self._names)
        if found is None or found[1] not in self._mine:
            return node
        call, array, word = found
        name, halves = self._mine[array]
        call.args[0] = ast.copy_location(load(name), call.args[0])
        in_halves = BY_ATOMIC[word][1].in_halves
        if halves and in_halves is not None:
            call.func = ast.copy_location(load(f"_{in_halves.__name__}"), call.func)
        return node

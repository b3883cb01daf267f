"""Loops that only fill an array with one literal, or copy an array: memset and memcpy nodes instead of kernels.

Only in the root of the graph: a memset in the body of a conditional node cannot be updated when arrays change. Backends without
a graph, and launches one by one, run the loop as any other.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qgraph.ir.plan import Box, GraphPlan, Node
from qgraph.ir.program import ArrayType, Axis, Program, Task

# The widest element that a memset writes, in bytes.
_WIDEST = 4


def mark_fills_and_copies(plan: GraphPlan) -> GraphPlan:
    """The plan in which such loops are ``memset`` and ``memcpy`` nodes, each with its box."""
    return replace(plan, nodes=tuple(_marked(plan.program, node) for node in plan.nodes))


def _marked(program: Program, node: Node) -> Node:
    box = None if node.task is None or node.region != 0 else _box(program, node.task)
    if box is None:
        return node
    return replace(node, kind="memcpy" if box.source else "memset", box=box)


def _box(program: Program, task: Task) -> Box | None:
    """What the loop writes, if it is nothing but a fill or a copy of one box of a C-contiguous array."""
    if not task.axes or task.on_device or task.reductions or task.scalars or task.selections:
        return None
    match task.body:
        case (ast.Assign(targets=[ast.Subscript(value=ast.Name(id=target), slice=index)], value=value),):
            pass
        case _:
            return None
    type_ = _arrays(program).get(target)
    places = _places(task, index)
    if type_ is None or type_.layout != "C" or places is None or len(places.starts) != type_.ndim:
        return None
    box = Box(target, places.starts, places.counts)
    if isinstance(value, ast.Subscript):
        return _copy(program, task, box, value)
    pattern = _pattern(task, value, type_.dtype)
    if pattern is None or not _is_rows(program, box):
        return None
    size = min(_WIDEST, len(pattern))
    if pattern != pattern[:size] * (len(pattern) // size):
        return None
    return replace(box, value=int.from_bytes(pattern[:size], "little"), size=size)


def _copy(program: Program, task: Task, box: Box, value: ast.Subscript) -> Box | None:
    """The box with its source, if the loop copies a box of an array that shares no memory with the target.

    Parts of two-dimensional arrays stay kernels: a copy with a pitch cannot be told of other arrays.
    """
    places = _places(task, value.slice)
    if not isinstance(value.value, ast.Name) or places is None or places.counts != box.counts:
        return None
    source, types = value.value.id, _arrays(program)
    alike = source in types and replace(types[source], readonly=False) == replace(types[box.target], readonly=False)
    shared = source == box.target or any({source, box.target} == set(pair) for pair in program.aliases)
    fits = len(box.counts) == 1 or (len(box.counts) == 2 and all(_whole_axes(program, box)))
    return replace(box, source=source, source_starts=places.starts) if alike and fits and not shared else None


def _arrays(program: Program) -> dict[str, ArrayType]:
    return {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}


@dataclass(frozen=True, slots=True)
class _Places:
    """The elements that an index takes while the loop runs: on each axis of the array the first one, and how many."""

    starts: tuple[int, ...]
    counts: tuple[str | int, ...]


def _places(task: Task, index: ast.expr) -> _Places | None:
    """The box of elements that ``index`` takes: all loop variables in order, plus constants, and constants between them."""
    parts: Sequence[ast.expr] = index.elts if isinstance(index, ast.Tuple) else [index]
    if isinstance(index, ast.Name) and index.id == task.index_tuple:
        parts = [ast.Name(axis.variable, ast.Load()) for axis in task.axes]
    axes = list(task.axes)
    starts: list[int] = []
    counts: list[str | int] = []
    for part in parts:
        start: int
        count: str | int = 1
        match part:
            case ast.Constant(value=int(start)):
                pass
            case ast.Name(id=name):
                start, count = _along(axes, name)
            case ast.BinOp(op=ast.Add(), left=ast.Constant(value=int(offset)), right=ast.Name(id=name)):
                start, count = _along(axes, name)
                start = offset + start if start >= 0 else start
            case _:
                return None
        if start < 0:
            return None
        starts.append(start)
        counts.append(count)
    return None if axes else _Places(tuple(starts), tuple(counts))


def _along(axes: list[Axis], name: str) -> tuple[int, str | int]:
    """First value and number of values of loop variable ``name``, which must be the next one; -1 where it cannot be told."""
    axis = axes.pop(0) if axes and axes[0].variable == name else None
    match axis:
        case Axis(start=ast.Constant(value=int(first)), step=ast.Constant(value=1), count=ast.Name(id=count)):
            return (first, count) if first >= 0 else (-1, 0)
        case _:
            return -1, 0


def _whole_axes(program: Program, box: Box) -> list[bool]:
    """Which axes of the array are covered from end to end, whatever the arguments."""
    sources: dict[str | int, str] = {value.name: value.source for value in program.host_values}
    extents = [f"max(0, {box.target}.shape[{axis}])" for axis in range(len(box.counts))]
    triples = zip(box.starts, box.counts, extents, strict=True)
    return [start == 0 and sources.get(count) == extent for start, count, extent in triples]


def _is_rows(program: Program, box: Box) -> bool:
    """Whether the box is rows of one length, one distance apart, whatever the arguments.

    The whole axes at the end and the one before them are one stretch of memory; of the others, one may have several places.
    """
    whole = _whole_axes(program, box)
    partial = [axis for axis, covered in enumerate(whole) if not covered]
    return sum(count != 1 for count in box.counts[: partial[-1]]) <= 1 if partial else True


def _pattern(task: Task, value: ast.expr, dtype: str) -> bytes | None:
    """The bytes of one element that holds the literal ``value``; None where it is none, or the kernel must convert it."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and len(value.args) == 1:
        kind = task.names.get(value.func.id)
        if kind is not np.float32 and kind is not np.complex64:
            return None
        (value,) = value.args
    try:
        number: object = ast.literal_eval(value)
    except ValueError:
        return None
    if not isinstance(number, (bool, int, float, complex)):
        return None
    return _converted(number, np.dtype(dtype))


def _converted(number: bool | int | float | complex, dtype: np.dtype) -> bytes | None:
    """``number`` in the bytes of ``dtype``, where there is no doubt what they are."""
    if dtype.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        whole = number.real
        if number.imag != 0 or not float(whole).is_integer() or not low <= whole <= high:
            return None
        return np.array(int(whole)).astype(dtype).tobytes()
    if type(number) is complex and dtype.kind != "c":
        return None
    with np.errstate(over="ignore"):
        element = np.array(number).astype(dtype)
    # What is rounded twice on the way may differ in the last bit.
    rounded_once = type(number) is float and dtype.name in ("float32", "float64")
    return element.tobytes() if rounded_once or complex(element) == complex(number) else None

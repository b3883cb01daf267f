"""Loops that only fill an array with one literal, or copy an array: memset and memcpy nodes instead of kernels.

Only in the root of the graph: a memset in the body of a conditional node cannot be updated when arrays change. Backends without
a graph, and launches one by one, run the loop as any other.
"""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np

from qgraph.plan import Box, GraphPlan, Node
from qgraph.program import ArrayType, Axis, Program, Task

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
    arrays = {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
    type_ = arrays.get(target)
    starts = _starts(task.axes)
    if type_ is None or type_.layout != "C" or type_.ndim != len(task.axes) or starts is None or not _is_index(task, index):
        return None
    counts = tuple(axis.count.id for axis in task.axes if isinstance(axis.count, ast.Name))
    whole = _whole_axes(program, target, starts, counts)
    if isinstance(value, ast.Subscript):
        return _copy(program, task, Box(target, starts, counts), value, all(whole))
    # Of three axes and more, only what is one stretch of memory.
    pattern = _pattern(task, value, type_.dtype)
    if pattern is None or (type_.ndim > 2 and not all(whole[1:])):
        return None
    size = min(_WIDEST, len(pattern))
    if pattern != pattern[:size] * (len(pattern) // size):
        return None
    return Box(target, starts, counts, value=int.from_bytes(pattern[:size], "little"), size=size)


def _copy(program: Program, task: Task, box: Box, value: ast.Subscript, whole: bool) -> Box | None:
    """The box with its source, if the loop copies from the same places of an array that shares no memory with the target.

    Parts of two-dimensional arrays stay kernels: a copy with a pitch cannot be told of other arrays.
    """
    if not isinstance(value.value, ast.Name) or not _is_index(task, value.slice):
        return None
    source = value.value.id
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    alike = types.get(source) is not None and _unlocked(types[source]) == _unlocked(types[box.target])
    shared = source == box.target or any({source, box.target} == set(pair) for pair in program.aliases)
    fits = len(box.counts) == 1 or (len(box.counts) == 2 and whole)
    return replace(box, source=source) if alike and fits and not shared else None


def _unlocked(type_: object) -> object:
    return replace(type_, readonly=False) if isinstance(type_, ArrayType) else None


def _starts(axes: tuple[Axis, ...]) -> tuple[int, ...] | None:
    """The first index on each axis, if they are constants, not negative, and each step is 1 and each count the host's."""
    starts = []
    for axis in axes:
        match axis:
            case Axis(start=ast.Constant(value=int(start)), step=ast.Constant(value=1), count=ast.Name()) if start >= 0:
                starts.append(start)
            case _:
                return None
    return tuple(starts)


def _is_index(task: Task, index: ast.expr) -> bool:
    """Whether ``index`` is all loop variables, in order."""
    if isinstance(index, ast.Name) and index.id == task.index_tuple:
        return True
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return len(names) == len(parts) and names == [axis.variable for axis in task.axes]


def _whole_axes(program: Program, leaf: str, starts: tuple[int, ...], counts: tuple[str, ...]) -> list[bool]:
    """Which axes are covered from end to end, whatever the arguments."""
    sources = {value.name: value.source for value in program.host_values}
    extents = [f"max(0, {leaf}.shape[{axis}])" for axis in range(len(counts))]
    return [start == 0 and sources[count] == extent for start, count, extent in zip(starts, counts, extents, strict=True)]


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

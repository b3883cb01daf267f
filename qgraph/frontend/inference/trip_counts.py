"""Uncoalesced inner loops of parallel loops: the mean trip count, as far as the host knows it, picks the threads per row.

The trip count is known from its range, as in the product of a dense matrix, or from
the length of an array that all iterations together run through once, as in that of a sparse one.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import FEW_INSIDE
from qgraph.ir.program import Branch, Loop, Statement, Task, TaskStatement
from qgraph.ir.trees import call_of, names_in, operands_of, parsed, parts_of, with_operands
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

# More inner iterations than this make no difference, and it fits 64 bits whatever the arguments are.
_MOST = 1 << 30
# Lanes that share an iteration of which other threads read the neighbouring elements: a warp then reads as many rows, and still
# whole sectors of 32 bytes of each.
_LANES_APART = 8


def with_inner_lengths(unit: ProgramBuilder, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """``statements`` with ``Task.inner_length`` of their parallel loops, those in device loops and branches too."""
    return tuple(_with_lengths(unit, statement) for statement in statements)


def _with_lengths(unit: ProgramBuilder, statement: Statement) -> Statement:
    match statement:
        case TaskStatement(task=task):
            found = _length(unit, task)
            if found is None:
                return statement
            length, broadcast, lanes = found
            return TaskStatement(replace(task, inner_length=length, broadcast=broadcast, most_lanes=lanes))
        case Loop():
            return replace(statement, body=with_inner_lengths(unit, statement.body))
        case Branch():
            return replace(statement, regions=tuple(with_inner_lengths(unit, region) for region in statement.regions))
    return statement


def _length(unit: ProgramBuilder, task: Task) -> tuple[str, bool, int] | None:
    """The name of the host value, ``Task.broadcast`` and ``Task.most_lanes``; None where nobody knows the length."""
    # Values of all iterations are combined in blocks of another shape.
    if not task.axes or task.reductions:
        return None
    loops = inner_loops(task)
    if not loops:
        return None
    lengths = [_known_length(unit, task, inner) for inner in loops]
    known = _longest(lengths)
    count = None if known is None else constant_of(known)
    if isinstance(count, int) and count < FEW_INSIDE:
        return None
    reads = [(read, inner) for inner in loops for read in _reads(unit, task, inner.loop)]
    if known is None and len(loops) > 1:
        return None
    if len(task.axes) > 1 and (known is None or not all(_streams(task, reads, inner) for inner in loops)):
        return None
    if any(_runs_outside(read, inner) for read, inner in reads):
        # Neighbouring threads read neighbouring elements, in as many rows as lanes share an iteration.
        if known is None:
            return None
        # Where nobody knows how many iterations there are: correlation in ``benchmarks.npbench``, a triangle of 3200 columns of
        # 4000, took an H200 423, 363 and 292 ms with 8, 16 and 32 lanes.
        return _named(unit, task, loops, known), True, 0 if task.on_device else _LANES_APART
    along = [(read, inner) for read, inner in reads if coefficient(read.last, inner.variable) == 1]
    broadcast = False
    if known is not None:
        # All threads run through the same range: what depends on it alone is one element for all of them.
        broadcast = not any(names_in(read.index) & inner.varying for read, inner in along)
        length = known
    else:
        (inner,) = loops
        whole = [read.array for read, _ in along if isinstance(read.index, ast.Name)]
        if task.on_device or not whole or not names_in(inner.start) & inner.varying:
            return None
        outer = on_host(unit, task.axes[0].count)
        assert outer is not None, "a count that the host knows is a host value"
        size = unit.shape_of(unit.host_name(unit.leaves[whole[0]]))
        length = parsed(f"{size}[0] // max(1, {ast.unparse(outer)})")
    return _named(unit, task, loops, length), broadcast, 0


def _longest(lengths: Sequence[ast.expr | None]) -> ast.expr | None:
    """The greatest of some lengths; None where one is not known."""
    known = {ast.unparse(length): length for length in lengths if length is not None}
    if None in lengths:
        return None
    counts = [count for length in known.values() if isinstance(count := constant_of(length), int)]
    if len(counts) == len(known):
        return ast.Constant(max(counts))
    return call_of("max", *known.values()) if len(known) > 1 else next(iter(known.values()))


def _streams(task: Task, reads: Iterable[tuple[_Read, InnerLoop]], inner: InnerLoop) -> bool:
    """Whether iterations of several axes read elements of their own, one behind the other, or the same as all others.

    What some of them share they load together where threads have rows, or tiles, of iterations.
    """
    axes = {axis.variable for axis in task.axes}
    own = [read for read, loop in reads if loop is inner and _varies(read, inner) and names_in(read.index) & axes]
    return all(axes <= names_in(read.index) and coefficient(read.last, inner.variable) == 1 for read in own) and own != []


def _named(unit: ProgramBuilder, task: Task, loops: Sequence[InnerLoop], length: ast.expr) -> str:
    return unit.host_value(length, task.span, text=f"the average length of the loop at line {loops[0].loop.lineno}").id


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop ``for variable in range(start, stop)`` in a parallel loop.

    ``before`` are the statements that come before it. ``outer`` is the variable of the parallel loop, of its last axis, and
    what is like it; ``varying`` are those of all axes and all names that its iterations assign before.
    """

    loop: ast.For
    variable: str
    start: ast.expr
    stop: ast.expr
    before: list[ast.stmt]
    outer: frozenset[str]
    varying: frozenset[str]


def inner_loops(task: Task) -> list[InnerLoop]:
    """The innermost loops of a parallel loop, in their order; none where one may not run, or not over a range."""
    before: list[ast.stmt] = []
    found: list[InnerLoop] = []
    return found if _look(task, task.body, before, found) else []


def _look(task: Task, statements: Sequence[ast.stmt], before: list[ast.stmt], found: list[InnerLoop]) -> bool:
    for statement in statements:
        if _has_loops([statement]):
            match statement:
                case ast.For(ast.Name(id=variable), ast.Call(func=ast.Name(id=name), args=[start, stop, step]), orelse=[]):
                    pass
                case _:
                    return False
            if task.names.get(name) is not builtins.range:
                return False
            if _has_loops(statement.body):
                if not _look(task, statement.body, before, found):
                    return False
            elif ast.unparse(step) != "1":
                return False
            else:
                outer = task.axes[-1].variable
                near = {outer} | {each for each, value in _assigned(before) if abs(coefficient(value, outer) or 0) == 1}
                varying = frozenset({*(axis.variable for axis in task.axes), *names_assigned(before)})
                found.append(InnerLoop(statement, variable, start, stop, [*before], frozenset(near), varying))
        before.append(statement)
    return True


def _has_loops(statements: Iterable[ast.stmt]) -> bool:
    return any(isinstance(node, (ast.For, ast.While)) for each in statements for node in nodes_of(each))


def _assigned(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value


# --- what is read ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """An element of ``array``; ``last`` is its index along the axis whose elements are neighbours in memory."""

    array: str
    index: ast.expr
    last: ast.expr


def _reads(unit: ProgramBuilder, task: Task, loop: ast.For) -> Iterator[_Read]:
    for statement in loop.body:
        for node in nodes_of(statement):
            if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
                continue
            leaf = unit.leaves.get(node.value.id)
            parts = parts_of(node)
            if leaf is not None and isinstance(leaf.type, ArrayType) and len(parts) == leaf.type.ndim > 0:
                first = leaf.type.layout == "F" and leaf.type.ndim > 1
                yield _Read(leaf.name, node.slice, _without_assumption(task, parts[0 if first else -1]))


def _without_assumption(task: Task, index: ast.expr) -> ast.expr:
    """An index of which the compiler is told that it is not negative."""
    match index:
        case ast.Call(func=ast.Name(id=name), args=[bare, _]) if task.names.get(name) is intrinsics.assume_ge:
            return bare
    return index


def _runs_outside(read: _Read, inner: InnerLoop) -> bool:
    """Whether neighbouring threads, each with an iteration of the parallel loop, read neighbouring elements."""
    if not _varies(read, inner):
        return False
    return any(abs(coefficient(read.last, name) or 0) == 1 for name in inner.outer)


def _varies(read: _Read, inner: InnerLoop) -> bool:
    """Whether each inner iteration may read another element."""
    return inner.variable in names_in(read.index)


def coefficient(node: ast.expr, name: str) -> int | None:
    """How often ``name`` is added in ``node``: 0, 1, -1 and so on, None where it is part of anything but a sum."""
    match node:
        case ast.Name(id=found):
            return int(found == name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = coefficient(operand, name)
            return None if value is None else -value
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            first, second = coefficient(left, name), coefficient(right, name)
            if first is None or second is None:
                return None
            return first + second if isinstance(op, ast.Add) else first - second
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if (factor := constant_of(left)) is not None:
            value = coefficient(right, name)
            return None if value is None else factor * value
    return None if name in names_in(node) else 0


# --- what the host knows -----------------------------------------------------------------------------------------------


def _known_length(unit: ProgramBuilder, task: Task, inner: InnerLoop) -> ast.expr | None:
    """How many iterations the loop has on average, where what its bounds are made of goes over ranges that the host knows."""
    means = _Means(unit, task)
    means.note(inner.before)
    start, stop = means.of(inner.start), means.of(inner.stop)
    if start is None or stop is None:
        return None
    match constant_of(start), constant_of(stop):
        case int(first), int(last):
            return ast.Constant(max(last - first, 0))
    text = f"min(max(({ast.unparse(stop)}) - ({ast.unparse(start)}), 0), {_MOST})"
    return parsed(text)


class _Means:
    """Numbers of a body as expressions of the host: the variables of loops are in the middle of their ranges."""

    def __init__(self, unit: ProgramBuilder, task: Task) -> None:
        self._unit = unit
        self._names = task.names
        self._known: dict[str, ast.expr] = {}
        for local, slot in task.scalars:
            if slot.name in unit.serial_ranges:
                start, stop, _ = unit.serial_ranges[slot.name]
                self._known[local] = _middle(start, stop)
        facts = unit.judged.get(task.name)
        for axis in facts.axes if facts is not None else ():
            ends = self.of(axis.start), self.of(axis.stop)
            if ends[0] is not None and ends[1] is not None:
                self._known[axis.variable] = _middle(ends[0], ends[1])

    def note(self, statements: Iterable[ast.stmt]) -> None:
        """What is assigned has the mean of its value."""
        for name, value in _assigned(statements):
            mean = self.of(value)
            if mean is not None:
                self._known[name] = mean
            else:
                self._known.pop(name, None)

    def of(self, node: ast.expr) -> ast.expr | None:
        """The mean of a number; None where the host does not know it."""
        match node:
            case ast.Name(id=name) if name in self._known:
                return copied(self._known[name])
            case ast.Call(func=ast.Name(id=name), args=[first, *others]):
                return self._of_call(self._names.get(name), first, others)
            case ast.IfExp(test=ast.Compare(ops=[_]) as test):
                decided = with_operands(test, [self.of(each) for each in operands_of(test)])
                chosen = [self.of(each) for each in (node.body, node.orelse)]
                return with_operands(node, [decided, *chosen])
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.UnaryOp(op=ast.USub()):
                return with_operands(node, [self.of(operand) for operand in operands_of(node)])
        return on_host(self._unit, node)

    def _of_call(self, function: object, first: ast.expr, others: Sequence[ast.expr]) -> ast.expr | None:
        if function in (operator.index, intrinsics.same_length, intrinsics.assume_ge):
            return self.of(first)
        if function not in (min, max) or len(others) != 1:
            return None
        one, other = self.of(first), self.of(others[0])
        return None if one is None or other is None else call_of("min" if function is min else "max", one, other)


def _middle(start: ast.expr, stop: ast.expr) -> ast.expr:
    return ast.BinOp(ast.BinOp(copied(start), ast.Add(), copied(stop)), ast.FloorDiv(), ast.Constant(2))


def on_host(unit: ProgramBuilder, node: ast.expr) -> ast.expr | None:
    """A bound in a body as an expression of the host: Python integers, and their sums and products, which cannot fail."""
    values: Mapping[str, str] = {value.name: value.source for value in unit.host_values}
    match node:
        case ast.Constant(value=int()):
            return copied(node)
        case ast.Name(id=name) if name in values:
            return parsed(f"int({values[name]})")
        case ast.Name(id=name) if name in unit.leaves:
            type_ = unit.leaves[name].type
            integer = not isinstance(type_, ArrayType) and np.dtype(type_.dtype).kind in "iu"
            return parsed(f"int({name})") if integer else None
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(axis))):
            leaf = unit.leaves.get(name)
            shape = None if leaf is None else unit.shape_of(unit.host_name(leaf))
            return None if shape is None else parsed(f"{shape}[{axis}]")
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.UnaryOp(op=ast.USub()):
            return with_operands(node, [on_host(unit, operand) for operand in operands_of(node)])
    return None

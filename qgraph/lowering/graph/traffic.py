"""What an iteration of a loop asks of memory and computes, counted in its code."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

import numpy as np

from qgraph import language
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast, Program, Task
from qgraph.operations.table import is_one_of, operation
from qgraph.records import dataclass
from qgraph.source import children_of, nodes_of

# What computes nothing that the user wrote.
_FREE = (type, Cast)
_MOST_DEEP = 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one iteration: bytes of elements loaded and stored, each element once, and operations on numbers.

    Attributes:
        memory: bytes of memory, where elements that lie beside each other, as ``x[i - 1]`` and ``x[i + 1]``, are those of one
            iteration each.
        at_most: some of it is done under a condition.
        why_not: where this cannot be counted, the reason; all else is 0 then.
        of: what an iteration is, for people.
    """

    loads: int = 0
    stores: int = 0
    memory: int = 0
    operations: int = 0
    at_most: bool = False
    why_not: str = ""
    of: Literal["iteration", "tile"] = "iteration"

    def __str__(self) -> str:
        one = f"{'an' if self.of == 'iteration' else 'a'} {self.of}"
        if self.why_not:
            return f"{one} is not counted: {self.why_not}"
        most = "at most " if self.at_most else ""
        shared = self.memory < self.loads + self.stores
        moved = f", {self.memory} of memory where neighbours share elements" if shared else ""
        # Of a tile they may not be known.
        work = f"; {self.operations:,} operations" if self.operations or self.of == "iteration" else ""
        return f"{one}: {most}{self.loads:,} bytes loaded and {self.stores:,} stored{moved}{work}"


def traffic(program: Program, task: Task) -> Traffic:
    """What an iteration of a loop takes."""
    if task.tile is not None:
        tile = task.tile
        return Traffic(tile.loads, tile.stores, tile.loads + tile.stores, tile.operations, of="tile")
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    sizes = {name: np.dtype(type_.dtype).itemsize for name, type_ in types.items() if isinstance(type_, ArrayType)}
    sizes |= {each.local: sizes[each.leaves[0]] for each in task.selections}
    count = _Count({name: name for name in sizes}, task.names, frozenset(axis.variable for axis in task.axes))
    try:
        count.statements(task.body)
    except _Unknown as error:
        return Traffic(why_not=str(error))
    loads, stores = ({key: sizes[key[0]] * many for key, many in each.items()} for each in (count.loads, count.stores))
    # Elements at constant distances are those of neighbouring iterations.
    moved = {
        (leaf, _without_offsets(index), stored): sizes[leaf]
        for stored, found in ((False, count.loads), (True, count.stores))
        for leaf, index in found
    }
    several = {key: many for found in (count.loads, count.stores) for key, many in found.items() if many > 1}
    memory = sum(loads.values()) + sum(stores.values()) if several else sum(moved.values())
    return Traffic(sum(loads.values()), sum(stores.values()), memory, count.operations, count.branches)


class _Unknown(Exception):  # noqa: N818 - no error: it is told
    """What an iteration takes does not follow from its code."""


@dataclass(slots=True)
class _Count:
    """Counts in the statements of one function; ``arrays`` are its names of arrays, with the leaves that they stand for."""

    arrays: Mapping[str, str]
    names: Mapping[str, object]
    variables: frozenset[str]
    # By leaf and index, as it is written: how many elements that means.
    loads: dict[tuple[str, str], int] = field(default_factory=dict)
    stores: dict[tuple[str, str], int] = field(default_factory=dict)
    operations: int = 0
    branches: bool = False
    _times: int = 1
    # Names that mean another number in each turn of a loop inside.
    _changing: set[str] = field(default_factory=set)
    _where: str = ""
    _depth: int = 0

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.For():
                    self._loop(statement)
                case ast.While():
                    raise _Unknown(f"line {statement.lineno} repeats as often as its numbers say")
                case ast.If(test=test, body=inside, orelse=otherwise):
                    self.branches = True
                    self._value(test)
                    self.statements(inside)
                    self.statements(otherwise)
                case ast.AugAssign(target=target, value=value):
                    self.operations += self._times
                    self._value(value)
                    if isinstance(target, ast.Subscript):
                        self._access(target, self.loads)
                        self._access(target, self.stores)
                case ast.Assign(targets=targets, value=value):
                    self._value(value)
                    for each in targets:
                        self._target(each)
                case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                    self._value(value)
                case _:
                    pass

    def _loop(self, node: ast.For) -> None:
        bounds: Sequence[ast.expr] = node.iter.args if isinstance(node.iter, ast.Call) else ()
        called = node.iter.func if isinstance(node.iter, ast.Call) else node.iter
        is_range = isinstance(called, ast.Name) and self.names.get(called.id) is range
        numbers = [bound.value for bound in bounds if isinstance(bound, ast.Constant) and isinstance(bound.value, int)]
        if not is_range or len(numbers) < len(bounds) or not numbers:
            raise _Unknown(f"the loop inside, in line {node.lineno}, has a length that is no constant")
        times, self._times = self._times, self._times * len(range(*numbers))
        changing = {child.id for child in nodes_of(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}
        before, self._changing = self._changing, self._changing | changing
        self.statements(node.body)
        self._times, self._changing = times, before

    def _target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            for part in node.elts:
                self._target(part)
        elif isinstance(node, ast.Subscript):
            self._access(node, self.stores)

    def _access(self, node: ast.Subscript, found: dict[tuple[str, str], int]) -> None:
        operations = self.operations
        self._value(node.slice)
        # Where an element is takes no operations of the user's.
        self.operations = operations
        if not isinstance(node.value, ast.Name) or node.value.id not in self.arrays:
            self._value(node.value)
            return
        if any(isinstance(child, ast.Slice) for child in nodes_of(node.slice)):
            raise _Unknown(f"line {node.lineno} takes a part of an array")
        varies = any(isinstance(child, ast.Name) and child.id in self._changing for child in nodes_of(node.slice))
        key = self.arrays[node.value.id], f"{self._where}{ast.unparse(node.slice)}"
        if found is self.loads and key in self.stores and key not in self.loads:
            # What the iteration has just stored.
            return
        found[key] = max(found.get(key, 0), self._times if varies else 1)

    def _value(self, node: ast.expr) -> None:
        match node:
            case ast.Subscript():
                self._access(node, self.loads)
                return
            case ast.Call():
                self._call(node)
                return
            case ast.BinOp() | ast.UnaryOp(op=ast.USub()) | ast.Compare():
                self.operations += self._times
            case ast.IfExp() | ast.BoolOp():
                self.branches = True
        for child in children_of(node):
            if isinstance(child, ast.expr):
                self._value(child)

    def _call(self, node: ast.Call) -> None:
        function = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(function, Function):
            self._inside(function, node)
            return
        if is_one_of(function, language.ATOMICS):
            place = ast.Subscript(node.args[0], node.args[1], ast.Load(), lineno=node.lineno, col_offset=node.col_offset)
            self._access(place, self.loads)
            self._access(place, self.stores)
            self.operations += self._times
            for value in node.args[2:]:
                self._value(value)
            return
        known = operation(function)
        if isinstance(node.func, ast.Attribute) or not (known.pure or isinstance(function, _FREE)):
            raise _Unknown(f"line {node.lineno} calls what is not looked into")
        self.operations += 0 if isinstance(function, _FREE) or known.intrinsic is not None else self._times
        for value in node.args:
            self._value(value)

    def _inside(self, function: Function, node: ast.Call) -> None:
        if self._depth >= _MOST_DEEP:
            raise _Unknown(f"line {node.lineno} calls functions of functions, too many to follow")
        arrays: dict[str, str] = {}
        for parameter, argument in zip(function.tree.args.args, node.args, strict=False):
            if isinstance(argument, ast.Name) and argument.id in self.arrays:
                arrays[parameter.arg] = self.arrays[argument.id]
            else:
                self._value(argument)
        where = f"{self._where}{ast.unparse(node)}: "
        inner = _Count(arrays, function.names, self.variables, self.loads, self.stores, _where=where, _depth=self._depth + 1)
        inner._times = self._times
        # Each turn of a loop around it calls it with other numbers.
        inner._changing = {parameter.arg for parameter in function.tree.args.args} if self._changing else set()
        inner.statements(function.tree.body)
        self.operations += inner.operations
        self.branches |= inner.branches


def _without_offsets(index: str) -> str:
    """An index without what constants add to it."""
    where, _, text = index.rpartition(": ")
    tree = _Offsets().visit(ast.parse(text, mode="eval"))
    return f"{where}{ast.unparse(tree)}"


class _Offsets(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=kept, op=ast.Add() | ast.Sub(), right=ast.Constant(value=int())):
                return kept
            case ast.BinOp(left=ast.Constant(value=int()), op=ast.Add(), right=kept):
                return kept
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        # What the frontend says of an index: its first operand is what it is.
        assumed = isinstance(node.func, ast.Name) and node.func.id.startswith(("_assume_ge", "_wrap_index"))
        return node.args[0] if assumed and node.args else node

"""Purity analysis: which arrays an expression reads, where it has no side effect.

What is not understood has no answer here: an array under another name, a part of an array, a function that may write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast, Program, Task
from qgraph.operations.table import operation

Reads = frozenset[str]
_NOTHING: Reads = frozenset()

# Numbers that are made of others.
_COMPOUND = (ast.BinOp, ast.UnaryOp, ast.NamedExpr, ast.BoolOp, ast.Tuple, ast.Compare, ast.IfExp)
_OF_ARRAYS = ("shape", "size", "ndim")
_OF_NUMBERS = ("real", "imag")


@dataclass(frozen=True, slots=True)
class Array:
    """What a name of an array stands for: one of ``leaves``, of ``ndim`` dimensions."""

    leaves: frozenset[str]
    ndim: int


@dataclass(frozen=True, slots=True)
class PurityAnalysis:
    """Looks at the code of one function.

    ``numbers`` are the names that hold a number or a tuple of numbers, ``globals`` what the other names mean, ``indices`` the
    names of tuples of so many integers. ``called`` has what was found out about functions so far.
    """

    arrays: Mapping[str, Array]
    numbers: frozenset[str]
    globals: Mapping[str, object]
    indices: Mapping[str, int] = field(default_factory=dict)
    called: dict[object, Reads | None] = field(default_factory=dict)

    def reads(self, node: ast.expr) -> Reads | None:
        """The leaves of which elements are read; None where it is not certain that ``node`` is a number and does nothing."""
        match node:
            case ast.Constant():
                return _NOTHING
            case ast.Name():
                return self._of_name(node.id)
            case ast.Attribute():
                return self._of_attribute(node)
            case ast.Subscript():
                return self._of_subscript(node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._of_call(self.globals.get(name), arguments)
        parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return self.all_of(parts) if isinstance(node, _COMPOUND) else None

    def all_of(self, nodes: Iterable[ast.expr]) -> Reads | None:
        """The same for several numbers."""
        found = _NOTHING
        for node in nodes:
            reads = self.reads(node)
            if reads is None:
                return None
            found |= reads
        return found

    def _of_name(self, name: str) -> Reads | None:
        known = name in self.numbers or (name not in self.arrays and _is_constant(self.globals.get(name)))
        return _NOTHING if known else None

    def _of_attribute(self, node: ast.Attribute) -> Reads | None:
        if isinstance(node.value, ast.Name) and node.value.id in self.arrays:
            return _NOTHING if node.attr in _OF_ARRAYS else None
        return self.reads(node.value) if node.attr in _OF_NUMBERS else None

    def _of_subscript(self, node: ast.Subscript) -> Reads | None:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.arrays:
            # An item of a tuple of numbers.
            return self.all_of((node.value, node.slice))
        index = self._of_index(node.slice, self.arrays[node.value.id].ndim)
        return None if index is None else index | self.arrays[node.value.id].leaves

    def _of_index(self, index: ast.expr, ndim: int) -> Reads | None:
        """What the index of an array reads; None where it is not certain that it is that of one element."""
        dimensions = 1
        if isinstance(index, ast.Tuple):
            dimensions = len(index.elts)
        elif isinstance(index, ast.Name):
            dimensions = self.indices.get(index.id, 1)
        if dimensions != ndim or any(map(_is_no_place, ast.walk(index))):
            return None
        return self.reads(index)

    def _of_call(self, function: object, arguments: Sequence[ast.expr]) -> Reads | None:
        if isinstance(function, Function):
            return self._of_function(function, arguments)
        return self.all_of(arguments) if _is_pure(function) else None

    def _of_function(self, function: Function, arguments: Sequence[ast.expr]) -> Reads | None:
        """What is read by a call of one of the user's functions."""
        parameters = [each.arg for each in function.tree.args.args]
        if len(parameters) != len(arguments):
            return None
        arrays: dict[str, Array] = {}
        numbers: dict[str, ast.expr] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, ast.Name) and argument.id in self.arrays:
                arrays[parameter] = self.arrays[argument.id]
            else:
                numbers[parameter] = argument
        read = self.all_of(numbers.values())
        if read is None:
            return None
        key = (function, tuple(arrays.items()))
        if key not in self.called:
            # Not understood while it is looked at: so a function that called itself would come to an end.
            self.called[key] = None
            inside = PurityAnalysis(arrays, frozenset(numbers), function.names, {}, self.called)
            self.called[key] = inside.inside(function.tree.body)
        found = self.called[key]
        return None if found is None else found | read

    def inside(self, body: Sequence[ast.stmt]) -> Reads | None:
        """What all the statements of a function read, in whatever order; None where they may do more than compute numbers."""
        looking = self.with_names_of(body)
        found = _NOTHING
        for statement in _with_nested(body):
            reads = looking.all_of(_values(statement))
            if not isinstance(statement, _QUIET) or reads is None or _stores_elsewhere(statement):
                return None
            found |= reads
        return found

    def with_names_of(self, body: Sequence[ast.stmt]) -> PurityAnalysis:
        """The same, with those names that ``body`` assigns which hold numbers wherever they are assigned."""
        nodes = [child for statement in body for child in ast.walk(statement)]
        bindings = [binding for node in nodes for binding in _bindings(node)]
        bound = {id(target) for target, _ in bindings}
        stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        numbers = self.numbers | {node.id for node in stored}
        numbers -= {node.id for node in stored if id(node) not in bound} | self.arrays.keys()
        while True:
            looking = replace(self, numbers=numbers)
            wrong = {target.id for target, value in bindings if target.id in numbers and looking.reads(value) is None}
            if not wrong:
                return looking
            numbers -= wrong


# Statements that do nothing themselves but assign and decide.
_QUIET = (ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue, ast.Expr)


def purity_analysis(program: Program, task: Task) -> PurityAnalysis:
    """What looks at the body of a loop."""
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    arrays = {name: Array(frozenset({name}), type_.ndim) for name, type_ in types.items() if isinstance(type_, ArrayType)}
    for selection in task.selections:
        arrays[selection.local] = Array(frozenset(selection.leaves), arrays[selection.leaves[0]].ndim)
    numbers = {axis.variable for axis in task.axes} | {name for name, _ in task.scalars} | (types.keys() - arrays.keys())
    numbers |= {value.name for value in program.host_values} | ({task.index_tuple} - {""})
    indices = {task.index_tuple: len(task.axes)} if task.index_tuple else {}
    return PurityAnalysis(arrays, frozenset(numbers), task.names, indices).with_names_of(task.body)


def names_stored(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement assigns."""
    nodes = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return frozenset(node.id for node in nodes if not isinstance(node.ctx, ast.Load))


def _is_pure(function: object) -> bool:
    return isinstance(function, type | Cast) or operation(function).pure


def _is_constant(value: object) -> bool:
    """Whether a global is a number, or a tuple of numbers."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, int | float | complex | np.number | np.bool_)


def _is_no_place(node: ast.AST) -> bool:
    """Whether it is None or ``...``, or what cannot be in an index at all."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, int)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The names that a node assigns, each with what it is taken from: itself, a part of it, or one of its items."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((name, value) for target in targets for name in _names_in(target))
        case ast.AugAssign(target=ast.Name() as target, value=value) | ast.NamedExpr(target=ast.Name() as target, value=value):
            yield target, value
        case ast.For(target=target, iter=items):
            yield from ((name, items) for name in _names_in(target))


def _names_in(target: ast.expr) -> Iterator[ast.Name]:
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _names_in(part)


def _with_nested(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those inside them."""
    for statement in body:
        yield from (child for child in ast.walk(statement) if isinstance(child, ast.stmt))


def _stores_elsewhere(statement: ast.stmt) -> bool:
    """Whether it, or a statement inside it, assigns anything but names."""
    stored = (child for child in ast.walk(statement) if isinstance(getattr(child, "ctx", None), ast.Store))
    return not all(isinstance(child, ast.Name | ast.Tuple) for child in stored)


def _values(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement computes."""
    for name, value in ast.iter_fields(statement):
        if isinstance(value, ast.expr) and name not in ("target", "targets"):
            yield value

"""Purity analysis: which arrays an expression reads, where it has no side effect.

What is not understood has no answer here: an array under another name, a part of an array, a function that may write.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast, Program, Task
from qgraph.lowering.codegen.generated_names import Globals, Statements, walk
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.records import dataclass
from qgraph.source import children_of, nodes_of

Reads = frozenset[str]
_NOTHING: Reads = frozenset()

# Numbers that are made of others.
_COMPOUND = (ast.BinOp, ast.UnaryOp, ast.NamedExpr, ast.BoolOp, ast.Tuple, ast.Compare, ast.IfExp)
# What the place of an element is made of where nothing but numbers decides it: it is the same if no name in it is assigned.
PLACES = (ast.Name, ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
_OF_ARRAYS = ("shape", "size", "ndim")
_OF_NUMBERS = ("real", "imag")


class Impure(Exception):  # noqa: N818 - no error: the code stays as it is
    """It is not certain that an expression is a number and has no side effect."""


@dataclass(frozen=True, slots=True)
class Array:
    """What a name of an array stands for: one of ``leaves``, of ``ndim`` dimensions."""

    leaves: frozenset[str]
    ndim: int


@dataclass(frozen=True, slots=True)
class PurityAnalysis:
    """Looks at the code of one function.

    ``numbers`` are the names that hold a number or a tuple of numbers, ``globals`` what the other names mean, ``indices`` the
    names of tuples of so many integers. ``called`` has what was found out about functions so far. ``noting``: that lengths
    differ may be noted, by whoever computes with them, and however often.
    """

    arrays: Mapping[str, Array]
    numbers: frozenset[str]
    globals: Globals
    indices: Mapping[str, int] = field(default_factory=dict)
    called: dict[object, Reads | None] = field(default_factory=dict)
    noting: bool = False

    def reads(self, node: ast.expr) -> Reads:
        """The leaves of which elements are read.

        Raises:
            Impure: it is not certain that ``node`` is a number and does nothing.
        """
        match node:
            case ast.Constant():
                return _NOTHING
            case ast.Name(id=name) if name in self.numbers:
                return _NOTHING
            case ast.Name(id=name) if name not in self.arrays and _is_constant(self.globals.get(name)):
                return _NOTHING
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.arrays and attribute in _OF_ARRAYS:
                return _NOTHING
            case ast.Attribute(value=value, attr=attribute) if attribute in _OF_NUMBERS:
                return self.reads(value)
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.arrays:
                return self._of_index(index, self.arrays[name].ndim) | self.arrays[name].leaves
            case ast.Subscript(value=value, slice=index):
                # An item of a tuple of numbers.
                return self.all_of((value, index))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._of_call(self.globals.get(name), arguments)
        if not isinstance(node, _COMPOUND):
            raise Impure
        return self.all_of(child for child in children_of(node) if isinstance(child, ast.expr))

    def all_of(self, nodes: Iterable[ast.expr]) -> Reads:
        """The same for several numbers."""
        return _NOTHING.union(*map(self.reads, nodes))

    def _is_number(self, node: ast.expr) -> bool:
        try:
            self.reads(node)
        except Impure:
            return False
        return True

    def _of_index(self, index: ast.expr, ndim: int) -> Reads:
        """What the index of an array reads, if it certainly is that of one element."""
        dimensions = 1
        if isinstance(index, ast.Tuple):
            dimensions = len(index.elts)
        elif isinstance(index, ast.Name):
            dimensions = self.indices.get(index.id, 1)
        if dimensions != ndim or any(map(_is_no_place, nodes_of(index))):
            raise Impure
        return self.reads(index)

    def _of_call(self, function: object, arguments: Sequence[ast.expr]) -> Reads:
        if isinstance(function, Function):
            return self._of_function(function, arguments)
        if function is intrinsics.same_length and self.noting:
            return self.all_of(arguments[:2])
        if not (isinstance(function, type | Cast) or operation(function).pure):
            raise Impure
        return self.all_of(arguments)

    def _of_function(self, function: Function, arguments: Sequence[ast.expr]) -> Reads:
        """What is read by a call of one of the user's functions."""
        parameters = [each.arg for each in function.tree.args.args]
        if len(parameters) != len(arguments):
            raise Impure
        arrays: dict[str, Array] = {}
        numbers: dict[str, ast.expr] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, ast.Name) and argument.id in self.arrays:
                arrays[parameter] = self.arrays[argument.id]
            else:
                numbers[parameter] = argument
        read = self.all_of(numbers.values())
        key = (function, tuple(arrays.items()))
        if key not in self.called:
            # Not understood while it is looked at: so a function that called itself would come to an end.
            self.called[key] = None
            with contextlib.suppress(Impure):
                inside = PurityAnalysis(arrays, frozenset(numbers), function.names, {}, self.called)
                self.called[key] = inside.inside(function.tree.body)
        found = self.called[key]
        if found is None:
            raise Impure
        return found | read

    def inside(self, body: Statements) -> Reads:
        """What all the statements of a function read, in whatever order.

        Raises:
            Impure: they may do more than compute numbers.
        """
        nodes = list(walk(body))
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
        if not all(isinstance(node, _QUIET) for node in statements) or not all(isinstance(node, _NAMES) for node in stored):
            raise Impure
        looking = self.with_names_of(body)
        return _NOTHING.union(*(looking.all_of(_values(statement)) for statement in statements))

    def with_names_of(self, body: Statements) -> PurityAnalysis:
        """The same, with those names that ``body`` assigns which hold numbers wherever they are assigned."""
        nodes = list(walk(body))
        bindings = [binding for node in nodes for binding in _bindings(node)]
        bound = {id(target) for target, _ in bindings}
        stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        numbers = self.numbers | {node.id for node in stored}
        numbers -= {node.id for node in stored if id(node) not in bound} | self.arrays.keys()
        while True:
            looking = replace(self, numbers=numbers)
            wrong = {target.id for target, value in bindings if target.id in numbers and not looking._is_number(value)}
            if not wrong:
                return looking
            numbers -= wrong


# Statements that do nothing themselves but assign and decide.
_QUIET = (ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue, ast.Expr)
# What they may assign.
_NAMES = (ast.Name, ast.Tuple)


def purity_analysis(program: Program, task: Task, *, noting: bool = False) -> PurityAnalysis:
    """What looks at the body of a loop."""
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    arrays = {name: Array(frozenset({name}), type_.ndim) for name, type_ in types.items() if isinstance(type_, ArrayType)}
    for selection in task.selections:
        arrays[selection.local] = Array(frozenset(selection.leaves), arrays[selection.leaves[0]].ndim)
    numbers = {axis.variable for axis in task.axes} | {name for name, _ in task.scalars} | task.given
    numbers |= (types.keys() - arrays.keys()) | {value.name for value in program.host_values} | ({task.index_tuple} - {""})
    indices = {task.index_tuple: len(task.axes)} if task.index_tuple else {}
    return PurityAnalysis(arrays, frozenset(numbers), task.names, indices, noting=noting).with_names_of(task.body)


def names_stored(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement assigns."""
    nodes = (node for node in nodes_of(statement) if isinstance(node, ast.Name))
    return frozenset(node.id for node in nodes if not isinstance(node.ctx, ast.Load))


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


def _values(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement computes."""
    for name, value in ast.iter_fields(statement):
        if isinstance(value, ast.expr) and name not in ("target", "targets"):
            yield value

"""Which expressions of a body are arrays, numbers, or tuples of these, as far as that shows without types."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import field

from qgraph import language
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Program, Task
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import nodes_of


@dataclass(frozen=True, slots=True)
class Number:
    """No array, and nothing that holds one: a number, a function, scratch."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything: the compiler's types tell."""


@dataclass(frozen=True, slots=True)
class Elements:
    """An array of so many dimensions."""

    ndim: int


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple."""

    parts: tuple[Kind, ...]


Kind = Number | Unknown | Elements | Items
NUMBER, UNKNOWN = Number(), Unknown()
_SAME_RANK = ("T", "real", "imag")
_NUMBERS = ("size", "ndim", "itemsize", "nbytes", "dtype")


def joined(left: Kind, right: Kind) -> Kind:
    """What is either."""
    return left if left == right else UNKNOWN


def kinds_of_task(program: Program, task: Task) -> dict[str, Kind]:
    """The names that the body of ``task`` has from outside."""
    kinds: dict[str, Kind] = {}
    for leaf in program.arrays_and_scalars:
        kinds[leaf.name] = Elements(leaf.type.ndim) if isinstance(leaf.type, ArrayType) else NUMBER
    for selection in task.selections:
        kinds[selection.local] = kinds[selection.leaves[0]]
    numbers = [value.name for value in program.host_values]
    numbers += [axis.variable for axis in task.axes]
    numbers += [name for name, _ in task.scalars]
    numbers += [variable.local for reduction in task.reductions for variable in reduction.variables]
    kinds |= dict.fromkeys(numbers, NUMBER)
    if task.index_tuple:
        kinds[task.index_tuple] = Items((NUMBER,) * len(task.axes))
    return kinds


@dataclass(slots=True)
class KindAnalysis:
    """The kinds of expressions, with those of names so far; ``result`` tells what a call of a function gives."""

    names: dict[str, Kind]
    globals: Mapping[str, object]
    result: Callable[[Function, tuple[Kind, ...]], Kind]
    _assigned: set[str] = field(default_factory=set)

    def collect(self, body: list[ast.stmt]) -> None:
        """Find the kinds of the names that ``body`` assigns, whatever the order."""
        for _ in range(3):
            before = dict(self.names)
            for statement in body:
                for node in nodes_of(statement):
                    self._bind(node)
            if before == self.names:
                return

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, self.of(value))
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                self._assign(target, self.of(ast.BinOp(ast.Name(target.id, ast.Load()), op, value)))
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, self.of(value))
            case ast.For(target=target, iter=items) | ast.comprehension(target=target, iter=items):
                self._assign(target, self._item(self.of(items)))

    def _assign(self, target: ast.expr, kind: Kind) -> None:
        match target:
            case ast.Name(id=name):
                known = self.names.get(name) if name in self._assigned else None
                self.names[name] = kind if known is None else joined(known, kind)
                self._assigned.add(name)
            case ast.Tuple(elts=parts):
                alike = isinstance(kind, Items) and len(kind.parts) == len(parts)
                for number, part in enumerate(parts):
                    self._assign(part, kind.parts[number] if alike and isinstance(kind, Items) else self._item(kind))

    def _item(self, kind: Kind) -> Kind:
        """What iterating over it gives."""
        match kind:
            case Elements(ndim):
                return Elements(ndim - 1) if ndim > 1 else NUMBER
            case Items(parts):
                return functools.reduce(joined, parts) if parts else NUMBER
        return kind

    def of(self, node: ast.expr) -> Kind:
        """The kind of an expression."""
        match node:
            case ast.Name(id=name):
                return self.names[name] if name in self.names else _of_global(self.globals.get(name))
            case ast.Tuple(elts=parts):
                return Items(tuple(map(self.of, parts)))
            case ast.Subscript(value=value, slice=index):
                return self._subscript(self.of(value), index)
            case ast.Attribute(value=value, attr=attribute):
                return self._attribute(self.of(value), attribute)
            case ast.NamedExpr(value=value):
                return self.of(value)
            case ast.Call():
                return self._call(node)
            case ast.Constant() | ast.JoinedStr() | ast.Slice():
                return NUMBER
        return self._operator(node)

    def _operator(self, node: ast.expr) -> Kind:
        match node:
            case ast.BinOp(left=left, right=right):
                return self._combined([left, right])
            case ast.UnaryOp(operand=operand):
                return self._combined([operand])
            case ast.Compare(left=left, comparators=others):
                return self._combined([left, *others])
            case ast.BoolOp(values=values):
                return functools.reduce(joined, map(self.of, values))
            case ast.IfExp(body=body, orelse=orelse):
                return joined(self.of(body), self.of(orelse))
        return UNKNOWN

    def _combined(self, operands: list[ast.expr]) -> Kind:
        kinds = set(map(self.of, operands))
        ranks = [kind.ndim for kind in kinds if isinstance(kind, Elements)]
        if kinds <= {NUMBER}:
            return NUMBER
        return Elements(max(ranks)) if ranks and all(isinstance(kind, Elements | Number) for kind in kinds) else UNKNOWN

    def _subscript(self, base: Kind, index: ast.expr) -> Kind:
        match base:
            case Number():
                return NUMBER
            case Items(parts):
                number = _integer(index)
                known = number is not None and -len(parts) <= number < len(parts)
                return parts[number] if known and number is not None else self._item(base)
            case Elements(ndim):
                taken = self.taken(index)
                if taken is None:
                    return NUMBER if ndim == 1 else UNKNOWN
                left = ndim - taken
                return Elements(left) if left > 0 else NUMBER
        return UNKNOWN

    def taken(self, index: ast.expr) -> int | None:
        """How many dimensions fewer what is selected has; None where that does not show."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        count = 0
        for part in parts:
            if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...):
                continue
            if isinstance(part, ast.Constant) and part.value is None:
                count -= 1
                continue
            kind = self.of(part)
            if isinstance(kind, Items) and part is index and all(isinstance(each, Number) for each in kind.parts):
                count += len(kind.parts)
            elif isinstance(kind, Number):
                count += 1
            else:
                return None
        return count

    def _attribute(self, base: Kind, attribute: str) -> Kind:
        match base:
            case Elements(ndim) if attribute in _SAME_RANK:
                return Elements(ndim)
            case Elements(ndim) if attribute in ("shape", "strides"):
                return Items((NUMBER,) * ndim)
            case Number():
                return NUMBER
        return NUMBER if attribute in _NUMBERS else UNKNOWN

    def _call(self, node: ast.Call) -> Kind:
        arguments = tuple(map(self.of, node.args))
        if isinstance(node.func, ast.Name):
            function = self.globals.get(node.func.id)
            if isinstance(function, Function):
                return self.result(function, arguments)
            if function is intrinsics.local_array:
                return Elements(len(arguments) - 1)
            if function is len or any(function is word for word in language.ATOMICS):
                return NUMBER
        elif isinstance(node.func, ast.Attribute):
            arguments = (*arguments, self.of(node.func.value))
        return NUMBER if all(isinstance(kind, Number) for kind in arguments) else UNKNOWN


def _integer(node: ast.expr) -> int | None:
    """The integer that is written; None for anything else."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _of_global(value: object) -> Kind:
    return Items(tuple(map(_of_global, value))) if type(value) is tuple else NUMBER

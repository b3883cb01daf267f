"""What a number may be like that several statements assign: one of each type that any of them gives it, in whatever order."""

from __future__ import annotations

import ast
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.inference.array_dtypes import element_type, number_like
from qgraph.frontend.inference.ranks import known, known_object, rank
from qgraph.frontend.names.bindings import Binding, LeafRef, Private, ScalarRef, Value, ViewRef
from qgraph.frontend.names.call_binding import bind_call
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.trees import load, names_in
from qgraph.language import Func
from qgraph.operations.table import is_one_of
from qgraph.source import copied, nodes_of

# More combinations of types are not tried, nor funcs inside of more funcs.
_MOST, _DEEPEST = 64, 8
_RANGES = (range, language.ndrange)
_WORDS = (language.serial, language.parallel)
# A type, as a number or an array of it: what a name stands for in expressions whose type is asked.
_Kinds = dict[object, Binding]


class _UnknownError(Exception):
    """Something may be assigned whose type is not known here."""


def numbers_assigned(scope: Scope, name: str, numbers: Callable[[Binding], Any]) -> list[Any] | None:
    """A number like each that the function of ``scope`` may assign to ``name``; None where one of them is not known.

    ``numbers``: what those are like that are known, or that the function does not assign.
    """
    assert scope.frame is not None
    try:
        assigned = _Assigned(scope, scope.frame.body, numbers)
        # What a call was given has a name that no statement of the function has.
        found = assigned.of_values(scope.frame.values.get(name, ())) if name.startswith(ADDED) else assigned.kinds(name)
    except (_UnknownError, KernelSyntaxError):
        return None
    values = [each.value for each in found if isinstance(each, Value)]
    return values if values and len(values) == len(found) else None


def numbers_of(scope: Scope, bound: ScalarRef, numbers: Callable[[Binding], Any]) -> list[Any] | None:
    """A number like each that a kernel scalar may be, which the function of ``scope`` or one of its callers assigns."""
    inside: Scope | None = scope
    while inside is not None and inside.frame is not None:
        name = inside.frame.name_of(bound.slot)
        if name:
            return numbers_assigned(inside, name, numbers)
        inside = inside.caller
    return None


class _Assigned:
    """The types of all that the statements of a function assign, found by going over them until there are no more."""

    def __init__(
        self,
        scope: Scope,
        body: Sequence[ast.stmt],
        numbers: Callable[[Binding], Any],
        given: Mapping[str, Binding] | None = None,
    ) -> None:
        self._scope = scope
        self._numbers = numbers
        self._at_kernel_level = given is None
        # What names are assigned, and what numbers become that are updated in place.
        self._values: dict[str, list[ast.expr]] = {}
        self._updates: dict[str, list[ast.expr]] = {}
        self._returned: list[ast.expr | None] = []
        self._kinds: dict[str, _Kinds] = {}
        stores: Counter[str] = Counter()
        for node in (child for statement in body for child in nodes_of(statement)):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stores[node.id] += 1
            self._note(node)
        followed = Counter({name: len(values) for name, values in self._values.items()})
        followed.update({name: len(values) for name, values in self._updates.items()})
        self._unknown = {name for name in stores if stores[name] != followed[name]}
        self._of_unknown = self._made_of(self._unknown)
        for name in scope.source.signature.parameters:
            if name in stores:
                self._start(name, (given or {}).get(name) if given is not None else self._argument(name))

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._note_values(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._note_values(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._updates.setdefault(name, []).append(ast.BinOp(load(name), op, value))
            case ast.For(target=target, iter=items) if self._counts(items):
                for name in names_in(target):
                    self._values.setdefault(name, []).append(ast.Constant(1))
            case ast.Return(value=value):
                self._returned.append(value)

    def _note_values(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in target.elts):
            written = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for at, part in enumerate(target.elts):
                self._note_values(part, written[at] if written else ast.Subscript(value, ast.Constant(at), ast.Load()))

    def _made_of(self, names: Collection[str]) -> set[str]:
        """``names``, and those that are assigned something in which one of them is."""
        found, before = set(names), -1
        while before != (before := len(found)):
            found |= {name for name, values in self._values.items() if any(names_in(each) & found for each in values)}
        return found

    def _counts(self, node: ast.expr) -> bool:
        """Whether a loop over ``node`` has integers for its variables."""
        if not isinstance(node, ast.Call):
            return False
        function = known_object(self._scope, node.func)
        if is_one_of(function, _WORDS) and len(node.args) == 1:
            return self._counts(node.args[0])
        return is_one_of(function, _RANGES)

    def _argument(self, name: str) -> Binding | None:
        """What a parameter is at the function's start, where that is one array or number."""
        frame = self._scope.frame
        if frame is not None and self._scope.caller is not None:
            return frame.given.get(name)
        leaf = None if frame is None else frame.unit.leaves.get(name)
        return None if leaf is None or leaf.path != name else LeafRef(leaf)

    def _start(self, name: str, bound: Binding | None) -> None:
        several = numbers_of(self._scope, bound, self._numbers) if isinstance(bound, ScalarRef) else None
        if bound is None:
            self._unknown.add(name)
        elif several is not None and self._numbers(bound) is None:
            self._kinds[name] = {type(number): Value(number) for number in several}
        else:
            kind = self._kind(self._scope.inner({name: bound}), load(name))
            self._kinds[name] = dict([kind])

    def kinds(self, name: str) -> list[Binding]:
        """What ``name`` may be."""
        reached = [name]
        for each in reached:
            if each not in self._kinds and each in self._values:
                self._kinds[each] = self._settled(each)
            found = [*self._values.get(each, ()), *self._updates.get(each, ())]
            reached += [inside for value in found for inside in sorted(names_in(value)) if inside not in reached]
        self._grow([each for each in reached if each in self._values or each in self._updates])
        return self._of_name(name)

    def returned(self) -> list[Binding]:
        """What the function may return."""
        return self.of_values(self._returned)

    def of_values(self, values: Sequence[ast.expr | None]) -> list[Binding]:
        """What the expressions ``values`` of the function may be; None is no number."""
        found: _Kinds = {}
        for value in values:
            if value is None:
                raise _UnknownError
            for name in sorted(names_in(value)):
                if name in self._values or name in self._updates:
                    self.kinds(name)
            found.update(self._of(value))
        return [*found.values()]

    def _settled(self, name: str) -> _Kinds:
        """The kind of what one statement alone assigns, where it has done so: nothing if it has not."""
        if not self._at_kernel_level or len(self._values[name]) > 1 or name in self._updates or name in self._of_unknown:
            # An unrolled loop may bind it to arrays of several types.
            return {}
        bound = self._scope.names.get(name)
        is_array = isinstance(bound, LeafRef | ViewRef) and isinstance(bound.leaf.type, ArrayType)
        if is_array or (isinstance(bound, ScalarRef) and self._numbers(bound) is not None):
            return dict([self._kind(self._scope, load(name))])
        return {}

    def _grow(self, names: Sequence[str]) -> None:
        before = -1
        while before != (before := sum(len(self._kinds.get(name, ())) for name in names)):
            for name in names:
                kinds = self._kinds.setdefault(name, {})
                for value in () if name in self._unknown else self._values.get(name, ()):
                    kinds.update(self._of(value))
                for value in self._updates.get(name, ()):
                    # An array is changed in place, and stays of its type.
                    of_numbers: _Kinds = {key: kind for key, kind in kinds.items() if isinstance(kind, Value)}
                    kinds.update(self._of(value, {name: of_numbers}))

    def _of_name(self, name: str) -> list[Binding]:
        if name in self._unknown or name not in self._kinds:
            raise _UnknownError
        return [*self._kinds[name].values()]

    def _of(self, node: ast.expr, own: Mapping[str, _Kinds] | None = None) -> Iterator[tuple[object, Binding]]:
        """The kinds of ``node``, for all of those that the names in it have by now; ``own``: of some of these names."""
        parts = _Parts(self)
        written = parts.visit(copied(node))
        pools = {name: [*kinds.values()] for name, kinds in (own or {}).items()} | parts.pools
        for name in sorted(names_in(written)):
            if name not in pools and (name in self._values or name in self._updates):
                # An index, whatever it is, has no part in the type of an element.
                pools[name] = [Private("")] if name in self._unknown else [*self._kinds.get(name, {}).values()]
        if math.prod(map(len, pools.values())) > _MOST:
            raise _UnknownError
        for chosen in itertools.product(*pools.values()):
            yield self._kind(self._scope.inner(dict(zip(pools, chosen, strict=True))), written)

    def _kind(self, scope: Scope, node: ast.expr) -> tuple[object, Binding]:
        ndim = rank(scope, node)
        if ndim:
            dtype = element_type(scope, node, self._numbers)
            if dtype is None:
                raise _UnknownError
            return (dtype, ndim), Private("", array=ArrayType(dtype.name, ndim, "A"))
        number = number_like(scope, node, self._numbers)
        if number is None:
            raise _UnknownError
        if isinstance(number, np.ndarray):
            number = number[()]
        return type(number), Value(number)

    def copy_of(self, node: ast.AST) -> ast.expr | None:
        """The array of whose type a new one is; None where ``node`` makes none like another."""
        match node:
            case ast.Call(func=ast.Attribute(attr="copy", value=array), args=[], keywords=[]):
                return array if known(self._scope, array) is None or rank(self._scope, array) else None
            case ast.Call(func=func, args=[array], keywords=[]):
                function = known_object(self._scope, func)
                return array if function is np.copy or (language.array_maker(function) or "").endswith("_like") else None
        return None

    def either(self, node: ast.expr) -> list[Binding] | None:
        """The kinds of what is one of several expressions, or what a func returns; None for any other expression."""
        match node:
            case ast.IfExp(body=body, orelse=orelse):
                return [*dict([*self._of(body), *self._of(orelse)]).values()]
            case ast.Call(func=func, args=args, keywords=[]):
                function = known_object(self._scope, func)
                if (function is min or function is max) and len(args) > 1:
                    return [*dict(kind for each in args for kind in self._of(each)).values()]
                if isinstance(function, Func):
                    return self._of_func(function, node)
        return None

    def _of_func(self, function: Func, node: ast.Call) -> list[Binding]:
        source, depth = function.source, 0
        caller: Scope | None = self._scope
        while caller is not None:
            caller, depth = caller.caller, depth + 1
        arguments = bind_call(self._scope, source, None, node)
        pools = [self._argument_kinds(each) if isinstance(each, ast.expr) else [each] for each in arguments.values()]
        if depth > _DEEPEST or math.prod(map(len, pools)) > _MOST:
            raise _UnknownError
        found: _Kinds = {}
        for chosen in itertools.product(*pools):
            given = dict(zip(arguments, chosen, strict=True))
            inside = _Assigned(self._scope.of(source, given), source.tree.body, self._numbers, given)
            found.update({repr(kind): kind for kind in inside.returned()})
        return [*found.values()]

    def _argument_kinds(self, node: ast.expr) -> list[Binding]:
        own = any(name in self._values or name in self._updates for name in names_in(node))
        bound = None if own else known(self._scope, node)
        return [kind for _, kind in self._of(node)] if bound is None else [bound]


class _Parts(ast.NodeTransformer):
    """Gives names to the parts of an expression that are one of several, or what funcs return; copies are what is copied."""

    def __init__(self, assigned: _Assigned) -> None:
        self._assigned = assigned
        self.pools: dict[str, list[Binding]] = {}

    def visit(self, node: ast.AST) -> Any:
        """``node``, or the name that stands for it."""
        copy_of = self._assigned.copy_of(node)
        if copy_of is not None:
            return self.visit(copy_of)
        kinds = self._assigned.either(node) if isinstance(node, ast.expr) else None
        if kinds is None:
            return self.generic_visit(node)
        name = f".{len(self.pools)}"
        self.pools[name] = kinds
        return ast.copy_location(load(name), node)

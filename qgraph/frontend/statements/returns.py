"""`return` at kernel level: an assignment, and where something follows it, a flag and a `break`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.desugar.break_continue import LOOPS, unless, within
from qgraph.frontend.desugar.made_tuples import is_divmod, made_structure
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import Binding, StructRef, Value
from qgraph.frontend.names.call_binding import callee
from qgraph.frontend.names.definite_assignment import always_fails, falls_through
from qgraph.frontend.names.foreign_calls import refused_star
from qgraph.frontend.names.function_frame import ADDED, Frame, Structure
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.ir.trees import assign, at_place, load, stored
from qgraph.source import Span, nodes_of, standing_for

# --- return ------------------------------------------------------------------------------------------------------------


def lower_returns(
    frame: Frame, scope: Scope, statements: list[ast.stmt], is_parallel: Callable[[ast.For], bool]
) -> list[ast.stmt]:
    """A function's statements in which `return` is an assignment, and ``frame.returns`` what it returns.

    Raises:
        KernelSyntaxError: returns of different shapes, or a path to the end without one.
    """
    returns = [child for node in statements for child in nodes_of(node) if isinstance(child, ast.Return)]
    if not returns:
        return statements
    lowering = _Returns(scope, is_parallel)
    structures = [lowering.structure(node) for node in returns]
    for node, structure in zip(returns, structures, strict=True):
        if structure != structures[0]:
            raise KernelSyntaxError(
                "the function returns values of different shapes",
                scope.span(node),
                also=(("another return is here", scope.span(returns[0])),),
                hint="return as many values everywhere",
            )
    if structures[0] is not None and falls_through(statements):
        raise KernelSyntaxError(
            "the function may end without a value, and elsewhere it returns one",
            scope.span(returns[0]),
            hint="end it with a `return` of as many values",
        )
    frame.returns = structures[0]
    lowered = lowering.block(statements, tail=True, in_loop=False)
    if not lowering.flagged:
        return lowered
    return [assign(RETURNED, ast.Constant(False), statements[0]), *lowered]


def place_of_result(scope: Scope, name: str) -> Span:
    """Where the function of ``scope`` returns what it calls ``name``; its first line where no `return` says so."""
    found = None if scope.frame is None else scope.frame.returned_as(name)
    return scope.source.span if found is None else scope.span(found)


def value_of_result(scope: Scope, name: str) -> ast.expr:
    """The result ``name``, at the place and with the text of what the function of ``scope`` returns for it."""
    found = None if scope.frame is None else scope.frame.returned_as(name)
    if found is None:
        return ast.copy_location(load(name), scope.source.tree)
    return standing_for(ast.copy_location(load(name), found), found)


def returns_structure(unit: ProgramBuilder, scope: Scope, node: ast.Call) -> bool:
    """Whether a call is of a func that returns a tuple, a named tuple or a dataclass."""
    structure = _structure_of_call(unit, scope, node)
    return structure is not None and structure.cls is not None


def _structure_of_call(unit: ProgramBuilder, scope: Scope, node: ast.Call) -> Structure | None:
    found = callee(scope, node)
    if found is None or found[0] in unit.calling:
        return None
    source = found[0].source
    inner = scope.of(source, {name: Value(None) for name in source.signature.parameters}, Frame(unit, source.tree))
    returns = [child for child in nodes_of(source.tree) if isinstance(child, ast.Return)]
    unit.calling.append(found[0])
    structure = _Returns(inner, _never).structure(returns[0]) if returns else None
    unit.calling.pop()
    return structure


def _never(_node: ast.For) -> bool:
    return False


RETURNED, _RESULT = f"{ADDED}returned", f"{ADDED}result"


class _Returns:
    def __init__(self, scope: Scope, is_parallel: Callable[[ast.For], bool]) -> None:
        assert scope.frame is not None
        self._frame = scope.frame
        self._scope = scope
        self._is_parallel = is_parallel
        self.flagged = False
        # Of variables of the function.
        self._shapes: dict[str, Structure] = {}

    def block(self, statements: Sequence[ast.stmt], *, tail: bool, in_loop: bool) -> list[ast.stmt]:
        """``tail``: nothing runs after the block, so no flag is needed."""
        result: list[ast.stmt] = []
        for position, node in enumerate(statements):
            rest = list(statements[position + 1 :])
            if isinstance(node, ast.Return):
                return [*result, *self._leave(node, tail, in_loop)]
            if isinstance(node, ast.For) and _returns(node) and self._is_parallel(node):
                # Nothing leaves it early: what stands in its `else` comes behind it.
                bare, behind = copy.copy(node), [*node.orelse, *rest]
                bare.orelse = []
                return [*result, bare, *self.block(behind, tail=tail, in_loop=in_loop)]
            if not _returns(node):
                result.append(node)
                continue
            if in_loop:
                # A return inside is a `break` already; one in an inner loop has left only that.
                result.append(self._loop(node) if isinstance(node, LOOPS) else self._within(node, tail=False, in_loop=True))
                if isinstance(node, LOOPS):
                    result.append(at_place(ast.If(load(RETURNED), [ast.Break()], []), node))
                continue
            if isinstance(node, ast.If) and (_always(node.body) or _always(node.orelse)):
                return [*result, self._within(_with_rest(node, rest), tail=tail, in_loop=False)]
            if isinstance(node, LOOPS):
                result.append(self._loop(node))
            else:
                result.append(self._within(node, tail=tail and not rest, in_loop=False))
            if rest:
                result.append(unless(frozenset({RETURNED}), self.block(rest, tail=tail, in_loop=False), rest[0]))
            return result
        return result

    def _within(self, node: ast.stmt, *, tail: bool, in_loop: bool) -> ast.stmt:
        return within(node, lambda block: (self.block(block, tail=tail, in_loop=in_loop), frozenset()))[0]

    def _loop(self, node: ast.For | ast.While) -> ast.stmt:
        node = copy.copy(node)
        node.body = self.block(node.body, tail=False, in_loop=True)
        node.orelse = self.block(node.orelse, tail=False, in_loop=False)
        return node

    def _leave(self, node: ast.Return, tail: bool, in_loop: bool) -> list[ast.stmt]:
        result = self._assignments(node)
        if in_loop or not tail:
            self.flagged = True
            result.append(assign(RETURNED, ast.Constant(True), node))
        if in_loop:
            result.append(ast.copy_location(ast.Break(), node))
        return result or [ast.copy_location(ast.Pass(), node)]

    def structure(self, node: ast.Return) -> Structure | None:
        """The shape of what ``node`` returns; None for a bare return."""
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return None
        return self._shape(node.value, _RESULT)

    def _shape(self, value: ast.expr, name: str) -> Structure:
        parts = self._parts(value)
        if parts is not None:
            cls, values = parts
            return Structure("", cls, tuple(self._shape(part, f"{name}{k}") for k, part in enumerate(values)))
        if isinstance(value, ast.IfExp):
            body = self._shape(value.body, name)
            return body if body.cls is not None else self._shape(value.orelse, name)
        if isinstance(value, ast.Call):
            if not self._is_local(value.func) and is_divmod(self._scope, value):
                return Structure("", tuple, (Structure(f"{name}0"), Structure(f"{name}1")))
            made = _structure_of_call(self._frame.unit, self._scope, value)
            return Structure(name) if made is None else made.renamed(name)
        bound = self._bound(value)
        if isinstance(bound, StructRef):
            return _structure_of(bound, name)
        if isinstance(value, ast.Name) and bound is None:
            return self._shape_of_name(value, name)
        return Structure(name)

    def _shape_of_name(self, node: ast.Name, name: str) -> Structure:
        """Of a variable of the function: that of its first value, which all others have, too."""
        if node.id not in self._shapes:
            # Where a value of it is made of itself, nothing is known of it.
            self._shapes[node.id] = Structure(name)
            shapes = [self._shape(value, name) for value in self._frame.values.get(node.id, [])]
            for shape in shapes[1:]:
                difference = shapes[0].difference(shape)
                if difference is not None:
                    first, other = difference
                    raise KernelSyntaxError(
                        f"`{node.id}` is returned, and is or holds {first} in one place, {other} in another",
                        self._scope.span(node),
                        hint="let it be of one class and length, or return its parts",
                    )
            if shapes:
                self._shapes[node.id] = shapes[0]
        return self._shapes[node.id].renamed(name)

    def _bound(self, value: ast.expr) -> Binding | None:
        """What ``value`` is at the start of the function, if anything."""
        if isinstance(value, ast.Name):
            return self._scope.names.get(value.id)
        if isinstance(value, (ast.Attribute, ast.Subscript)):
            return None if self._bound(value.value) is None else quietly_static(self._scope, value)
        return None

    def _is_local(self, node: ast.expr) -> bool:
        """Whether ``node`` is something of a variable of the function, which has no binding yet."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        local = isinstance(node, ast.Name) and node.id in self._scope.source.function.__code__.co_varnames
        return local and isinstance(node, ast.Name) and node.id not in self._scope.names

    def _parts(self, value: ast.expr) -> tuple[type, list[ast.expr]] | None:
        """The class and the parts of a tuple, a shape, or a call of a named tuple or dataclass."""
        if isinstance(value, ast.Tuple):
            for each in value.elts:
                if isinstance(each, ast.Starred):
                    raise refused_star(self._scope, each)
            return tuple, value.elts
        base = self._bound(value.value) if isinstance(value, ast.Attribute) and value.attr == "shape" else None
        ndim = rank(self._scope, value.value) if isinstance(value, ast.Attribute) and base is not None else 0
        if ndim:
            axes = [ast.Subscript(value, ast.Constant(k), ast.Load()) for k in range(ndim)]
            return tuple, [ast.fix_missing_locations(ast.copy_location(axis, value)) for axis in axes]
        if not isinstance(value, ast.Call):
            return None
        if isinstance(value.func, ast.Attribute) and self._is_local(value.func):
            return None
        made = made_structure(self._scope, value)
        return None if made is None else (made[0], [*made[1].values()])

    def _assignments(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is None or self._frame.returns is None:
            return []
        target, value = self._targets(node.value, self._frame.returns)
        return [at_place(ast.Assign([target], value), node)]

    def _targets(self, value: ast.expr, structure: Structure) -> tuple[ast.expr, ast.expr]:
        """The names that ``value`` is assigned to, and the value, as far as possible tuples of the same shape."""
        if structure.name:
            self._frame.returned.setdefault(structure.name, value)
            return standing_for(stored(structure.name), value), value
        parts = self._parts(value)
        if parts is None:
            self._frame.returned = dict.fromkeys(structure.names(), value) | self._frame.returned
            return structure.target(value), value
        pairs = [self._targets(part, inner) for part, inner in zip(parts[1], structure.parts, strict=True)]
        return ast.Tuple([pair[0] for pair in pairs], ast.Store()), ast.Tuple([pair[1] for pair in pairs], ast.Load())


def _structure_of(bound: StructRef, name: str) -> Structure:
    parts = []
    for k, child in enumerate(bound.children.values()):
        parts.append(_structure_of(child, f"{name}{k}") if isinstance(child, StructRef) else Structure(f"{name}{k}"))
    return Structure("", bound.type.cls, tuple(parts))


def _with_rest(node: ast.If, rest: list[ast.stmt]) -> ast.If:
    """What follows an `if` of which one branch returns belongs to the other one."""
    node = copy.copy(node)
    if _always(node.body):
        node.orelse = [*node.orelse, *rest]
    else:
        node.body = [*node.body, *rest]
    return node


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(child, ast.Return) for child in nodes_of(node))


def _always(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block surely ends with a return, or raises."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return isinstance(last, ast.Return | ast.Raise) or always_fails(last)

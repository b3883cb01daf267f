"""Vectors and matrices in bodies: rows of arrays that meet them are taken apart, and so are stores of them to rows.

Operations of vectors stay as they are written: compilers know them by the types of values. What has to be known here is which
values are vectors, and of which shape: ``x[i] += dt * v`` is ``x[i, 0] += t[0]`` and so on, as all that follows sees it.
"""

from __future__ import annotations

import ast
import functools
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qgraph.errors import KernelTypeError
from qgraph.frontend.bodies.array_expressions import array_of
from qgraph.frontend.bodies.array_resolution import ArrayResolution
from qgraph.frontend.bodies.local_arrays import row_values
from qgraph.frontend.bodies.row_elements import (
    assigned_pairs,
    item,
    last_axes,
    length_checks,
    parts_of_row,
    places_of_rows,
    row_parts,
    shape_along,
    taken_apart,
)
from qgraph.frontend.bodies.tuples_of_vectors import (
    Kind,
    given,
    joined,
    kind_of_binding,
    kind_of_tuple,
    part_of_kind,
    shape_of_binding,
    unpacked,
)
from qgraph.frontend.bodies.value_resolution import at
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import known, known_object, may_be_tuple, rank
from qgraph.frontend.inference.stores import called_in, refuse_changes
from qgraph.frontend.names.bindings import Binding, BoundFunc, Inside, Private, StructRef, Value
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.foreign_calls import fields_of, refuse_stars
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import TailFound, names_its_fields
from qgraph.ir.trees import assign, at_place, load, operands_of, parts_of, with_operands
from qgraph.language import Func
from qgraph.operations import random_numbers, vectors
from qgraph.operations.table import OPERATIONS, is_one_of
from qgraph.operations.vectors import Shape
from qgraph.source import as_written, nodes_of, standing_for

_MAKERS = (vectors.vec, vectors.mat)


def makes_vectors(source: SourceFunction, seen: frozenset[object] = frozenset()) -> bool:
    """Whether a function, or a func that it calls, makes vectors or matrices."""
    for node in nodes_of(source.tree):
        if isinstance(node, ast.Call):
            called = called_in(source, node.func)
            if any(called is maker for maker in _MAKERS):
                return True
            if isinstance(called, Func) and called not in seen and makes_vectors(called.source, seen | {called}):
                return True
    return False


def needs_lengths(source: SourceFunction) -> bool:
    """Whether a function may unpack rows of arrays into names or by `*`, or give a name to what it computes of rows."""
    for node in nodes_of(source.tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(), *_], value=value) if not isinstance(value, ast.Tuple):
                return True
            case ast.Starred():
                return True
            case ast.Assign(targets=[ast.Name()], value=ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Call()):
                return True
    return False


def may_be_vector(scope: Scope, node: ast.expr) -> bool:
    """Whether there is a vector or matrix anywhere in an expression."""
    return any(_is_one(scope, child) for child in nodes_of(node) if isinstance(child, ast.expr))


def _is_one(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        called = known_object(scope, node.func)
        if isinstance(called, Func):
            return scope.asked(makes_vectors, called.source)
        return any(called is maker for maker in _MAKERS)
    bound = known(scope, node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return bool(shape_of_binding(bound)) or (isinstance(bound, Private) and bool(bound.inside))


def _holds_vectors(bound: Binding) -> bool:
    children = bound.children.values() if isinstance(bound, StructRef) else ()
    return bool(kind_of_binding(bound)) or any(map(_holds_vectors, children))


class VectorResolution(ArrayResolution):
    """Rewrites statements and expressions in which vectors meet rows of arrays."""

    # Of what the function returns.
    returned: Kind = ()

    @abstractmethod
    def kind_of_call(self, node: ast.Call) -> Kind:
        """That of what the func that ``node`` calls returns."""

    def visit(self, node: ast.AST) -> Any:
        """The node in the place of ``node``; where there are vectors, it is no expression of arrays."""
        if isinstance(node, ast.BinOp) and self.has_vectors and may_be_vector(self._scope, node):
            return self.visit_BinOp(node)
        if isinstance(node, ast.Call) and self.has_vectors and may_be_vector(self._scope, node):
            return self.visit_Call(node)
        return super().visit(node)

    @functools.cached_property
    def has_vectors(self) -> bool:
        """Whether there may be vectors: most functions have none, and nothing is looked for."""
        scope = self._scope
        outside = map(scope.source.globals.get, scope.source.function.__code__.co_names)
        known_values = (*outside, *scope.source.closure.values())
        return (
            scope.asked(makes_vectors, scope.source)
            or any(map(_holds_vectors, scope.names.values()))
            or any(vectors.shape_of(value) for value in known_values)
        )

    # --- shapes --------------------------------------------------------------------------------------------------------

    def shape(self, node: ast.expr) -> Shape | None:
        """The shape of an expression that is a vector or matrix; None of any other one."""
        kind = self.kind(node)
        return None if isinstance(kind, Inside) else kind or None

    def kind(self, node: ast.expr) -> Kind:
        """The shape of an expression that is a vector or matrix, or what is in a tuple; () of any other one."""
        return self._kind(node) if self.has_vectors and may_be_vector(self._scope, node) else ()

    def _shape(self, node: ast.expr) -> Shape | None:
        kind = self._kind(node)
        return None if isinstance(kind, Inside) else kind or None

    def _kind(self, node: ast.expr) -> Kind:
        bound = known(self._scope, node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if bound is not None:
            return kind_of_binding(bound)
        match node:
            case ast.Tuple(elts=elements):
                return kind_of_tuple(map(self._kind, elements))
            case ast.Subscript() | ast.Attribute():
                return self._kind_of_part(node, self._kind(node.value))
            case ast.BinOp(left=left, right=right):
                return self._result(node, OPERATIONS.by_syntax[type(node.op)].symbol, left, right) or ()
            case ast.UnaryOp(operand=operand):
                return self._shape(operand) or ()
            case ast.IfExp(body=body, orelse=orelse):
                return joined(self._kind(body), self._kind(orelse))
            case ast.Call():
                return self._kind_of_call(node)
        return ()

    def _kind_of_part(self, node: ast.Subscript | ast.Attribute, whole: Kind) -> Kind:
        if isinstance(whole, Inside):
            key = constant_of(node.slice) if isinstance(node, ast.Subscript) else node.attr
            return () if key is None else part_of_kind(whole, key)
        if isinstance(node, ast.Subscript):
            return whole[1:] if len(parts_of(node)) == 1 else ()
        return (self._result(node, "T", node.value) or ()) if node.attr == "T" else ()

    def _result(self, node: ast.expr, name: str, *operands: ast.expr) -> Shape | None:
        shapes = [self._shape(each) for each in operands]
        if not any(shapes):
            return None
        try:
            return vectors.result_shape(
                name, *(shape or self._of_row(each) for shape, each in zip(shapes, operands, strict=True))
            )
        except vectors.ShapeError as error:
            hint = "both sides have one shape, or one is a number; a product is `@`"
            if name in ("**", "//", "%"):
                hint = f"vectors have +, -, *, / and @: write it by components, qgraph.vec(v.x {name} 2, v.y {name} 2)"
            raise self._scope.error(f"`{as_written(node)}`: {error}", node, hint) from None

    def _of_row(self, node: ast.expr) -> Shape:
        return self._extents(node) if rank(self._scope, node) else ()

    def _kind_of_call(self, node: ast.Call) -> Kind:
        called = known_object(self._scope, node.func)
        if isinstance(called, Func):
            return self.kind_of_call(node)
        if called is vectors.vec:
            return (len(node.args),) if len(node.args) != 1 else self._shape_of_only(node.args[0])
        if called is vectors.mat:
            first = self._of_vector(node.args[0]) if node.args else ()
            return first if len(first) == 2 else (len(node.args), *first)
        if called is None and isinstance(node.func, ast.Attribute) and node.func.attr in vectors.METHODS:
            return self._result(node, node.func.attr, node.func.value, *node.args) or ()
        fields = fields_of(called) if isinstance(called, type) else None
        if not fields:
            return ()
        values = dict(zip(fields, node.args, strict=False)) | {each.arg: each.value for each in node.keywords if each.arg}
        return kind_of_tuple((self._kind(values[each]) if each in values else () for each in fields), fields)

    def _shape_of_only(self, node: ast.expr) -> Shape:
        """The shape of a vector of ``node`` alone: a row, a tuple, or a number."""
        found = self._of_vector(node) or _size_of_call(self._scope, node)
        if not found and may_be_tuple(self._scope, node):
            raise self._scope.error(
                f"the length of `{as_written(node)}` is not known before types are inferred",
                node,
                "write the components: a, b = ..., then qgraph.vec(a, b)",
            )
        return found or (1,)

    def _of_vector(self, node: ast.expr) -> Shape:
        if isinstance(node, ast.Tuple):
            return (len(node.elts),)
        return self._shape(node) or self._of_row(node)

    # --- rows of arrays ------------------------------------------------------------------------------------------------

    def _extents(self, node: ast.expr) -> Shape:
        """The extents of a row, or of another part of an array with its last axes.

        Raises:
            TailFound: they will be known when the kernel is compiled for them.
            KernelSyntaxError: they are not known.
        """
        axes = rank(self._scope, node)
        if axes > 2:
            raise self._scope.error(
                f"`{as_written(node)}` has {axes} dimensions, and meets a vector or matrix", node, "take a row of it"
            )
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return self._extents(next(each for each in operands_of(node) if rank(self._scope, each) == axes))
        found = last_axes(self._scope, self._body.unit, node)
        if found is not None and len(found.tail) >= axes:
            return found.tail[len(found.tail) - axes :]
        if found is not None and found.path:
            raise TailFound(found.path, axes)
        raise self._scope.error(
            f"the length of `{as_written(node)}` is not known before the call, and a vector has a fixed one",
            node,
            "take a whole row of an argument, `x[i]`, or write the components: qgraph.vec(a[0], a[1])",
        )

    def with_parts(self, node: ast.Assign) -> tuple[list[ast.stmt], ast.Assign]:
        """``node``, where it unpacks a row of an array, with the elements of that, and a check that there are as many.

        Rows of several axes are unpacked as they are, behind the check. A row that may be assigned a tuple is checked, too:
        Numba's code would leave it as it was, on a device without a word.
        """
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                axes, count = rank(self._scope, value), len(elements)
                starred = any(isinstance(each, ast.Starred) for each in elements)
                if starred or not axes or isinstance(value, ast.Call) or self.shape(value) is not None:
                    return length_checks(self._scope, self._body.unit, node), node
                computed = row_values(self._scope, self._body.unit, value, "row")
                if computed is not None and len(computed.elements) == count:
                    for name in names_assigned(computed.before):
                        self._scope.names[name] = Private(self._body.unit.local_name(name))
                    before = [at_place(each, node) for each in computed.before]
                    return before, at_place(ast.Assign(node.targets, ast.Tuple(computed.elements, ast.Load())), node)
                parts, checks = row_parts(self._scope, self._body.unit, value, count), list[ast.stmt]()
                if parts is None:
                    base = taken_apart(self._scope, value)[0]
                    length = shape_along(base, rank(self._scope, base) - axes)
                    error = word(self._scope, ValueError, ast.Constant(f"unpacked into {count} names"))
                    check = ast.If(ast.Compare(length, [ast.NotEq()], [ast.Constant(count)]), [ast.Raise(error, None)], [])
                    checks.append(at_place(check, node))
                if axes == 1:
                    elements_of = ast.Tuple(parts or parts_of_row(value, count), ast.Load())
                    node = at_place(ast.Assign(node.targets, elements_of), node)
                return checks, node
        return length_checks(self._scope, self._body.unit, node), node

    def _as_row(self, bound: Private, node: ast.expr) -> Private:
        """``bound``, which is ``node``, with what is known of its last axes."""
        found = last_axes(self._scope, self._body.unit, node) if bound.array is not None else None
        if found is None or bound.array is None:
            return bound
        return replace(bound, array=replace(bound.array, tail=found.tail[-bound.array.ndim :]), rows_of=found.path)

    def _note_arrays(self, node: ast.Assign) -> None:
        super()._note_arrays(node)
        if not (self.has_vectors or self._scope.asked(needs_lengths, self._scope.source)):
            return
        for target, value in (pair for each in node.targets for pair in assigned_pairs(each, node.value)):
            bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
            if isinstance(target, ast.Name) and isinstance(bound, Private) and target.id not in self.rebound:
                self._scope.names[target.id] = self._as_row(bound, value)

    def _components(self, node: ast.expr) -> ast.expr:
        """A row, or a matrix, of an array as a vector, whose elements are read; any other expression as it is."""
        if not rank(self._scope, node):
            return node
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            operands = [self._components(each) if isinstance(each, ast.expr) else each for each in operands_of(node)]
            return with_operands(node, operands) or node
        refuse_changes(self._scope, node)
        shape = self._extents(node)
        if not all(1 <= extent <= vectors.MOST for extent in shape):
            found = f"`{as_written(node)}` has {' by '.join(map(str, shape))} elements"
            raise self._scope.error(found, node, f"a vector has 1 to {vectors.MOST} components: write a loop")
        rows = [word(self._scope, vectors.vec, *(item(node, place) for place in places)) for places in places_of_rows(shape)]
        made = rows[0] if len(shape) == 1 else word(self._scope, vectors.mat, *rows)
        return standing_for(at_place(made, node), node)

    # --- expressions ---------------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator; a row that meets a vector is one."""
        if self.shape(node.left) is None and self.shape(node.right) is None:
            return super().visit_BinOp(node)
        self._shape(node)
        left, right = (self.visit(self._components(each)) for each in (node.left, node.right))
        if isinstance(node.op, ast.MatMult):
            return at(self._call(vectors.matmul, "_matmul", left, right), node)
        node.left, node.right = left, right
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """``m[i, j]`` of a matrix is ``m[i][j]``."""
        indices = parts_of(node)
        if len(indices) == 2 and known(self._scope, node) is None and len(self.shape(node.value) or ()) == 2:
            first, second = indices
            row = at(ast.Subscript(node.value, first, ast.Load()), node)
            node = at(ast.Subscript(standing_for(row, node), second, node.ctx), node)
        if isinstance(node.ctx, ast.Store) and self.shape(node.value) is not None:
            raise self._scope.error(
                f"`{as_written(node)}` is a component of a vector or matrix, which does not change",
                node,
                "make a new one: v = qgraph.vec(a, v[1], v[2])",
            )
        return super().visit_Subscript(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """``m.T``."""
        if node.attr == "T" and known(self._scope, node) is None and self.shape(node.value) is not None:
            return at(self._call(vectors.transposed, "_transposed", self.visit(node.value)), node)
        return super().visit_Attribute(node)

    def vector_call(self, node: ast.Call) -> ast.expr | None:
        """What stands for a call that makes a vector of a row, or for one of a vector's method; None for any other."""
        called = known_object(self._scope, node.func)
        if any(called is maker for maker in _MAKERS):
            refuse_stars(self._scope, node)
            if node.keywords or not node.args:
                raise self._scope.error(f"`{as_written(node)}` is not understood", node, "write its components out")
            if len(node.args) == 1 and self._of_row(node.args[0]):
                return self.visit(self._components(node.args[0]))  # type: ignore[no-any-return]
            node.args = [self._components(each) for each in node.args]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in vectors.METHODS and called is None:
            owner = node.func.value
            if self.shape(owner) is not None and not node.keywords:
                self._result(node, node.func.attr, owner, *node.args)
                operands = [self.visit(self._components(each)) for each in (owner, *node.args)]
                return at(self._call(vectors.METHODS[node.func.attr], f"_{node.func.attr}", *operands), node)
        return None

    def _place(self, bound: Binding, node: ast.expr) -> ast.expr:
        shape = shape_of_binding(bound)
        if shape is None or isinstance(bound, Private):
            return super()._place(bound, node)
        function = vectors.vec if len(shape) == 1 else vectors.mat
        value: Any = bound.value if isinstance(bound, Value) else ()
        parts = bound.children.values() if isinstance(bound, StructRef) else map(Value, value)
        return at(self._call(function, f"_{function.__name__}", *(self._place(each, node) for each in parts)), node)

    # --- statements ----------------------------------------------------------------------------------------------------

    def vector_assignment(self, node: ast.Assign | ast.AugAssign) -> list[ast.stmt] | None:
        """What stands for an assignment of vectors; None for any other, and for one to names alone, which stays."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and self.shape(node.target) is not None:
            return self._statements(as_assignment(node))
        pairs = [pair for target in targets for pair in assigned_pairs(target, node.value)]
        shapes = [self.shape(value) for _, value in pairs]
        self._refuse_rows(pairs)
        if not any(shapes):
            return None
        in_place = isinstance(node, ast.AugAssign) and rank(self._scope, node.target) > 0
        if len(pairs) == 1 and (in_place or isinstance(pairs[0][0], ast.Subscript)):
            return self._store(node, pairs[0][0], shapes[0] or ())
        for (target, _), shape in zip(pairs, shapes, strict=True):
            bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
            if (
                shape
                and not isinstance(bound, Private)
                and not (isinstance(target, ast.Tuple) and len(target.elts) == shape[0])
            ):
                raise self._scope.error(
                    f"`{as_written(target)}` is assigned a vector or matrix",
                    target,
                    "in a loop assign it to a name of the iteration's own, or to a row of an array, by itself",
                )
        return None

    def _refuse_rows(self, pairs: Sequence[tuple[ast.expr, ast.expr]]) -> None:
        for target, value in pairs:
            bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
            if isinstance(bound, Private) and bound.vector and self.shape(value) is None and rank(self._scope, value):
                raise self._scope.error(
                    f"`{as_written(target)}` is a vector or matrix, and is assigned `{as_written(value)}`, a part of an array",
                    value,
                    f"a copy of its elements is a vector: qgraph.{'vec' if len(bound.vector) == 1 else 'mat'}(...)",
                )

    def vectors_in(self, node: ast.Assign) -> dict[str, Private]:
        """What names stand for after an assignment: vectors, and what was one before."""
        pairs = [pair for each in node.targets for pair in assigned_pairs(each, node.value)]
        found: dict[str, Private] = {}
        for target, kind in itertools.chain.from_iterable(unpacked(place, self.kind(value)) for place, value in pairs):
            bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
            if isinstance(target, ast.Name) and isinstance(bound, Private) and (kind or bound.vector or bound.inside):
                found[target.id] = given(bound, kind)
        return found

    def with_shape(self, bound: Private, argument: ast.expr, source: SourceFunction) -> Private:
        """What a func is given, with its shape where it is a vector, or a row of an array for a func that makes vectors."""
        kind = self.kind(argument)
        if kind:
            return given(bound, kind)
        return (
            self._as_row(array_of(self._scope, "", argument), argument)
            if any(self._scope.asked(question, source) for question in (makes_vectors, needs_lengths))
            else bound
        )

    def _store(self, node: ast.Assign | ast.AugAssign, target: ast.expr, shape: Shape) -> list[ast.stmt]:
        """The value, and then a store of each component."""
        refuse_changes(self._scope, target)
        extents = self._of_row(target)
        if extents != shape:
            found = "has {}".format(" by ".join(map(str, extents)) + " elements") if extents else "is one number"
            raise self._scope.error(
                f"`{as_written(target)}` {found}, and {' by '.join(map(str, shape))} are assigned",
                node,
                "a vector goes to a row of its length, a matrix to a part of its shape",
            )
        kind = element_type(self._scope, target)
        if isinstance(node, ast.AugAssign) and kind is not None and kind.kind in "biu":
            raise KernelTypeError(
                f"`{as_written(target)}` is of type {kind}, and a vector has floats",
                self._scope.span(node),
                hint=f"NumPy refuses this too: write `{as_written(target)} = ...`, which converts",
            )
        whole = f"_w{node.lineno}_{node.col_offset}"
        self._scope.names[whole] = Private(self._body.unit.local_name(whole), vector=shape)
        statements: list[ast.stmt] = [assign(whole, node.value)]
        for place in itertools.product(*map(range, shape)):
            part: ast.expr = load(whole)
            for index in place:
                part = ast.Subscript(part, ast.Constant(index), ast.Load())
            element = item(target, place)
            element.ctx = ast.Store()
            made = ast.Assign([element], part) if isinstance(node, ast.Assign) else ast.AugAssign(element, node.op, part)
            statements.append(made)
        return self._statements(*(at_place(each, node) for each in statements))

    def _statements(self, *statements: ast.stmt) -> list[ast.stmt]:
        return self.block([ast.fix_missing_locations(each) for each in statements])

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """What a func gives may be a vector."""
        if node.value is not None:
            self.returned = joined(self.kind(node.value), self.returned)
        return super().visit_Return(node)


def _size_of_call(scope: Scope, node: ast.expr) -> Shape:
    """How many random numbers a call gives, where it gives a tuple of them."""
    bound = known(scope, node.func) if isinstance(node, ast.Call) else None
    of_generator = (
        isinstance(bound, BoundFunc) and isinstance(bound.owner, StructRef) and names_its_fields(bound.owner.type.cls)
    )
    if not isinstance(node, ast.Call) or not (of_generator or is_one_of(known_object(scope, node.func), random_numbers.WORDS)):
        return ()
    sizes = [constant_of(each.value) for each in node.keywords if each.arg == "size"]
    return tuple(size for size in sizes if size is not None)

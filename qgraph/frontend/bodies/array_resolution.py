"""Array expressions in bodies: what NumPy computes of whole arrays is a call, and names of arrays are known as such."""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.frontend.bodies.array_expressions import ARRAY_EXPRESSIONS, array_of, array_target, conditions_in, is_reduced
from qgraph.frontend.bodies.local_arrays import local_array, refuse_leaving
from qgraph.frontend.bodies.row_elements import row_length
from qgraph.frontend.bodies.row_overlaps import origin
from qgraph.frontend.bodies.rows import RowFunction, reducing_function, storing_function, tuple_storing_function
from qgraph.frontend.bodies.value_resolution import Divisors, ResolvedNames, ValueResolution, at
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.axes_reduced import COMPOSED
from qgraph.frontend.inference.lookups import lookup_of
from qgraph.frontend.inference.ranks import known_object, rank, reduction
from qgraph.frontend.inference.reduction_rules import composed
from qgraph.frontend.inference.stores import is_slice, refuse_element_array
from qgraph.frontend.names.bindings import Private
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.scope import Scope
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.faults import FAULTS
from qgraph.ir.program import SLOTS
from qgraph.ir.trees import load, operands_of, stored
from qgraph.language import Func
from qgraph.operations.table import operation
from qgraph.source import as_written, copied, nodes_of


def _is_straight(scope: Scope, node: ast.stmt) -> bool:
    """Whether all that a statement computes it computes once, and does nothing else: then some of it may come before."""
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or node.value is None:
        return False
    return not any(isinstance(child, _CHOICES) or _is_opaque(scope, child) for child in nodes_of(node))


_CHOICES = (ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Lambda, ast.comprehension)


def _is_opaque(scope: Scope, node: ast.AST) -> bool:
    """Whether a call may do more than compute."""
    if not isinstance(node, ast.Call) or reduction(scope, node) is not None:
        return False
    function = known_object(scope, node.func)
    return function is None or isinstance(function, Func) or not operation(function).pure


class ArrayResolution(ValueResolution):
    """Rewrites expressions and assignments of arrays."""

    @abstractmethod
    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, rewritten."""

    @abstractmethod
    def _row_call(self, made: RowFunction, node: ast.AST) -> ast.expr:
        """The call of a function that is made here, in place of ``node``."""

    def __init__(self, body: ResolvedNames, scope: Scope, divisors: Divisors | None = None) -> None:
        super().__init__(body, scope, divisors)
        # The ranks of the expressions of a statement, each found once.
        self._ranks: dict[ast.expr, int] = {}
        # Names that are bound in more than one place: which array such a one is a part of depends on the way there.
        self.rebound: set[str] = set()
        # The shapes of arrays of an iteration, by name.
        self._shapes: dict[str, tuple[int, ...]] = {}
        # Of arrays as these another pass says what is wrong.
        self._conditions: set[ast.expr] = set()
        # The loops that add up rows for the statement that is rewritten now, by what they add up; None where it may have none.
        self._sums: dict[str, tuple[list[ast.stmt], ast.expr]] | None = None

    def expression(self, node: ast.expr) -> ast.expr:
        """One expression, which may be a condition, resolved."""
        self._conditions.update(conditions_in(node))
        return super().expression(node)

    def visit(self, node: ast.AST) -> Any:
        """The node in the place of ``node``; what NumPy computes of whole arrays is a call."""
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            self._conditions.update(conditions_in(node.test))
        if isinstance(node, ast.Compare) and node in self._conditions and rank(self._scope, node, self._ranks):
            self._conditions.update(operands_of(node))
        if isinstance(node, ast.Call) and len(node.args) == 1 and known_object(self._scope, node.func) is np.ndim:
            ndim = rank(self._scope, node.args[0], self._ranks)
            return at(ast.Constant(ndim), node) if ndim else super().visit(node)
        if (lookup := lookup_of(self._scope, node)) is not None:
            return self.visit(lookup)
        if isinstance(node, ARRAY_EXPRESSIONS) and is_reduced(self._scope, node, self._ranks, self._conditions):
            if reduction(self._scope, node) in COMPOSED:
                return self.visit(composed(self._scope, node))
            made = reducing_function(self._scope, node, self._noting)
            return self._row_sum(made, node) or self._row_call(made, node)
        return super().visit(node)

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """What stands for a statement: first the loops of the rows that it adds up, if it may have any."""
        around = self._sums
        self._sums = {} if self._body.rows_in_line and _is_straight(self._scope, node) else None
        visited = self.visit(node)
        before = [] if self._sums is None else [each for lines, _ in self._sums.values() for each in lines]
        self._sums = around
        return [*before, *(visited if isinstance(visited, list) else [] if visited is None else [visited])]

    def _row_sum(self, made: RowFunction, node: ast.expr) -> ast.expr | None:
        """The sum of a row that a loop before the statement computes: lanes can share that, and no loop in a function."""
        if self._sums is None:
            return None
        key = ast.unparse(node)
        if key not in self._sums:
            found = self._in_line(made, node)
            if found is None or found[1] is None:
                return None
            self._sums[key] = found[0], found[1]
        return copied(self._sums[key][1])

    def _in_line(self, made: RowFunction, node: ast.AST) -> tuple[list[ast.stmt], ast.expr | None] | None:
        """The statements of a function in the place of its call, and its value; None where they cannot be there."""
        found = made.in_line(self._body.count_row())
        if found is None:
            return None
        lines, value = found
        scope, sums = self._scope, self._sums
        own = {name: Private(self._body.unit.local_name(name)) for name in names_assigned(lines)}
        self._body.names.reserve(each.name for each in own.values())
        self._scope, self._sums = scope.inner(own | {name: Private(name) for name in (FAULTS, SLOTS)}), None
        lines = [at(each, node) for line in lines for each in self.block([line])]
        value = value if value is None else at(self.visit(value), node)
        self._scope, self._sums = scope, sums
        return lines, value

    def array_store(self, node: ast.Assign | ast.AugAssign, targets: list[ast.expr]) -> ast.stmt | list[ast.stmt] | None:
        """What stands for a statement that stores arrays in parts of arrays; None for any other, whose names are noted."""
        self._ranks = {}
        made = self._tuple_store(node)
        target = array_target(self._scope, node, targets) if made is None else None
        if target is not None:
            made = storing_function(self._scope, node, target, self._noting, self._body.unit.may_share)
        if made is None:
            if isinstance(node, ast.Assign):
                self._note_arrays(node)
            return None
        found = self._in_line(made, node) if self._body.rows_in_line else None
        return at(ast.Expr(self._row_call(made, node)), node) if found is None else found[0]

    def _tuple_store(self, node: ast.Assign | ast.AugAssign) -> RowFunction | None:
        """What assigns numbers that are written out, `x[i] = a, b, c`, to a row; None for any other statement."""
        match node:
            case ast.Assign(targets=[target], value=ast.Tuple(elts=parts)) if is_slice(self._scope, target):
                if rank(self._scope, target) != 1 or any(
                    isinstance(part, (ast.Tuple, ast.Starred)) or rank(self._scope, part) for part in parts
                ):
                    return None
                length, count = row_length(self._scope, self._body.unit, target), len(parts)
                if length not in (None, count):
                    words = f"`{as_written(target)}` has {length} elements, and {count} are assigned"
                    raise self._scope.error(words, node, "assign as many numbers as there are")
                return tuple_storing_function(self._scope, node, target, parts, self._noting, fits=length is not None)
        return None

    def made_array(self, node: ast.Assign) -> list[ast.stmt] | None:
        """What stands for a statement that makes an array for the iteration; None for any other."""
        match node:
            case ast.Assign(targets=[ast.Subscript()], value=ast.BinOp(left=left, op=ast.MatMult(), right=right)) if 2 in (
                rank(self._scope, left),
                rank(self._scope, right),
            ):
                # What is assigned may be read for other elements.
                name = f"_product{node.lineno}_{node.col_offset}"
                self._scope.names[name] = Private(self._body.unit.local_name(name))
                first = at(ast.Assign([stored(name)], node.value), node)
                before = self.made_array(first)
                return before and [*before, *self.block([at(ast.Assign(node.targets, load(name)), node)])]
        made = local_array(self._scope, self._body.unit, node)
        if made is None:
            return None
        target = node.targets[0]
        assert isinstance(target, ast.Name)
        known = self._shapes.setdefault(target.id, made.type.tail)
        if known != made.type.tail:
            one, other = (" by ".join(map(str, shape)) for shape in (made.type.tail, known))
            words = f"`{target.id}` is an array of {one} elements here, and of {other} in another place"
            raise self._scope.error(words, node, "give each a name of its own: which one it is, the way there decides")
        for name in names_assigned(made.statements).keys() - {target.id}:
            self._scope.names[name] = Private(self._body.unit.local_name(name))
        statements = self.block(made.statements)
        bound = self._scope.names.get(target.id)
        if isinstance(bound, Private):
            self._scope.names[target.id] = made.bound(bound.name, sure=target.id not in self.rebound)
        return statements

    def note_items(self, target: ast.expr, items: ast.expr) -> None:
        """A name for what a loop goes over that is no range of one axis is a number where that is an array of numbers."""
        bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(target, ast.Name) or not isinstance(bound, Private):
            return
        ndim = rank(self._scope, items)
        if ndim > 1:
            dtype = element_type(self._scope, items)
            found = ArrayType("" if dtype is None else dtype.name, ndim - 1, "A")
            self._scope.names[target.id] = Private(bound.name, found, origin(self._scope, items) or "")
        elif not ndim and not (isinstance(items, ast.Tuple) and all(isinstance(each, ast.Constant) for each in items.elts)):
            self._scope.names[target.id] = Private(bound.name, is_tuple=True)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """A value that outlives the function."""
        refuse_leaving(self._scope, node)
        self.generic_visit(node)
        return node

    def visit_List(self, node: ast.List) -> ast.expr:
        """What nobody makes an array of."""
        hint = "name an array of indices before the loop, k = np.array((0, 2)); or write element after element, x[0], x[2]"
        raise self._scope.error("a list cannot be used in a loop", node, hint)

    def _note_arrays(self, node: ast.Assign) -> None:
        """Names of parts of arrays are arrays in what follows."""
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                # Where there are more or fewer, another pass says so.
                pairs = [*zip(target.elts, node.value.elts, strict=False)]
            for name, value in pairs:
                bound = self._scope.names.get(name.id) if isinstance(name, ast.Name) else None
                if isinstance(name, ast.Name) and isinstance(bound, Private):
                    refuse_element_array(self._scope, value)
                    # The value is yet to be visited: the name is what it was.
                    found = replace(array_of(self._scope, bound.name, value), vector=bound.vector, inside=bound.inside)
                    self._scope.names[name.id] = replace(found, origin="") if name.id in self.rebound else found

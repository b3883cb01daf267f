"""`a.sum(axis=0)`: a new array, and the loop that fills it, each iteration of which goes along the axes that are reduced."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.arrays.array_statements import Elements, named
from qgraph.frontend.inference.axes_reduced import Reduced
from qgraph.frontend.inference.indexing import ONE, element, word
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import reduced_along
from qgraph.frontend.inference.reduction_rules import finished, operand, summed, wider
from qgraph.frontend.names.bindings import LeafRef, ViewRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import evaluated, evaluated_arguments
from qgraph.frontend.statements.region import Region
from qgraph.ir.trees import assign, load, stored
from qgraph.operations import intrinsics
from qgraph.source import copied

_EXTREMES = {"min": np.minimum, "max": np.maximum}
_PLACES = {"argmin": ast.Lt, "argmax": ast.Gt}
_TOTAL, _VALUE, _PLACE = f"{ADDED}total", f"{ADDED}value", f"{ADDED}place"


def reduce_axes(region: Region, scope: Scope, node: ast.Call) -> LeafRef | ViewRef:
    """The array that ``node`` is, a reduction along some axes of an array, or along all of them, which are kept as 1.

    Raises:
        KernelSyntaxError: the type of its elements is not known before the launch.
    """
    dtype = type_of_new_array(scope, node)
    node = evaluated_arguments(region, scope, node)
    reduced = reduced_along(scope, node)
    assert reduced is not None
    value = evaluated(region, scope, operand(scope, [reduced.array], reduced.kind, node))
    dtype = dtype or type_of_new_array(scope, node)
    body = _Along(region, scope, reduced, node)
    body.frame_all(value, exact=False)
    statements, result = body.statements(body.visit(value), type_of_new_array(scope, value))
    lengths = body.lengths(node)
    wanted = range(reduced.ndim) if reduced.keepdims else reduced.kept
    view = body.memory(dtype, {axis: ONE if axis in reduced.axes else lengths[axis] for axis in wanted}, node)
    indices = [ast.Constant(0) if axis in reduced.axes else body.variables[axis] for axis in wanted]
    place = element(view, indices, scope, node, natural=True)
    assert isinstance(place, ast.Subscript)
    place.ctx = ast.Store()
    body.fill([*statements, ast.Assign([place], result)], reduced.kept, node)
    return named(view)


class _Along(Elements):
    """The statements of one iteration, which goes along the axes that are reduced."""

    def __init__(self, region: Region, scope: Scope, reduced: Reduced, node: ast.Call) -> None:
        super().__init__(region, scope)
        self._reduced = reduced
        self._node = node

    def statements(self, value: ast.expr, dtype: np.dtype[np.generic] | None) -> tuple[list[ast.stmt], ast.expr]:
        """The statements that reduce ``value``, of type ``dtype``, and behind them what they have found."""
        kind = self._reduced.kind
        if kind in ("any", "all"):
            test = value if kind == "any" else ast.UnaryOp(ast.Not(), value)
            found = ast.If(test, [assign(_TOTAL, ast.Constant(kind == "any"))], [])
            return [assign(_TOTAL, ast.Constant(kind == "all")), *self._loops([found])], load(_TOTAL)
        if kind in _EXTREMES:
            step = assign(_TOTAL, word(self.scope, _EXTREMES[kind], load(_TOTAL), value))
            return [assign(_TOTAL, self._first(value, dtype)), *self._loops([step])], load(_TOTAL)
        if kind in _PLACES:
            return self._place_of_extreme(value, dtype)
        return self._sum(value, dtype)

    def _sum(self, value: ast.expr, dtype: np.dtype[np.generic] | None) -> tuple[list[ast.stmt], ast.expr]:
        kind = self._reduced.kind
        product = kind == "prod"
        start: ast.expr = ast.Constant(1 if product else 0)
        wide = np.int64 if kind == "count_nonzero" else wider(kind, dtype) or summed(kind, dtype)
        if wide is not None:
            value = word(self.scope, wide, value)
        if dtype is not None:
            start = word(self.scope, dtype.type if wide is None else wide, start)
        step: ast.stmt = ast.AugAssign(stored(_TOTAL), ast.Mult() if product else ast.Add(), value)
        if dtype is not None and dtype.kind == "f" and not product:
            # NumPy adds in an order of its own too; in program order a CPU would wait for each addition.
            step = assign(_TOTAL, word(self.scope, intrinsics.reassociable_add, load(_TOTAL), value))
        size = self.size(self._node, self._reduced.axes)
        result = finished(self.scope, self._node, kind, load(_TOTAL), size)
        return [assign(_TOTAL, start), *self._loops([step])], result

    def _place_of_extreme(self, value: ast.expr, dtype: np.dtype[np.generic] | None) -> tuple[list[ast.stmt], ast.expr]:
        """The first place of the extreme; a nan counts as one."""
        better: ast.expr = ast.Compare(load(_VALUE), [_PLACES[self._reduced.kind]()], [load(_TOTAL)])
        if dtype is None or dtype.kind in "fc":
            is_nan = ast.Compare(load(_VALUE), [ast.NotEq()], [load(_VALUE)])
            none_yet = ast.Compare(load(_TOTAL), [ast.Eq()], [load(_TOTAL)])
            better = ast.BoolOp(ast.Or(), [better, ast.BoolOp(ast.And(), [is_nan, none_yet])])
        (axis,) = self._reduced.axes
        found = ast.If(better, [assign(_TOTAL, load(_VALUE)), assign(_PLACE, self.variables[axis])], [])
        start = [assign(_TOTAL, self._first(value, dtype)), assign(_PLACE, ast.Constant(0))]
        return [*start, *self._loops([assign(_VALUE, value), found])], load(_PLACE)

    def _first(self, value: ast.expr, dtype: np.dtype[np.generic] | None) -> ast.expr:
        return self.first(value, dtype, self._node, self._reduced.axes)

    def _loops(self, body: list[ast.stmt]) -> list[ast.stmt]:
        lengths = self.lengths(self._node)
        for axis in reversed(self._reduced.axes):
            count = word(self.scope, range, copied(lengths[axis].code))
            body = [ast.For(stored(self.variables[axis].id), count, body, [])]
        return body

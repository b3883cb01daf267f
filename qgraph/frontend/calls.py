"""Calls of funcs at kernel level: the func's statements become the kernel's, and its result is a value like any other."""

from __future__ import annotations

import ast
import copy

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bindings import Binding, LeafRef, RangeRef, ScalarRef, SlotRef, StructRef
from qgraph.frontend.exits import lower_returns
from qgraph.frontend.frames import ADDED, Frame, Structure
from qgraph.frontend.host import binding, host_expression
from qgraph.frontend.ranges import refuse_array
from qgraph.frontend.ranks import reduction
from qgraph.frontend.region import Region, callee, callee_needs_region, is_parallel_loop
from qgraph.frontend.resolve import bind_call, refuse_recursion, without_docstring
from qgraph.frontend.scope import Scope
from qgraph.language import Func
from qgraph.program import StructType


def enter_function(region: Region, scope: Scope, tree: ast.FunctionDef) -> None:
    """Handle the statements of a function, the kernel or a func, whose ``scope`` has its parameters and its frame."""
    frame = scope.frame
    assert frame is not None
    for name, bound in list(scope.names.items()):
        # A parameter that is assigned in a loop or branch becomes a kernel scalar, which starts with what was passed.
        if frame.assigned_nested(name) and _is_number(bound):
            region.run(scope).assign(scope, name, ast.copy_location(ast.Name(name, ast.Load()), tree))
    statements = without_docstring(tree.body)
    region.block(scope, lower_returns(frame, scope, statements, lambda node: is_parallel_loop(scope, node)))


def _is_number(bound: Binding) -> bool:
    return not bound.is_array if isinstance(bound, LeafRef) else isinstance(bound, (ScalarRef, SlotRef))


def call_func(region: Region, scope: Scope, function: Func, owner: StructRef | None, node: ast.Call) -> Binding | None:
    """The statements of a func, with its parameters bound to what the call passes; what it returns, or None."""
    unit = region.unit
    refuse_recursion(unit, function, scope, node)
    source = unit.source_of(function)
    names: dict[str, Binding] = {}
    for parameter, argument in bind_call(scope, source, owner, node).items():
        names[parameter] = bind_value(region, scope, argument) if isinstance(argument, ast.expr) else argument
    frame = Frame(unit, source.tree)
    inner = scope.of(source, names, frame)
    unit.calling.append(function)
    enter_function(region, inner, source.tree)
    unit.calling.pop()
    return None if frame.returns is None else result_of(inner, frame.returns, node)


def result_of(scope: Scope, structure: Structure, node: ast.AST) -> Binding:
    """The binding of what a function returned, at the end of its ``scope``."""
    if structure.name:
        assert scope.frame is not None
        bound = scope.frame.result(structure.name, scope.names.get(structure.name))
        assert bound is not None, "every path to the end assigns what is returned"
        return bound
    children = {str(k): result_of(scope, part, node) for k, part in enumerate(structure.parts)}
    return StructRef(StructType(structure.cls or tuple, ()), "the result", children)


def bind_value(region: Region, scope: Scope, value: ast.expr) -> Binding:
    """What a name stands for that is bound to ``value``: a thing known now, a number of the host, or a new kernel scalar."""
    known = binding(region.unit, scope, value)
    if known is not None:
        return held_range(region, known) if isinstance(known, RangeRef) else known
    view = region.arrays.bind(region, scope, value)
    if view is not None:
        return view
    name = f"{ADDED}argument{len(region.unit.slots)}"
    region.run(scope).assign(scope, name, evaluated(region, scope, value))
    return scope.names.pop(name)


def held_range(region: Region, bound: RangeRef) -> RangeRef:
    """``bound``, a range that gets a name: its bounds are what they are now, whatever happens to the scalars in them."""
    scope = bound.scope
    call = copy.deepcopy(bound.call)
    call.args = [_held_bound(region, scope, argument) for argument in call.args]
    return RangeRef(call, scope)


def _held_bound(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Tuple):
        parts = [_held_bound(region, scope, part) for part in node.elts]
        return ast.copy_location(ast.Tuple(parts, ast.Load()), node)
    if isinstance(node, ast.Starred) or host_expression(region.unit, scope, node) is not None:
        return node
    refuse_array(scope, node)
    name = f"{ADDED}bound{len(region.unit.slots)}"
    scope.names[name] = bind_value(region, scope, node)
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def evaluated(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    """``node`` in which calls of funcs with kernel-level loops have been made, and stand as names of their results."""
    if not any(_needs_statements(region, scope, child) for child in ast.walk(node)):
        return node
    if host_expression(region.unit, scope, node) is not None:
        return node
    result: ast.expr = _Calls(region, scope).visit(copy.deepcopy(node))
    return result


def _needs_statements(region: Region, scope: Scope, node: ast.AST) -> bool:
    """Whether an expression takes loops of its own: a call of a func that has some, or a reduction of arrays."""
    if reduction(scope, node):
        return True
    return isinstance(node, ast.Call) and callee_needs_region(region.unit, scope, node)


class _Calls(ast.NodeTransformer):
    """Makes the calls in the order in which Python would."""

    def __init__(self, region: Region, scope: Scope) -> None:
        self._region = region
        self._scope = scope

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not callee_needs_region(self._region.unit, self._scope, node):
            self.generic_visit(node)
            return self._reduced(node)
        found = callee(self._scope, node)
        assert found is not None
        result = call_func(self._region, self._scope, *found, node)
        if result is None:
            raise KernelSyntaxError(
                f"`{ast.unparse(node)}` returns nothing", self._scope.span(node), hint="give the func a `return`"
            )
        name = f"{ADDED}call{len(self._region.unit.slots)}_{node.lineno}_{node.col_offset}"
        self._scope.names[name] = result
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return self._reduced(node)

    def _reduced(self, node: ast.expr) -> ast.expr:
        if not reduction(self._scope, node):
            return node
        return self._region.arrays.reduce(self._region, self._scope, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values[0] = self.visit(node.values[0])
        for value in node.values[1:]:
            self._refuse(value, "and" if isinstance(node.op, ast.And) else "or")
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.visit(node.test)
        self._refuse(node.body, "if")
        self._refuse(node.orelse, "else")
        return node

    def _refuse(self, node: ast.expr, word: str) -> None:
        """A call that may not be made at all needs a branch of its own."""
        for child in ast.walk(node):
            if isinstance(child, ast.Call) and callee_needs_region(self._region.unit, self._scope, child):
                raise KernelSyntaxError(
                    f"`{ast.unparse(child)}`, which has loops, stands behind `{word}`: it runs only in some cases",
                    self._scope.span(child),
                    hint="write an `if` statement, and call it in the branch",
                )

"""Calls of funcs at kernel level: the func's statements become the kernel's, and its result is a value like any other."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.row_elements import with_stars
from qgraph.frontend.desugar.made_tuples import gives_tuple, in_tuple, made_structure, makes_tuple
from qgraph.frontend.desugar.match_statement import chosen_case
from qgraph.frontend.desugar.tuple_select import with_choices
from qgraph.frontend.inference.host_expressions import binding, host_expression, settled
from qgraph.frontend.inference.iteration_space import LoopCall, refuse_array
from qgraph.frontend.inference.ranks import histogram_part_of, is_place, places_of_true, rank, reduction, view_word
from qgraph.frontend.inference.selected import Masked, extracted, masked_operand, with_operand
from qgraph.frontend.names.bindings import (
    Binding,
    Poisoned,
    RangeRef,
    ScalarRef,
    SlotRef,
    StructRef,
    Value,
    is_known_number,
)
from qgraph.frontend.names.call_binding import bind_call, callee, refuse_recursion, without_docstring, without_value
from qgraph.frontend.names.definite_assignment import falls_through, names_assigned
from qgraph.frontend.names.foreign_calls import fields_of, refuse_own_code
from qgraph.frontend.names.function_frame import ADDED, Frame, Structure
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import known_test
from qgraph.frontend.statements.region import Region, calls_func, is_inlined, is_opaque, is_parallel_loop, made_array
from qgraph.frontend.statements.returns import (
    lower_returns,
    place_of_result,
    returns_structure,
)
from qgraph.ir.argument_types import StructType
from qgraph.ir.trees import assign, at_place, index_with, load, names_in, parts_of
from qgraph.language import Func
from qgraph.source import as_written, copied, nodes_of, standing_for


def enter_function(region: Region, scope: Scope, tree: ast.FunctionDef) -> None:
    """Handle the statements of a function, the kernel or a func, whose ``scope`` has its parameters and its frame."""
    frame = scope.frame
    assert frame is not None
    for name, bound in list(scope.names.items()):
        # A parameter that is assigned in a loop or branch becomes a kernel scalar, which starts with what was passed.
        is_number = is_known_number(bound) or isinstance(bound, (ScalarRef, SlotRef))
        if is_number and frame.assigned_nested(name):
            region.run(scope).assign(scope, name, ast.copy_location(load(name), tree))
    statements = without_docstring(tree.body)
    region.block(scope, lower_returns(frame, scope, statements, lambda node: is_parallel_loop(scope, node)))


def pruned(unit: ProgramBuilder, scope: Scope, tree: ast.FunctionDef) -> ast.FunctionDef:
    """``tree`` without the branches that are dropped at compile time, as far as the start of the function decides them.

    What they return or assign is then nothing that the function does. Choices between tuples have become branches.
    """
    tree = with_choices(with_stars(scope, unit, tree, whole=True), lambda value: makes_tuple(scope, value))
    tree.body = _Pruning(scope, names_assigned(tree.body)).block(tree.body)
    return tree


class _Pruning(ast.NodeTransformer):
    def __init__(self, scope: Scope, assigned: Container[str]) -> None:
        self._scope = scope
        self._assigned = assigned

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            kept = self.visit(statement)
            result += kept if isinstance(kept, list) else [kept]
            if isinstance(kept, list) and not falls_through(kept):
                break
        return result

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        known = None if self._varies(node.test) else known_test(self._scope, node.test)
        if known is None:
            return self.generic_visit(node)
        return self.block(node.body if known else node.orelse) or [ast.copy_location(ast.Pass(), node)]

    def visit_Match(self, node: ast.Match) -> ast.AST | list[ast.stmt]:
        kept = None if self._varies(node.subject) else chosen_case(self._scope, node)
        if kept is None:
            return self.generic_visit(node)
        return self.block(kept) or [ast.copy_location(ast.Pass(), node)]

    def _varies(self, node: ast.expr) -> bool:
        return any(name in self._assigned for name in names_in(node))


def call_func(region: Region, scope: Scope, function: Func, owner: StructRef | Value | None, node: ast.Call) -> Binding | None:
    """The statements of a func, with its parameters bound to what the call passes; what it returns, or None."""
    unit = region.unit
    refuse_recursion(unit, function, scope, node)
    source = function.source
    names: dict[str, Binding] = {}
    for parameter, argument in bind_call(scope, source, owner, node).items():
        if function.is_word and isinstance(argument, ast.expr) and rank(scope, argument) != 1:
            found = f"`{as_written(argument)}` is no array of one dimension, and `{as_written(node.func)}` takes such"
            raise scope.error(found, argument, "pass a row, a column, or another part of one dimension")
        names[parameter] = bind_value(region, scope, argument) if isinstance(argument, ast.expr) else argument
    tree = pruned(unit, scope.of(source, names), source.tree)
    frame = Frame(unit, tree, names)
    inner = scope.of(source, names, frame)
    unit.calling.append(function)
    enter_function(region, inner, tree)
    unit.calling.pop()
    return None if frame.returns is None else result_of(inner, frame.returns, node)


def result_of(scope: Scope, structure: Structure, node: ast.AST) -> Binding:
    """The binding of what a function returned, at the end of its ``scope``."""
    if structure.name:
        assert scope.frame is not None
        bound = scope.frame.result(structure.name, scope.names.get(structure.name))
        assert bound is not None, "every path to the end assigns what is returned"
        if isinstance(bound, Poisoned):
            raise KernelSyntaxError(
                f"{scope.source.name}() returns an array from a loop or branch, and only a call decides which",
                place_of_result(scope, structure.name),
                hint="return the array at its end, or let the func write the result to an array that it is given",
            )
        return bound
    cls = structure.cls or tuple
    fields = fields_of(cls) or [str(k) for k in range(len(structure.parts))]
    children = {name: result_of(scope, part, node) for name, part in zip(fields, structure.parts, strict=True)}
    return StructRef(StructType(cls, ()), "the result", children)


def bind_value(region: Region, scope: Scope, value: ast.expr) -> Binding:
    """What a name stands for that is bound to ``value``: a thing known now, a number of the host, or a new kernel scalar."""
    known = binding(region.unit, scope, value)
    if known is not None:
        return held_range(region, known) if isinstance(known, RangeRef) else settled(region.unit, scope, known, value)
    view = region.arrays.bind(region, scope, value)
    if view is not None:
        return view
    if isinstance(value, ast.Tuple) and any(rank(scope, part) for part in value.elts):
        parts = {str(k): bind_value(region, scope, part) for k, part in enumerate(value.elts)}
        return StructRef(StructType(tuple, ()), f"`{as_written(value)}`", parts)
    made = made_structure(scope, value)
    if made is not None:
        assert isinstance(value, ast.Call)
        refuse_own_code(scope, made[0], value)
        parts = {field: bind_value(region, scope, part) for field, part in made[1].items()}
        return StructRef(StructType(made[0], ()), f"`{as_written(value)}`", parts)
    name = f"{ADDED}argument{len(region.unit.slots)}"
    # Before the run is asked for: a call in the value may end it.
    value = evaluated(region, scope, value)
    known = binding(region.unit, scope, value)
    if known is not None:
        return settled(region.unit, scope, known, value)
    region.run(scope).assign(scope, name, value)
    return scope.names.pop(name)


def held_range(region: Region, bound: RangeRef) -> RangeRef:
    """``bound``, a range that gets a name: its bounds are what they are now, whatever happens to the scalars in them."""
    scope = bound.scope
    call = copied(bound.call)
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
    return _load(name, node)


def bounds_call(region: Region, found: LoopCall) -> bool:
    """Whether a bound of a range calls what may write arrays, or reduces one: both happen once, in their order."""
    unknown = [part for part in found.call.args if host_expression(region.unit, found.scope, part) is None]
    calls = [child for part in unknown for child in nodes_of(part) if isinstance(child, ast.Call)]
    return any(callee(found.scope, call) is not None or is_opaque(found.scope, call) for call in calls) or any(
        has_calls(region, found.scope, part) for part in unknown
    )


def evaluated(region: Region, scope: Scope, node: ast.expr, *, among_arrays: bool = False) -> ast.expr:
    """``node`` in which calls of funcs that have kernel-level loops, or give tuples, have been made: names of their results.

    So are new arrays that an expression makes on its way, but for ``np.zeros(n)`` and its kin at the top: a name is theirs.
    ``among_arrays``: it is part of a statement of whole arrays, where opaque calls are made before, once.
    """
    if isinstance(node, ast.Call) and made_array(scope, node) is not None:
        return evaluated_arguments(region, scope, node)
    among_arrays = (among_arrays or rank(scope, node) > 0) and any(is_opaque(scope, child) for child in nodes_of(node))
    if not (among_arrays or has_calls(region, scope, node)) or host_expression(region.unit, scope, node) is not None:
        return node
    result: ast.expr = _Calls(region, scope).visit(copied(node))
    return result


def evaluated_array(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    """``node`` as ``evaluated``, in a statement of whole arrays; what it makes at the top gets a name, too."""
    node = evaluated(region, scope, node, among_arrays=True)
    return node if made_array(scope, node) is None else _Calls(region, scope).array(node)


def evaluated_arguments(region: Region, scope: Scope, node: ast.Call) -> ast.Call:
    """``node`` with evaluated arguments."""
    if any(has_calls(region, scope, child) for child in [*node.args, *node.keywords]):
        node = copied(node)
        _Calls(region, scope).arguments(node)
    return node


def with_named_base(region: Region, scope: Scope, node: ast.Subscript) -> ast.Subscript:
    """``node`` with a name for its array where that is computed here."""
    if not _is_computed(scope, node.value):
        return node
    base = evaluated(region, scope, node.value)
    node = copied(node)
    node.value = _Calls(region, scope).array(base) if _is_computed(scope, base) else base
    return node


def in_order(region: Region, scope: Scope, nodes: Sequence[ast.expr], *, before: ast.expr | None = None) -> list[ast.expr]:
    """``nodes`` evaluated one after the other, as the operands of one expression are, and ``before`` another one."""
    return _Calls(region, scope).in_order(copied([*nodes]), rest=[] if before is None else [before])


def has_calls(region: Region, scope: Scope, node: ast.AST) -> bool:
    """Whether something in ``node`` has to be computed before it: a call, or a reduction of arrays."""
    return any(_is_made(region, scope, child) for child in nodes_of(node))


def _is_made(region: Region, scope: Scope, node: ast.AST) -> bool:
    """Whether an expression takes statements of its own: the callee's, the loop of a reduction, or of a new array."""
    if reduction(scope, node) or region.arrays.makes(scope, node):
        return True
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return made_structure(scope, node.value) is not None or _is_computed(scope, node.value)
    if (view := view_word(scope, node)) is not None:
        return _is_computed(scope, view.array)
    if isinstance(node, ast.Tuple):
        return any(gives_tuple(scope, part) for part in node.elts)
    if not isinstance(node, ast.Call):
        return False
    return is_inlined(region.unit, scope, node) or returns_structure(region.unit, scope, node)


def _is_computed(scope: Scope, node: ast.expr) -> bool:
    """Whether an array is computed here, so that a part of it is one of an array without a name."""
    computes = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call))
    return computes and rank(scope, node) > 0 and not is_place(scope, node)


class _Calls(ast.NodeTransformer):
    """Makes the calls in the order in which Python would; what is read before a call is held, since the call may change it."""

    def __init__(self, region: Region, scope: Scope) -> None:
        self._region = region
        self._scope = scope

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if reduction(self._scope, node):
            return self._reduced(node)
        if self._region.arrays.makes(self._scope, node):
            self.arguments(node)
            return self.array(node)
        if view_word(self._scope, node) is not None:
            return self._view(node)
        if not _is_made(self._region, self._scope, node):
            self.arguments(node)
            # What is called may be given an array only now that the calls in it have been made.
            if _is_made(self._region, self._scope, node):
                return self.visit_Call(node)
            return self._kept(node) if is_opaque(self._scope, node) else node
        found = callee(self._scope, node)
        assert found is not None
        result = call_func(self._region, self._scope, *found, node)
        if result is None:
            raise without_value(self._scope, found[0].source, node)
        name = self._name("call", node)
        self._scope.names[name] = result
        return _load(name, node)

    def _kept(self, node: ast.Call) -> ast.expr:
        """A name for what an opaque call gives."""
        name = self._name("kept", node)
        self._region.run(self._scope).assign(self._scope, name, node)
        return _load(name, node)

    def arguments(self, node: ast.Call) -> None:
        """Evaluate what ``node``, a call, is given."""
        base = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        values = self.in_order([*base, *node.args, *(keyword.value for keyword in node.keywords)])
        if isinstance(node.func, ast.Attribute):
            node.func.value = values.pop(0)
        for keyword, value in zip(node.keywords, values[len(node.args) :], strict=True):
            keyword.value = value
        node.args = values[: len(node.args)]

    def _view(self, node: ast.Call) -> ast.expr:
        """A view of an array that may be computed here, which gets a name then."""
        self.arguments(node)
        view = view_word(self._scope, node)
        if view is not None and _is_computed(self._scope, view.array):
            named = self.array(view.array)
            if isinstance(node.func, ast.Attribute) and node.func.value is view.array:
                node.func.value = named
            else:
                node.args[0] = named
        return node

    def array(self, node: ast.expr) -> ast.expr:
        """A name for the new array that ``node`` is, whose operands have been evaluated."""
        # Several may be made in place of one expression.
        name = f"{self._name('array', node)}_{node.end_col_offset}_{len(self._region.unit.leaves)}"
        bound = self._region.arrays.bind(self._region, self._scope, node)
        assert bound is not None
        self._scope.names[name] = bound
        return _load(name, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if reduction(self._scope, node):
            return self._reduced(node)
        return self._part(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._part(node)

    def _part(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        """A field of a tuple or dataclass that is made here: a name for what is made, and the field of that."""
        if places_of_true(self._scope, node) is not None or histogram_part_of(self._scope, node) is not None:
            assert isinstance(node.value, ast.Call)
            self.arguments(node.value)
            return self.array(node)
        if made_structure(self._scope, node.value) is not None:
            name = self._name("made", node)
            self._scope.names[name] = bind_value(self._region, self._scope, node.value)
            node.value = _load(name, node.value)
        if isinstance(node, ast.Subscript):
            node.value, *index = self.in_order([node.value, *parts_of(node)])
            node.slice = index_with(node, index)
        else:
            self.generic_visit(node)
        if _is_computed(self._scope, node.value):
            node.value = self.array(node.value)
        return self.array(node) if self._region.arrays.makes(self._scope, node) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if reduction(self._scope, node):
            return self._reduced(node)
        node.left, node.right = self.in_order([node.left, node.right])
        if reduction(self._scope, node):
            return self._reduced(node)
        return self.array(node) if self._region.arrays.makes(self._scope, node) else node

    def _reduced(self, node: ast.expr) -> ast.expr:
        selected = masked_operand(self._scope, node)
        if selected is not None:
            operand, found = selected
            mask, value = self.in_order([found.mask, found.value])
            replaced = with_operand(node, operand, extracted(Masked(mask, value), operand))
            return self._region.arrays.reduce(self._region, self._scope, replaced)
        self.generic_visit(node)
        if not reduction(self._scope, node):
            # What was called has given a matrix; or the length of what a mask selects is that of a name now.
            return self.array(node) if rank(self._scope, node) else node
        return self._region.arrays.reduce(self._region, self._scope, node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            node.left, node.comparators[0] = self.in_order([node.left, node.comparators[0]])
            return node
        # `a < b < c` is `a < b and b < c`, with one b.
        middle = self._name("middle", node)
        node.left, value = self.in_order([node.left, node.comparators[0]])
        self._scope.names[middle] = bind_value(self._region, self._scope, value)
        first = ast.Compare(node.left, node.ops[:1], [_load(middle, value)])
        rest = ast.Compare(_load(middle, value), node.ops[1:], node.comparators[1:])
        return self._visited(ast.BoolOp(ast.And(), [first, rest]), node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        node.elts = self.in_order(node.elts, named=True)
        return node

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        names = [name for name, part in ast.iter_fields(node) if part is not None]
        for name, part in zip(names, self.in_order([getattr(node, name) for name in names]), strict=True):
            setattr(node, name, part)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if not any(has_calls(self._region, self._scope, value) for value in node.values[1:]):
            node.values[0] = self.visit(node.values[0])
            return node
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
        name = self._name("either", node)
        known = host_expression(self._region.unit, self._scope, first) is not None
        test: ast.expr = copied(first) if known else _load(name, first)
        if isinstance(node.op, ast.Or):
            test = ast.UnaryOp(ast.Not(), test)
        choice = at_place(ast.If(test, [assign(name, rest, node)], []), node)
        return self._stated([assign(name, first, node), choice], name, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if not any(has_calls(self._region, self._scope, value) for value in (node.body, node.orelse)):
            node.test = self.visit(node.test)
            return node
        name = self._name("either", node)
        choice = ast.If(node.test, [assign(name, node.body, node)], [assign(name, node.orelse, node)])
        return self._stated([at_place(choice, node)], name, node)

    def _name(self, word: str, node: ast.expr) -> str:
        return f"{ADDED}{word}{len(self._region.unit.slots)}_{node.lineno}_{node.col_offset}"

    def _stated(self, statements: list[ast.stmt], name: str, node: ast.expr) -> ast.expr:
        """What runs in some cases only, as statements that leave the value under ``name``."""
        for child in (child for statement in statements for child in nodes_of(statement)):
            if isinstance(child, ast.Name) and child.id == name:
                standing_for(child, node)
        self._region.block(self._scope, statements)
        bound = self._scope.names.get(name)
        if isinstance(bound, Poisoned) and not bound.number:
            hint = "write an `if` statement, and use the array in its branches"
            raise self._scope.error(f"`{as_written(node)}` is one array or another, or a number", node, hint)
        return _load(name, node)

    def _visited(self, made: ast.expr, node: ast.expr) -> ast.expr:
        result: ast.expr = self.visit(ast.fix_missing_locations(ast.copy_location(made, node)))
        return result

    def in_order(self, nodes: list[ast.expr], *, rest: Sequence[ast.expr] = (), named: bool = False) -> list[ast.expr]:
        """``nodes`` one after the other, and before ``rest``; what a later one may change of an earlier one is held.

        ``named``: each gets a name of its own later, as the parts of a tuple do.
        """
        return [self._before(node, [*nodes[at + 1 :], *rest], named=named) for at, node in enumerate(nodes)]

    def _before(self, node: ast.expr, rest: Sequence[ast.expr], *, named: bool = False) -> ast.expr:
        """One of ``in_order``, with what comes behind it."""
        value = evaluated(self._region, self._scope, node) if named else self.visit(node)
        if named:
            statements, value = in_tuple(self._scope, value)
            self._region.block(self._scope, statements)
        calls = calls_func(self._region.unit, self._scope, *rest)
        if rank(self._scope, value) and not calls:
            # Reductions, and new arrays, change nothing.
            return value
        if calls or any(has_calls(self._region, self._scope, later) for later in rest):
            return held(self._region, self._scope, value)
        return value


def held(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    """``node``, or where it reads array elements, the name of a scalar, or of a new array, that keeps its value of now.

    An index of several axes, or a slice, keeps its parts. A part of an array is a name for the part that it is now.
    """
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([held(region, scope, part) for part in node.elts], node.ctx), node)
    if isinstance(node, ast.Slice):
        parts = (None if part is None else held(region, scope, part) for part in (node.lower, node.upper, node.step))
        return ast.copy_location(ast.Slice(*parts), node)
    is_read = any(isinstance(child, (ast.Subscript, ast.Call)) for child in nodes_of(node))
    if not is_read and (rank(scope, node) == 0 or is_place(scope, node)):
        return node
    name = f"{ADDED}held{len(region.unit.slots)}_{node.lineno}_{node.col_offset}"
    scope.names[name] = bind_value(region, scope, node)
    return _load(name, node)


def _load(name: str, node: ast.expr) -> ast.expr:
    """``name``, which holds what ``node`` was, in its place."""
    return standing_for(ast.copy_location(load(name), node), node)

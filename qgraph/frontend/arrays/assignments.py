"""Kernel-level assignments and calls: names for things known now, numbers of the host, kernel scalars, array elements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.arrays.array_statements import assign_slice
from qgraph.frontend.arrays.index_words import grids
from qgraph.frontend.arrays.library_calls import assign_library_call
from qgraph.frontend.arrays.selections import assign_selection, assign_selections, update_at, with_named_places
from qgraph.frontend.arrays.sparse_products import assign_sparse_product
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.bodies.vectors import may_be_vector
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.inference.host_expressions import binding, settled
from qgraph.frontend.inference.ranks import is_selection, known_object, rank
from qgraph.frontend.inference.stores import is_in_place, is_slice, ufunc_at
from qgraph.frontend.names.bindings import (
    Binding,
    HostExpr,
    LeafRef,
    Poisoned,
    RangeRef,
    ScalarRef,
    SlotRef,
    StructRef,
    Value,
    ViewRef,
    same,
)
from qgraph.frontend.names.foreign_calls import refuse_own_code
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import known_test
from qgraph.frontend.statements.inlining import bind_value, call_func, evaluated, has_calls, held_range
from qgraph.frontend.statements.node_statements import node_statement
from qgraph.frontend.statements.region import Region, callee
from qgraph.frontend.statements.returns import made_structure
from qgraph.frontend.statements.temporaries import temporary
from qgraph.frontend.syntax import unsupported_functions
from qgraph.ir.argument_types import StructType
from qgraph.ir.trees import at_place, load, stored
from qgraph.nodes.registry import statement_of_word
from qgraph.operations.table import is_one_of
from qgraph.source import as_written, standing_for


def assign(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``targets = value``."""
    places = [part for target in node.targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    if any(is_selection(scope, place) for place in places):
        assign_selections(region, scope, node)
        return
    if any(is_slice(scope, place) for place in places):
        if len(places) == 1 and may_be_vector(scope, node.value):
            _to_elements(region, scope, node)
            return
        _to_slices(region, scope, node)
        return
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.IfExp):
        chosen = _choice_of_tuples(scope, node.targets[0], node.value)
        if chosen:
            region.block(scope, chosen)
            return
    if all(_stores_elements(target) for target in node.targets):
        _to_elements(region, scope, node)
        return
    _to_names(region, scope, node)


def _to_names(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``targets = value`` where some are names."""
    made = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and not isinstance(node.value, ast.Call)
    # A new array has a type, which its numbers tell before they are kernel scalars.
    value = node.value
    if not made or not rank(scope, value):
        value = evaluated(region, scope, grids(scope, with_named_places(region, scope, value)))
    for target in node.targets:
        if isinstance(target, ast.Name):
            _bind_all(region, scope, [(target, value)])
        elif isinstance(target, ast.Tuple):
            _unpack(region, scope, target, value)
        elif _stores_elements(target):
            _to_elements(region, scope, ast.copy_location(ast.Assign([target], value), node))
        else:
            raise _no_target(scope, target)


def _no_target(scope: Scope, target: ast.expr) -> KernelSyntaxError:
    return scope.error(
        f"`{as_written(target)}` cannot be assigned at kernel level",
        target,
        "assign to elements of arrays, or bind plain names; for another shape t = np.reshape(x, (n, m))",
    )


def _refuse_slices_in_tuples(scope: Scope, node: ast.Assign) -> None:
    tuples = (target.elts for target in node.targets if isinstance(target, ast.Tuple))
    found = next((part for parts in tuples for part in parts if is_slice(scope, part)), None)
    if found is not None:
        raise scope.error(
            f"`{as_written(found)}` is assigned together with others",
            found,
            "write one statement for each part of an array",
        )


def _choice_of_tuples(scope: Scope, target: ast.Name, value: ast.IfExp) -> list[ast.stmt]:
    """``t = (1, 2) if c else (3, 4)``: an `if` that assigns each part, and the tuple of them; nothing for other choices."""
    if known_test(scope, value.test) is not None:
        return []
    both = (value.body, value.orelse)
    if any(made_structure(scope, each) is not None for each in both):
        raise scope.error(
            f"`{as_written(value)}` chooses between named tuples or dataclasses",
            value,
            "write an `if` that makes one on each path",
        )
    tuples = [each for each in both if isinstance(each, ast.Tuple)]
    if not tuples:
        return []
    if len(tuples) < 2 or len(tuples[0].elts) != len(tuples[1].elts):
        raise scope.error(
            f"`{as_written(value)}` is not a tuple of one length",
            value,
            "write as many values for both cases: t = (1, 2) if c else (3, 4)",
        )
    names = [f"{ADDED}choice{k}_{value.lineno}_{value.col_offset}" for k in range(len(tuples[0].elts))]
    branches: list[list[ast.stmt]] = []
    for each in tuples:
        stores = [standing_for(stored(name), part) for name, part in zip(names, each.elts, strict=True)]
        branches.append([at_place(ast.Assign([ast.Tuple([*stores], ast.Store())], each), each)])
    loads = [standing_for(load(name), target, f"{target.id}[{k}]") for k, name in enumerate(names)]
    whole = ast.Tuple([*loads], ast.Load())
    return [at_place(ast.If(value.test, *branches), value), at_place(ast.Assign([target], whole), target)]


def annotated(region: Region, scope: Scope, node: ast.AnnAssign) -> None:
    """``name: type = value``: the annotation says nothing to a kernel."""
    if node.value is not None:
        assign(region, scope, ast.copy_location(ast.Assign([node.target], node.value), node))


def augmented(region: Region, scope: Scope, node: ast.AugAssign) -> None:
    """``target += value``."""
    if isinstance(node.target, ast.Subscript) and is_selection(scope, node.target):
        assign_selection(region, scope, node, node.target, node.value)
        return
    if is_slice(scope, node.target) or is_in_place(scope, node):
        if may_be_vector(scope, node.value):
            region.run(scope).statement(scope, node)
        else:
            assign_slice(region, scope, node, node.target, node.value)
        return
    if _stores_elements(node.target) and not has_calls(region, scope, node.value):
        region.run(scope).statement(scope, node)
        return
    assign(region, scope, as_assignment(node))


def expression(region: Region, scope: Scope, node: ast.Expr) -> None:
    """A call whose value nobody takes."""
    value = node.value
    if isinstance(value, ast.Constant):
        return
    if isinstance(value, ast.Call):
        found = callee(scope, value)
        if found is not None:
            call_func(region, scope, *found, value)
            return
        if ufunc_at(scope, value) is not None:
            update_at(region, scope, value)
            return
        bound = scope.static(value.func)
        function = bound.value if isinstance(bound, Value) else None
        if (kind := statement_of_word(function)) is not None:
            node_statement(region, scope, value, kind, function)
            return
        if is_one_of(function, (print, *language.ATOMICS)):
            node = copy.copy(node)
            node.value = evaluated(region, scope, value)
            region.run(scope).statement(scope, node)
            return
        if not isinstance(function, np.ufunc):
            # Says what is wrong with the callee, if anything.
            Body(region.unit).expression(scope, value)
        if isinstance(value.func, ast.Attribute):
            instead = unsupported_functions.as_assignment(function, value)
            raise scope.error(f"`{as_written(node)}` is not supported as a statement", node, instead)
    raise scope.error(
        f"the statement `{as_written(node)}` has no effect here",
        node,
        "assign its value to a name, or to an element of an array",
    )


def _to_slices(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``x[:] = value``, also ``x[:] = s = value`` where the value is a number, or what a library's function gives."""
    if assign_sparse_product(region, scope, node) or assign_library_call(region, scope, node):
        return
    _refuse_slices_in_tuples(scope, node)
    value = evaluated(region, scope, node.value)
    if len(node.targets) > 1:
        if rank(scope, value):
            # A part of an array that one of them changes is seen changed by the next, as in NumPy.
            held = f".held{node.lineno}_{node.col_offset}"
            scope.names[held] = bind_value(region, scope, value)
            value = _name(held, value, ast.Load())
        else:
            (value,) = _held(region, scope, [value])
    for target in node.targets:
        single = ast.copy_location(ast.Assign([target], value), node)
        if is_slice(scope, target):
            assign_slice(region, scope, single, target, value)
        else:
            assign(region, scope, single)


def _to_elements(region: Region, scope: Scope, node: ast.Assign) -> None:
    node = copy.copy(node)
    node.value = evaluated(region, scope, node.value)
    for target in node.targets:
        node.value = _fitting(scope, target, node.value)
    region.run(scope).statement(scope, node)


def _fitting(scope: Scope, target: ast.expr, value: ast.expr) -> ast.expr:
    """``value`` for elements: a number for one, and for a tuple of them a tuple that is written out."""
    if not isinstance(target, ast.Tuple):
        if rank(scope, value):
            raise scope.error(
                f"`{as_written(value)}` is an array, and `{as_written(target)}` one element",
                value,
                "assign to a part of the array, `y[:] = ...`, or take one element, `x[0]`",
            )
        return value
    parts = _unpacked(scope, target, value)
    if parts is None:
        return value
    elements = [_fitting(scope, each, part) for each, part in zip(target.elts, parts, strict=True)]
    return ast.copy_location(ast.Tuple(elements, ast.Load()), value)


def _unpacked(scope: Scope, target: ast.Tuple, value: ast.expr) -> list[ast.expr] | None:
    """The parts of ``value``, as many as ``target`` has; None for what a device function may give as a tuple."""
    cls, _ = _structure(scope, value) or (tuple, [])
    # Python unpacks no dataclass.
    if not issubclass(cls, tuple):
        raise scope.error(
            f"`{as_written(value)}` is a {cls.__name__}, and no tuple that can be unpacked", value, "name its fields"
        )
    parts = _parts(scope, value)
    if parts is not None and len(parts) != len(target.elts):
        raise scope.error(f"{len(parts)} values for {len(target.elts)} names", value, "unpack as many as there are")
    if parts is None and (rank(scope, value) or not isinstance(value, ast.Call)):
        hint = "unpack a tuple, a shape, or what a func returns; of an array name its parts: a, b = x[0], x[1]"
        numbers = isinstance(value, ast.Call) and unsupported_functions.of_numbers(known_object(scope, value.func))
        raise scope.error(f"`{as_written(value)}` cannot be unpacked at kernel level", value, numbers or hint)
    return parts


def _unpack(region: Region, scope: Scope, target: ast.Tuple, value: ast.expr) -> None:
    parts = _unpacked(scope, target, value)
    pairs = [] if parts is None else _flattened(scope, target, parts)
    if pairs:
        target = ast.copy_location(ast.Tuple([element for element, _ in pairs], ast.Store()), target)
    names = [element for element in target.elts if isinstance(element, ast.Name)]
    if not all(isinstance(element, ast.Name if parts is None else (ast.Name, ast.Subscript)) for element in target.elts):
        raise _no_target(scope, target)
    if parts is None:
        _check_scalars(scope, names)
        region.run(scope).unpack(scope, [name.id for name in names], value)
    elif len(names) == len(pairs):
        _bind_all(region, scope, [*zip(names, (part for _, part in pairs), strict=True)])
    else:
        # All values first, under names of their own.
        for element, held in zip(target.elts, _held(region, scope, [part for _, part in pairs]), strict=True):
            assign(region, scope, ast.copy_location(ast.Assign([element], held), element))


def _bind_all(region: Region, scope: Scope, values: list[tuple[ast.Name, ast.expr]]) -> None:
    """Bind names at once. One of a tuple has a name for each part, `t.0` and so on, to be assigned again."""
    parts: list[tuple[ast.Name, ast.expr]] = []
    layouts: list[tuple[ast.Name, _Layout]] = []
    for target, value in values:
        if _is_laid_out(scope, value):
            layouts.append((target, _lay_out(scope, target, value, parts)))
        else:
            parts.append((target, value))
    _bind(region, scope, parts)
    for target, layout in layouts:
        structure = layout.bound(scope)
        _check_rebinding(scope, target, structure)
        scope.names[target.id] = structure


def _is_laid_out(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is a tuple that is made here, or one of kernel scalars."""
    bound = scope.static(value)
    return _has_scalars(bound) if isinstance(bound, StructRef) else bool(_structure(scope, value) and _parts(scope, value))


@dataclass(frozen=True, slots=True)
class _Layout:
    """A tuple of class ``cls``: by field, another one, or the name of what is no tuple."""

    cls: type
    name: str
    fields: Mapping[str, _Layout | str]

    def bound(self, scope: Scope) -> StructRef:
        """The tuple, once its names are bound."""
        children: dict[str, Binding] = {
            field: part.bound(scope) if isinstance(part, _Layout) else scope.names[part] for field, part in self.fields.items()
        }
        return StructRef(StructType(self.cls, ()), self.name, children)


def _lay_out(scope: Scope, target: ast.Name, value: ast.expr, found: list[tuple[ast.Name, ast.expr]]) -> _Layout:
    """Give each part of ``value``, and of the tuples in it, a name, and add both to ``found``."""
    structure = _structure(scope, value)
    assert structure is not None
    cls, fields = structure
    laid: dict[str, _Layout | str] = {}
    for k, (field, part) in enumerate(zip(fields, _parts(scope, value) or [], strict=True)):
        name = _name(f"{target.id}{ADDED}{k}", target, ast.Store(), f"{as_written(target)}[{k}]")
        if _structure(scope, part) is not None:
            laid[field] = _lay_out(scope, name, part, found)
        else:
            laid[field] = name.id
            found.append((name, part))
    return _Layout(cls, target.id, laid)


def _structure(scope: Scope, value: ast.expr) -> tuple[type, list[str]] | None:
    """The class of a tuple or dataclass, and its fields; None for other values."""
    if isinstance(value, ast.Tuple):
        return tuple, [str(k) for k in range(len(value.elts))]
    bound, made = scope.static(value), made_structure(scope, value)
    if isinstance(bound, StructRef):
        return bound.type.cls, [*bound.children]
    return None if made is None else (made[0], [*made[1]])


def _has_scalars(bound: StructRef) -> bool:
    children = bound.children.values()
    return any(isinstance(child, ScalarRef) or (isinstance(child, StructRef) and _has_scalars(child)) for child in children)


def _flattened(scope: Scope, target: ast.Tuple, parts: list[ast.expr]) -> list[tuple[ast.expr, ast.expr]]:
    """The pairs of a target and a value of ``(a, b), c = (x, y), z``."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for element, part in zip(target.elts, parts, strict=True):
        inner = _parts(scope, part) if isinstance(element, ast.Tuple) else None
        if isinstance(element, ast.Tuple) and inner is not None and len(inner) == len(element.elts):
            pairs += _flattened(scope, element, inner)
        else:
            pairs.append((element, part))
    return pairs


def _held(region: Region, scope: Scope, parts: list[ast.expr]) -> list[ast.expr]:
    """Names for what ``parts`` are now."""
    loads: list[ast.expr] = []
    stores: list[ast.Name] = []
    for k, part in enumerate(parts):
        name = f".held{k}_{part.lineno}_{part.col_offset}"
        loads.append(_name(name, part, ast.Load()))
        stores.append(_name(name, part, ast.Store()))
    _bind(region, scope, [*zip(stores, parts, strict=True)])
    return loads


def _name(name: str, node: ast.expr, context: ast.expr_context, text: str = "") -> ast.Name:
    """A name that stands for ``node``, which messages write as ``text``."""
    return standing_for(ast.copy_location(ast.Name(name, context), node), node, text)


def _parts(scope: Scope, value: ast.expr) -> list[ast.expr] | None:
    """The parts of a tuple that is known as such."""
    if isinstance(value, ast.Tuple):
        return value.elts
    made = made_structure(scope, value)
    if made is not None:
        assert isinstance(value, ast.Call)
        # A name stands for the fields as they are given: nothing of the class runs.
        refuse_own_code(scope, made[0], value)
        return [*made[1].values()]
    bound, fields = scope.static(value), []
    if isinstance(bound, StructRef):
        fields = [*bound.children]
    elif isinstance(value, ast.Attribute) and value.attr == "shape":
        fields = [str(k) for k in range(rank(scope, value.value))]
    return [_part(value, field) for field in fields] or None


def _part(value: ast.expr, field: str) -> ast.expr:
    """A field of a tuple, by its name or its index."""
    part = (
        ast.Subscript(value, ast.Constant(int(field)), ast.Load())
        if field.isdigit()
        else ast.Attribute(value, field, ast.Load())
    )
    return ast.fix_missing_locations(ast.copy_location(part, value))


def _bind(region: Region, scope: Scope, values: list[tuple[ast.Name, ast.expr]]) -> None:
    """Bind names at once: what is known now needs no code, the rest are kernel scalars."""
    frame = scope.frame
    assert frame is not None
    known: list[tuple[ast.Name, Binding]] = []
    computed: list[tuple[ast.Name, ast.expr]] = []
    for name, value in values:
        bound = temporary(region, scope, name, value) or binding(region.unit, scope, value)
        bound = bound or region.arrays.bind(region, scope, value)
        if bound is None or (frame.varies(name.id) and _is_number(bound)):
            computed.append((name, value if bound is None else _once(region, scope, bound, value)))
        else:
            known.append((name, settled(region.unit, scope, bound, value)))
    if computed:
        _check_scalars(scope, [name for name, _ in computed])
        region.run(scope).assign_all(scope, [name.id for name, _ in computed], [value for _, value in computed])
    for name, bound in known:
        _check_rebinding(scope, name, bound)
        scope.names[name.id] = held_range(region, bound) if isinstance(bound, RangeRef) else bound


def _once(region: Region, scope: Scope, bound: Binding, value: ast.expr) -> ast.expr:
    """``value``, or where the device may round it in another way, a name for what the host computes."""
    held = settled(region.unit, scope, bound, value)
    if not isinstance(held, HostExpr) or not held.name:
        return value
    name = f"{SHARED}{held.name}"
    scope.bind(name, held)
    return _name(name, value, ast.Load())


def _check_rebinding(scope: Scope, name: ast.Name, bound: Binding) -> None:
    """A name that means something at the start of a loop's body, or a branch, means the same in each iteration."""
    before = scope.entry.get(name.id)
    if before is None or isinstance(before, Poisoned) or same(before, bound):
        return
    # Where an array takes the place of another one, the region around settles that at its end.
    if all(isinstance(each, LeafRef) and each.is_array for each in (scope.names.get(name.id), bound)):
        return
    hint = "copy the elements in a loop: for i in range(x.shape[0]): x[i] = y[i]"
    if isinstance(bound, ViewRef):
        hint = (
            "keep a mask of what is left of the array, or its length: part = x[:n][mask], x[: len(part)] = part, n = len(part)"
        )
    raise scope.error(
        f"`{as_written(name)}` is bound again inside a device loop or branch, to something that is no number", name, hint
    )


def _is_number(bound: Binding) -> bool:
    match bound:
        case LeafRef():
            return not bound.is_array
        case Value():
            return isinstance(bound.value, (bool, int, float, complex)) or hasattr(bound.value, "dtype")
        case _:
            return isinstance(bound, HostExpr)


def _check_scalars(scope: Scope, names: list[ast.Name]) -> None:
    """The variable of a loop around, and arrays that are seen from inside a loop, are no kernel scalars."""
    for name in names:
        bound = scope.names.get(name.id)
        if isinstance(bound, SlotRef):
            raise scope.error(
                f"`{as_written(name)}` is the variable of a serial loop, and it is assigned in the loop",
                name,
                "use another name",
            )


def _stores_elements(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_stores_elements(element) for element in target.elts)
    return isinstance(target, ast.Subscript)

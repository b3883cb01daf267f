"""Kernel-level assignments and calls: names for things known now, numbers of the host, kernel scalars, array elements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.arrays.array_statements import assign_slice, is_slice
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.desugar.break_continue import placed
from qgraph.frontend.inference.host_expressions import binding, settled
from qgraph.frontend.inference.ranks import is_in_place, rank
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
    same,
)
from qgraph.frontend.names.foreign_calls import refuse_own_code
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import known_test
from qgraph.frontend.statements.inlining import call_func, evaluated, has_calls, held_range
from qgraph.frontend.statements.node_statements import node_statement
from qgraph.frontend.statements.region import Region, callee
from qgraph.frontend.statements.returns import made_structure
from qgraph.frontend.statements.temporaries import temporary
from qgraph.ir.program import StructType
from qgraph.nodes.registry import statement_of_word
from qgraph.source import as_written, standing_for


def assign(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``targets = value``."""
    if any(is_slice(scope, target) for target in node.targets):
        _to_slices(region, scope, node)
        return
    _refuse_slices_in_tuples(scope, node)
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.IfExp):
        chosen = _choice_of_tuples(scope, node.targets[0], node.value)
        if chosen:
            region.block(scope, chosen)
            return
    if all(_stores_elements(target) for target in node.targets):
        _to_elements(region, scope, node)
        return
    value = _called(region, scope, node.value)
    for target in node.targets:
        if isinstance(target, ast.Name):
            _bind_all(region, scope, [target], [value])
        elif isinstance(target, ast.Tuple):
            _unpack(region, scope, target, value)
        elif _stores_elements(target):
            _to_elements(region, scope, ast.copy_location(ast.Assign([target], value), node))
        else:
            raise KernelSyntaxError(
                f"`{as_written(target)}` cannot be assigned at kernel level",
                scope.span(target),
                hint="assign to elements of arrays, or bind plain names",
            )


def _refuse_slices_in_tuples(scope: Scope, node: ast.Assign) -> None:
    tuples = (target.elts for target in node.targets if isinstance(target, ast.Tuple))
    found = next((part for parts in tuples for part in parts if is_slice(scope, part)), None)
    if found is not None:
        raise KernelSyntaxError(
            f"`{as_written(found)}` is assigned together with others",
            scope.span(found),
            hint="write one statement for each part of an array",
        )


def _choice_of_tuples(scope: Scope, target: ast.Name, value: ast.IfExp) -> list[ast.stmt]:
    """``t = (1, 2) if c else (3, 4)``: an `if` that assigns each part, and the tuple of them; nothing for other choices."""
    if known_test(scope, value.test) is not None:
        return []
    both = (value.body, value.orelse)
    if any(made_structure(scope, each) is not None for each in both):
        raise KernelSyntaxError(
            f"`{as_written(value)}` chooses between named tuples or dataclasses",
            scope.span(value),
            hint="write an `if` that makes one on each path",
        )
    tuples = [each for each in both if isinstance(each, ast.Tuple)]
    if not tuples:
        return []
    if len(tuples) < 2 or len(tuples[0].elts) != len(tuples[1].elts):
        raise KernelSyntaxError(
            f"`{as_written(value)}` is not a tuple of one length",
            scope.span(value),
            hint="write as many values for both cases: t = (1, 2) if c else (3, 4)",
        )
    names = [f"{ADDED}choice{k}_{value.lineno}_{value.col_offset}" for k in range(len(tuples[0].elts))]
    branches = []
    for each in tuples:
        stores: list[ast.expr] = [
            standing_for(ast.Name(name, ast.Store()), part) for name, part in zip(names, each.elts, strict=True)
        ]
        branches.append([placed(ast.Assign([ast.Tuple(stores, ast.Store())], each), each)])
    texts = [f"{target.id}[{k}]" for k in range(len(names))]
    loads: list[ast.expr] = [
        standing_for(ast.Name(name, ast.Load()), target, text) for name, text in zip(names, texts, strict=True)
    ]
    whole = ast.Tuple(loads, ast.Load())
    return [placed(ast.If(value.test, *branches), value), placed(ast.Assign([target], whole), target)]


def annotated(region: Region, scope: Scope, node: ast.AnnAssign) -> None:
    """``name: type = value``: the annotation says nothing to a kernel."""
    if node.value is not None:
        assign(region, scope, ast.copy_location(ast.Assign([node.target], node.value), node))


def augmented(region: Region, scope: Scope, node: ast.AugAssign) -> None:
    """``target += value``."""
    if is_slice(scope, node.target) or is_in_place(scope, node):
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
        bound = scope.static(value.func)
        if isinstance(bound, Value) and (kind := statement_of_word(bound.value)) is not None:
            node_statement(region, scope, value, kind, bound.value)
            return
        if isinstance(bound, Value) and (bound.value is print or bound.value in language.ATOMICS):
            node = copy.copy(node)
            node.value = evaluated(region, scope, value)
            region.run(scope).statement(scope, node)
            return
        # Says what is wrong with the callee, if anything.
        Body(region.unit).expression(scope, value)
        if isinstance(value.func, ast.Attribute):
            raise KernelSyntaxError(
                f"`{as_written(node)}` is not supported as a statement",
                scope.span(node),
                hint="write what it does: `x[:] = 3`, for one, or a loop",
            )
    raise KernelSyntaxError(
        f"the statement `{as_written(node)}` has no effect here",
        scope.span(node),
        hint="assign its value to a name, or to an element of an array",
    )


def _called(region: Region, scope: Scope, value: ast.expr) -> ast.expr:
    """``value``, its calls of funcs with loops made."""
    return evaluated(region, scope, value)


def _to_slices(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``x[:] = value``, also ``x[:] = s = value`` where the value is a number."""
    value = _called(region, scope, node.value)
    if len(node.targets) > 1:
        if rank(scope, value):
            raise KernelSyntaxError(
                f"`{as_written(node)}` assigns an array to several places",
                scope.span(node),
                hint="write one statement for each",
            )
        (value,) = _held(region, scope, [value])
    for target in node.targets:
        single = ast.copy_location(ast.Assign([target], value), node)
        if is_slice(scope, target):
            assign_slice(region, scope, single, target, value)
        else:
            assign(region, scope, single)


def _to_elements(region: Region, scope: Scope, node: ast.Assign) -> None:
    node = copy.copy(node)
    node.value = _called(region, scope, node.value)
    for target in node.targets:
        node.value = _fitting(scope, target, node.value)
    region.run(scope).statement(scope, node)


def _fitting(scope: Scope, target: ast.expr, value: ast.expr) -> ast.expr:
    """``value`` for elements: a number for one, and for a tuple of them a tuple that is written out."""
    if not isinstance(target, ast.Tuple):
        if rank(scope, value):
            raise KernelSyntaxError(
                f"`{as_written(value)}` is an array, and `{as_written(target)}` one element",
                scope.span(value),
                hint="assign to a part of the array, `y[:] = ...`, or take one element, `x[0]`",
            )
        return value
    parts = _unpacked(scope, target, value)
    if parts is None:
        return value
    elements = [_fitting(scope, each, part) for each, part in zip(target.elts, parts, strict=True)]
    return ast.copy_location(ast.Tuple(elements, ast.Load()), value)


def _unpacked(scope: Scope, target: ast.Tuple, value: ast.expr) -> list[ast.expr] | None:
    """The parts of ``value``, as many as ``target`` has; None for what a device function may give as a tuple."""
    _refuse_fields(scope, value)
    parts = _parts(scope, value)
    if parts is not None and len(parts) != len(target.elts):
        raise KernelSyntaxError(
            f"{len(parts)} values for {len(target.elts)} names", scope.span(value), hint="unpack as many as there are"
        )
    if parts is None and (rank(scope, value) or not isinstance(value, ast.Call)):
        raise KernelSyntaxError(
            f"`{as_written(value)}` cannot be unpacked at kernel level",
            scope.span(value),
            hint="unpack a tuple, a shape, or what a func returns; of an array name its parts: a, b = x[0], x[1]",
        )
    return parts


def _unpack(region: Region, scope: Scope, target: ast.Tuple, value: ast.expr) -> None:
    parts = _unpacked(scope, target, value)
    if parts is not None and any(isinstance(element, ast.Tuple) for element in target.elts):
        target, parts = _flattened(scope, target, parts)
    names = [element for element in target.elts if isinstance(element, ast.Name)]
    if len(names) == len(target.elts):
        if parts is not None:
            _bind_all(region, scope, names, parts)
        else:
            _check_scalars(scope, names)
            region.run(scope).unpack(scope, [name.id for name in names], value)
        return
    if parts is not None and all(isinstance(element, (ast.Name, ast.Subscript)) for element in target.elts):
        _mixed(region, scope, target.elts, parts)
        return
    raise KernelSyntaxError(
        f"`{as_written(target)}` cannot be assigned at kernel level",
        scope.span(target),
        hint="assign to elements of arrays, or bind plain names",
    )


def _refuse_fields(scope: Scope, value: ast.expr) -> None:
    """Raise for a dataclass: Python unpacks none."""
    bound, made = scope.static(value), made_structure(scope, value)
    cls = bound.type.cls if isinstance(bound, StructRef) else made[0] if made is not None else tuple
    if not issubclass(cls, tuple):
        raise KernelSyntaxError(
            f"`{as_written(value)}` is a {cls.__name__}, and no tuple that can be unpacked",
            scope.span(value),
            hint="name its fields",
        )


def _bind_all(region: Region, scope: Scope, targets: list[ast.Name], values: list[ast.expr]) -> None:
    """Bind names at once. One of a tuple has a name for each part, `t.0` and so on, to be assigned again."""
    names: list[ast.Name] = []
    parts: list[ast.expr] = []
    tuples: list[tuple[ast.Name, ast.expr]] = []
    for target, value in zip(targets, values, strict=True):
        if _is_laid_out(scope, value):
            _lay_out(scope, target, value, names, parts)
            tuples.append((target, value))
        else:
            names.append(target)
            parts.append(value)
    # Before a name that stands in a value may be another thing.
    made = [_made_of(scope, target.id, value) for target, value in tuples]
    _bind(region, scope, names, parts)
    for (target, _), layout in zip(tuples, made, strict=True):
        structure = layout.bound(scope)
        _check_rebinding(scope, target, structure)
        scope.names[target.id] = structure


def _is_laid_out(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is a tuple that is made here, or one of kernel scalars."""
    bound = scope.static(value)
    if isinstance(bound, StructRef):
        return _has_scalars(bound)
    return (isinstance(value, ast.Tuple) or made_structure(scope, value) is not None) and bool(_parts(scope, value))


def _lay_out(scope: Scope, target: ast.Name, value: ast.expr, names: list[ast.Name], values: list[ast.expr]) -> None:
    """The names and values of all parts of ``value`` and of the tuples in it."""
    for k, part in enumerate(_parts(scope, value) or []):
        name = ast.copy_location(ast.Name(f"{target.id}{ADDED}{k}", ast.Store()), target)
        standing_for(name, target, f"{as_written(target)}[{k}]")
        if _is_tuple(scope, part):
            _lay_out(scope, name, part, names, values)
        else:
            names.append(name)
            values.append(part)


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


def _made_of(scope: Scope, name: str, value: ast.expr) -> _Layout:
    bound, made = scope.static(value), made_structure(scope, value)
    parts = _parts(scope, value) or []
    cls: type = tuple
    fields = [str(k) for k in range(len(parts))]
    if isinstance(bound, StructRef):
        cls, fields = bound.type.cls, list(bound.children)
    elif made is not None:
        cls, fields = made[0], list(made[1])
    inner = [f"{name}{ADDED}{k}" for k in range(len(parts))]
    laid = [_made_of(scope, each, part) if _is_tuple(scope, part) else each for each, part in zip(inner, parts, strict=True)]
    return _Layout(cls, name, dict(zip(fields, laid, strict=True)))


def _is_tuple(scope: Scope, value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Tuple) or isinstance(scope.static(value), StructRef) or made_structure(scope, value) is not None
    )


def _has_scalars(bound: StructRef) -> bool:
    children = bound.children.values()
    return any(isinstance(child, ScalarRef) or (isinstance(child, StructRef) and _has_scalars(child)) for child in children)


def _flattened(scope: Scope, target: ast.Tuple, parts: list[ast.expr]) -> tuple[ast.Tuple, list[ast.expr]]:
    """``(a, b), c = (x, y), z`` as ``a, b, c = x, y, z``."""
    targets: list[ast.expr] = []
    values: list[ast.expr] = []
    for element, part in zip(target.elts, parts, strict=True):
        inner = _parts(scope, part) if isinstance(element, ast.Tuple) else None
        if isinstance(element, ast.Tuple) and inner is not None and len(inner) == len(element.elts):
            flat, inner = _flattened(scope, element, inner)
            targets += flat.elts
            values += inner
        else:
            targets.append(element)
            values.append(part)
    return ast.copy_location(ast.Tuple(targets, ast.Store()), target), values


def _mixed(region: Region, scope: Scope, targets: list[ast.expr], parts: list[ast.expr]) -> None:
    """``s, x[0] = ...``: all values first, under names of their own."""
    held = _held(region, scope, parts)
    for target, name in zip(targets, held, strict=True):
        assign(region, scope, ast.copy_location(ast.Assign([target], name), target))


def _held(region: Region, scope: Scope, parts: list[ast.expr]) -> list[ast.expr]:
    """Names for what ``parts`` are now."""
    names = [f".held{k}_{part.lineno}_{part.col_offset}" for k, part in enumerate(parts)]
    stores = [
        standing_for(ast.copy_location(ast.Name(name, ast.Store()), part), part)
        for name, part in zip(names, parts, strict=True)
    ]
    _bind(region, scope, stores, parts)
    loads = [ast.copy_location(ast.Name(name, ast.Load()), part) for name, part in zip(names, parts, strict=True)]
    return [standing_for(load, part) for load, part in zip(loads, parts, strict=True)]


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
    bound = scope.static(value)
    count = 0
    if isinstance(bound, StructRef):
        count = len(bound.children)
    elif isinstance(value, ast.Attribute) and value.attr == "shape":
        count = rank(scope, value.value)
    if count == 0:
        return None
    if isinstance(bound, StructRef) and not all(key.isdigit() for key in bound.children):
        parts: list[ast.expr] = [ast.Attribute(value, key, ast.Load()) for key in bound.children]
    else:
        parts = [ast.Subscript(value, ast.Constant(k), ast.Load()) for k in range(count)]
    return [ast.fix_missing_locations(ast.copy_location(part, value)) for part in parts]


def _bind(region: Region, scope: Scope, names: list[ast.Name], values: list[ast.expr]) -> None:
    """Bind names at once: what is known now needs no code, the rest are kernel scalars."""
    frame = scope.frame
    assert frame is not None
    known: list[tuple[ast.Name, Binding]] = []
    computed: list[tuple[ast.Name, ast.expr]] = []
    for name, value in zip(names, values, strict=True):
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
    return standing_for(ast.copy_location(ast.Name(name, ast.Load()), value), value)


def _check_rebinding(scope: Scope, name: ast.Name, bound: Binding) -> None:
    """A name that means something at the start of a loop's body, or a branch, means the same in each iteration."""
    before = scope.entry.get(name.id)
    if before is None or isinstance(before, Poisoned) or same(before, bound) or _both_arrays(scope, name, bound):
        return
    raise KernelSyntaxError(
        f"`{as_written(name)}` is bound again inside a device loop or branch, to something that is no number",
        scope.span(name),
        hint="copy the elements in a loop: for i in range(x.shape[0]): x[i] = y[i]",
    )


def _both_arrays(scope: Scope, name: ast.Name, bound: Binding) -> bool:
    """Whether an array takes the place of another one: the region around settles that at its end."""
    before = scope.names.get(name.id)
    return all(isinstance(each, LeafRef) and each.is_array for each in (before, bound))


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
            raise KernelSyntaxError(
                f"`{as_written(name)}` is the variable of a serial loop, and it is assigned in the loop",
                scope.span(name),
                hint="use another name",
            )


def _stores_elements(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_stores_elements(element) for element in target.elts)
    return isinstance(target, ast.Subscript)

"""Names that are bound at kernel level: to what is known now, to kernel scalars, to each part of a tuple."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from qgraph.frontend.desugar.made_tuples import made_structure
from qgraph.frontend.inference.host_expressions import binding, settled
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.inference.stores import refuse_element_array
from qgraph.frontend.names.bindings import (
    Binding,
    HostExpr,
    LeafRef,
    Poisoned,
    RangeRef,
    ScalarRef,
    SlotRef,
    StructRef,
    ViewRef,
    is_known_number,
    same,
)
from qgraph.frontend.names.foreign_calls import refuse_own_code
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import held_range
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.temporaries import temporary
from qgraph.ir.argument_types import StructType
from qgraph.records import dataclass
from qgraph.source import as_written, standing_for


def bind_all(region: Region, scope: Scope, values: list[tuple[ast.Name, ast.expr]]) -> None:
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
    return (
        _has_scalars(bound) if isinstance(bound, StructRef) else bool(structure_of(scope, value) and tuple_parts(scope, value))
    )


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
    structure = structure_of(scope, value)
    assert structure is not None
    cls, fields = structure
    laid: dict[str, _Layout | str] = {}
    for k, (field, part) in enumerate(zip(fields, tuple_parts(scope, value) or [], strict=True)):
        name = _name(f"{target.id}{ADDED}{k}", target, ast.Store(), f"{as_written(target)}[{k}]")
        if structure_of(scope, part) is not None:
            laid[field] = _lay_out(scope, name, part, found)
        else:
            laid[field] = name.id
            found.append((name, part))
    return _Layout(cls, target.id, laid)


def structure_of(scope: Scope, value: ast.expr) -> tuple[type, list[str]] | None:
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


def flattened(scope: Scope, target: ast.Tuple, parts: list[ast.expr]) -> list[tuple[ast.expr, ast.expr]]:
    """The pairs of a target and a value of ``(a, b), c = (x, y), z``."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for element, part in zip(target.elts, parts, strict=True):
        inner = tuple_parts(scope, part) if isinstance(element, ast.Tuple) else None
        if isinstance(element, ast.Tuple) and inner is not None and len(inner) == len(element.elts):
            pairs += flattened(scope, element, inner)
        else:
            pairs.append((element, part))
    return pairs


def held_parts(region: Region, scope: Scope, parts: list[ast.expr]) -> list[ast.expr]:
    """Names for what ``parts`` are now."""
    loads: list[ast.expr] = []
    stores: list[ast.Name] = []
    for k, part in enumerate(parts):
        name = f".held{k}_{part.lineno}_{part.col_offset}"
        loads.append(_name(name, part, ast.Load()))
        stores.append(_name(name, part, ast.Store()))
    bind_all(region, scope, [*zip(stores, parts, strict=True)])
    return loads


def _name(name: str, node: ast.expr, context: ast.expr_context, text: str = "") -> ast.Name:
    """A name that stands for ``node``, which messages write as ``text``."""
    return standing_for(ast.copy_location(ast.Name(name, context), node), node, text)


def tuple_parts(scope: Scope, value: ast.expr) -> list[ast.expr] | None:
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
        if bound is None:
            refuse_element_array(scope, value)
        if bound is None or (frame.varies(name.id) and is_known_number(bound)):
            computed.append((name, value if bound is None else _once(region, scope, bound, value)))
        else:
            known.append((name, settled(region.unit, scope, bound, value)))
    if computed:
        check_scalars(scope, [name for name, _ in computed])
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
    # What stands behind a `return` in a branch is a branch up to the function's end: nothing reads its names after it.
    if scope.frame is not None and scope.frame.assigned_at_top(name.id):
        return
    # Where an array takes the place of another one, the region around settles that at its end.
    if all(isinstance(each, LeafRef) and each.is_array for each in (scope.names.get(name.id), bound)):
        return
    hint = "copy the elements in a loop: for i in range(x.shape[0]): x[i] = y[i]"
    if isinstance(bound, ViewRef):
        hint = (
            "keep a mask of what is left of the array, or its length: part = x[:n][mask], x[: len(part)] = part, n = len(part)"
        )
    if isinstance(bound, StructRef):
        hint = "let it be a tuple of one class and length from the start, with the same arrays in it; or use another name here"
    raise scope.error(
        f"`{as_written(name)}` is bound again inside a device loop or branch, to something that is no number", name, hint
    )


def check_scalars(scope: Scope, names: list[ast.Name]) -> None:
    """The variable of a loop around, and arrays that are seen from inside a loop, are no kernel scalars."""
    for name in names:
        bound = scope.names.get(name.id)
        if isinstance(bound, SlotRef):
            raise scope.error(
                f"`{as_written(name)}` is the variable of a serial loop, and it is assigned in the loop",
                name,
                "use another name",
            )

"""Names that mean a new array after a branch or an iteration: its elements are copied to memory that every path agrees on."""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set

from qgraph.frontend.names.bindings import Binding, LeafRef, StructRef, ViewRef
from qgraph.frontend.names.program_builder import ADDED, ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.trees import at_place, load, parsed
from qgraph.source import Span, copied, standing_for


def arrays_of(bound: Binding) -> frozenset[str]:
    """The arrays that a name stands for."""
    match bound:
        case LeafRef() | ViewRef():
            return frozenset({bound.leaf.name})
        case StructRef():
            return frozenset().union(*(arrays_of(child) for child in bound.children.values()))
        case _:
            return frozenset()


def may_be(unit: ProgramBuilder, bound: Binding, leaves: Set[str], leaf: Leaf) -> bool:
    """Whether a name stands for one of ``leaves``, which ``leaf`` may be, or for what ``leaf`` is now under another name."""
    mine = arrays_of(bound)
    shared = unit.sometimes_same | unit.overlapping
    return bool(mine & (leaves | {leaf.name})) or any(frozenset({name, leaf.name}) in shared for name in mine)


def is_private(unit: ProgramBuilder, scope: Scope, name: str, leaves: frozenset[str], leaf: Leaf) -> bool:
    """Whether ``leaves``, which ``leaf`` may be, are memory of the kernel's own, of which nobody knows but ``name``."""
    if not leaves <= {each.leaf.name for each in unit.temporaries if not each.in_graph}:
        return False
    inside: Scope | None = scope
    while inside is not None:
        others = (
            bound for other, bound in inside.names.items() if not other.startswith(ADDED) and (other, inside) != (name, scope)
        )
        if any(may_be(unit, bound, leaves, leaf) for bound in others):
            return False
        inside = inside.caller
    return True


def copy_elements(region: Region, scope: Scope, name: str, target: Leaf, node: ast.stmt) -> None:
    """Copy what ``name`` means to ``target``, which it means from then on."""
    hidden = f"{ADDED}joined"
    scope.names[hidden] = LeafRef(target)
    source = standing_for(load(name), load(name), name.strip(ADDED))
    place = standing_for(ast.Subscript(load(hidden), ast.Constant(...), ast.Store()), source)
    region.block(scope, [at_place(ast.Assign([place], source), node)])
    del scope.names[hidden]
    scope.names[name] = LeafRef(target)


def join_new_arrays(
    unit: ProgramBuilder,
    inners: Sequence[Region],
    scopes: Sequence[Scope],
    conditions: Sequence[ast.expr | None],
    node: ast.If,
) -> None:
    """At the end of the two branches of ``node``: a name that means a new array in each means one after both.

    ``conditions``: when each runs, as the host knows it; the arrays may then differ in size.
    """
    made = {each.leaf.name for each in unit.temporaries}
    for name in sorted(frozenset.intersection(*(frozenset(scope.names) for scope in scopes))):
        bounds = [scope.names[name] for scope in scopes]
        leaves = [bound.leaf for bound in bounds if isinstance(bound, LeafRef) and bound.leaf.name in made]
        if name.startswith(ADDED) or len(leaves) < len(bounds) or len({leaf.name for leaf in leaves}) == 1:
            continue
        known = any(bound in scope.entry.values() for bound, scope in zip(bounds, scopes, strict=True))
        private = all(
            is_private(unit, scope, name, frozenset({leaf.name}), leaf) for leaf, scope in zip(leaves, scopes, strict=True)
        )
        if known or not private or len({leaf.type for leaf in leaves}) > 1:
            continue
        span = scopes[0].span(node)
        extents = _joined(unit, name, span, [unit.extents[leaf.name] for leaf in leaves], conditions[0])
        sizes = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in extents)
        joined = Leaf(unit.array_name(name), name, leaves[0].type)
        unit.add_temporary(Temporary(joined, sizes, span, computed=True), extents)
        for inner, scope, where in zip(inners, scopes, conditions, strict=True):
            with unit.where(where):
                copy_elements(inner, scope, name, joined, node)


def _joined(
    unit: ProgramBuilder, name: str, span: Span, shapes: Sequence[tuple[ast.expr, ...]], condition: ast.expr | None
) -> tuple[ast.expr, ...]:
    """The extents of an array that has those of the branch that was taken; where the device decides, calls must have one."""
    result: list[ast.expr] = []
    for axis, (first, second) in enumerate(zip(*shapes, strict=True)):
        texts = ast.unparse(first), ast.unparse(second)
        if texts[0] == texts[1]:
            result.append(copied(first))
        elif condition is not None:
            result.append(ast.fix_missing_locations(ast.IfExp(copied(condition), copied(first), copied(second))))
        else:
            found = f"`{name}` would have length %d along axis {axis} on one path, and %d on the other"
            note, hint = f"{found!r} % ({texts[0]}, {texts[1]})", "only the device knows the path: give it one shape on both"
            unit.host_value(parsed(f"({texts[0]}) == ({texts[1]})"), span, "shape", text=hint, note=note)
            result.append(copied(first))
    return tuple(result)

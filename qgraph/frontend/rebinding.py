"""Arrays that change places in a device loop or branch, as in `u, v = v, u`: a slot tells which array a name stands for.

Inside a region a name's array is known relative to the region's start; at its end the slots move so that the next iteration,
or what follows, finds each name where it was. That must be a permutation: then no two names are ever the same array.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from qgraph.errors import KernelSyntaxError, KernelTypeError
from qgraph.frontend.bindings import Gone, LeafRef
from qgraph.frontend.definite import names_assigned, needed_before
from qgraph.frontend.region import Region
from qgraph.frontend.scope import Scope
from qgraph.program import Leaf


@dataclass(frozen=True, slots=True)
class Places:
    """The arrays of names that a region binds again, as they are at its start."""

    names: dict[str, Leaf]


def arrays_that_move(region: Region, scope: Scope, blocks: Sequence[list[ast.stmt]], node: ast.stmt) -> Places:
    """Prepare for a region made of ``blocks``, of which each may run: names of arrays that they bind again get slots.

    Raises:
        KernelTypeError: the arrays have different types.
    """
    assigned = {name for block in blocks for name in names_assigned(block)}
    moving = sorted(name for name in assigned if _is_array(scope, name))
    needed = {name for block in blocks for name in needed_before(block, moving)}
    for name in moving:
        if name not in needed:
            scope.names[name] = Gone(
                f"`{name}` is an array that a loop or branch binds again", scope.span(node), "use another name after it"
            )
    moving = [name for name in moving if name in needed]
    if not moving:
        return Places({})
    leaves = [_leaf(scope, name) for name in moving]
    if any(leaf.name not in region.unit.selections for leaf in leaves):
        leaves = _make_selections(region, scope, moving, leaves, node)
    return Places(dict(zip(moving, leaves, strict=True)))


def put_back(region: Region, scope: Scope, places: Places, node: ast.stmt) -> None:
    """At the end of the region: move the slots, so that each name stands for its array again.

    Raises:
        KernelSyntaxError: two names stand for one array now.
    """
    sources = {name: _leaf(scope, name) if _is_array(scope, name) else None for name in places.names}
    moved = [name for name, leaf in places.names.items() if sources[name] != leaf]
    if not moved:
        return
    before = {places.names[name].name for name in moved}
    after = {leaf.name for leaf in (sources[name] for name in moved) if leaf is not None}
    if after != before:
        raise KernelSyntaxError(
            f"after this, {' and '.join(f'`{name}`' for name in sorted(moved))} are not the same arrays in another order",
            scope.span(names_assigned([node])[moved[0]][0]),
            hint="in a loop or branch arrays may change places, `u, v = v, u`; to copy one, write `u[:] = v` or a loop",
        )
    selections = region.unit.selections
    targets = [selections[places.names[name].name].slot for name in moved]
    values = [selections[leaf.name].slot for leaf in (sources[name] for name in moved) if leaf is not None]
    region.run(scope).rotate(targets, values, node)
    for name, leaf in places.names.items():
        scope.names[name] = LeafRef(leaf)


def _make_selections(region: Region, scope: Scope, names: list[str], leaves: list[Leaf], node: ast.stmt) -> list[Leaf]:
    unit = region.unit
    first = leaves[0]
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.type != first.type:
            raise KernelTypeError(
                f"`{names[0]}` is {first.type}, `{name}` is {leaf.type}: a loop or branch cannot give them each other's place",
                scope.span(node),
                hint="pass arrays of one dtype, number of dimensions and memory layout",
            )
        if leaf.name in unit.selections or len({each.name for each in leaves}) < len(leaves):
            raise KernelSyntaxError(
                f"`{name}` is one of several names of an array that a loop or branch binds again",
                scope.span(node),
                hint="give each array one name",
            )
    made = [unit.selection(name, tuple(leaves)) for name in names]
    for name, leaf in zip(names[1:], leaves[1:], strict=True):
        same = f"int({first.name}.shape == {leaf.name}.shape)"
        text = f"`{names[0]}` and `{name}` change places, and they have different shapes"
        unit.host_value(ast.parse(same, mode="eval").body, scope.span(node), "same", text=text)
    unit.alike(leaves, made)
    slots = [unit.selections[leaf.name].slot for leaf in made]
    region.run(scope).set_slots(slots, [ast.Constant(number) for number in range(len(slots))], node)
    for name, leaf in zip(names, made, strict=True):
        scope.names[name] = LeafRef(leaf)
    return made


def _is_array(scope: Scope, name: str) -> bool:
    bound = scope.names.get(name)
    return isinstance(bound, LeafRef) and bound.is_array


def _leaf(scope: Scope, name: str) -> Leaf:
    bound = scope.names[name]
    assert isinstance(bound, LeafRef)
    return bound.leaf

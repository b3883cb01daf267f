"""Arrays that swap names in a device loop or branch, as in `u, v = v, u`: a slot holds the index of the array behind a name.

Inside a region a name's array is known relative to the region's start; at its end the slots move so that the next iteration,
or what follows, finds each name where it was. That must be a permutation: then no two names are ever the same array.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from qgraph.errors import KernelSyntaxError, KernelTypeError
from qgraph.frontend.names.bindings import LeafRef, Poisoned, ViewRef
from qgraph.frontend.names.definite_assignment import names_assigned, names_bound_again, names_that_meet, needed_before
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.array_joins import arrays_of, copy_elements, is_private, may_be
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.task_builder import get_slot
from qgraph.ir.argument_types import ArrayType, Leaf, Type
from qgraph.ir.trees import parsed
from qgraph.records import dataclass
from qgraph.source import copied


@dataclass(frozen=True, slots=True)
class ArrayBindings:
    """The arrays of names that a region binds again, as they are at its start."""

    names: dict[str, Leaf]


def arrays_that_move(region: Region, scope: Scope, blocks: Sequence[list[ast.stmt]], node: ast.stmt) -> ArrayBindings:
    """Prepare for a region made of ``blocks``, of which each may run: names of arrays that they bind again get slots."""
    assigned = {name for block in blocks for name in names_bound_again(block)}
    bound_again = sorted(name for name in assigned if _is_array(scope, name) or isinstance(scope.names.get(name), ViewRef))
    needed = {name for block in blocks for name in needed_before(block, bound_again)} if bound_again else set()
    needed |= {name for name in bound_again if _kept_on_a_path(region, scope, name, blocks, node)}
    for name in bound_again:
        if name not in needed:
            scope.names[name] = Poisoned(
                f"`{name}` is an array that a loop or branch binds again",
                scope.span(node),
                f"use another name after it; or make an array before, {name} = x.copy(), and there copy to it, {name}[:] = y",
            )
    moving = [name for name in bound_again if name in needed and _is_array(scope, name)]
    places: dict[str, Leaf] = {}
    made = False
    for names in _groups(region.unit, scope, moving, blocks):
        leaves = [_leaf(scope, name) for name in names]
        candidates = {_candidates(region.unit, leaf) for leaf in leaves}
        if len(candidates) > 1 or not _may_move(region.unit, scope, names, leaves):
            leaves = _make_selections(region, scope, names, leaves, node)
            made = True
        places |= dict(zip(names, leaves, strict=True))
    if made:
        # A task finds the arrays behind its names when it starts: what the test of the loop or branch adds is another one.
        region.flush()
    return ArrayBindings(places)


def _kept_on_a_path(region: Region, scope: Scope, name: str, blocks: Sequence[list[ast.stmt]], node: ast.stmt) -> bool:
    """Whether some path leaves ``name``, an array of the kernel's own, as it is, and something may read it later.

    A loop may have no iteration; and one that has, leaves what its last one has made where this array is.
    """
    assert scope.frame is not None
    bound, own = scope.names.get(name), {each.leaf.name for each in region.unit.temporaries}
    if not isinstance(bound, LeafRef) or not {*_candidates(region.unit, bound.leaf)} <= own:
        return False
    kept = isinstance(node, ast.For | ast.While) or any(name not in names_assigned(block) for block in blocks)
    return kept and scope.frame.needed_after(name, node)


def _may_move(unit: ProgramBuilder, scope: Scope, names: Sequence[str], leaves: Sequence[Leaf]) -> bool:
    """Whether ``leaves`` have slots that nothing but ``names`` depends on: no name of a caller, and no name of a part.

    Nor does another name stand for what was one of them, and may be another one of them after a move.
    """
    assert scope.frame is not None
    mine = {leaf.name for leaf in leaves}
    bound = (each for name, each in scope.names.items() if name not in names and not name.startswith(ADDED))
    others = frozenset().union(*map(arrays_of, bound)) & unit.selections.keys()
    if mine & others or not mine <= scope.frame.selections:
        return False
    return not any(pair & mine and pair & others for pair in unit.sometimes_same | unit.overlapping)


def _groups(unit: ProgramBuilder, scope: Scope, names: list[str], blocks: Sequence[list[ast.stmt]]) -> list[list[str]]:
    """Names of arrays of one type that may get each other's place: those that meet, where no array is of two groups."""
    met = names_that_meet(statement for block in blocks for statement in block)
    types = {name: _without_tail(_leaf(scope, name)) for name in names}
    alike: dict[Type, list[str]] = {}
    groups: dict[tuple[Type, str], list[str]] = {}
    for name in names:
        alike.setdefault(types[name], []).append(name)
        groups.setdefault((types[name], met[name]), []).append(name)
    arrays = [{array for name in group for array in _candidates(unit, _leaf(scope, name))} for group in groups.values()]
    apart = sum(map(len, arrays)) == len(frozenset().union(*arrays))
    return list(groups.values() if apart else alike.values())


def _candidates(unit: ProgramBuilder, leaf: Leaf) -> tuple[str, ...]:
    """The arrays of the caller that ``leaf`` may be."""
    selection = unit.selections.get(leaf.name)
    return (leaf.name,) if selection is None else selection.leaves


def _without_tail(leaf: Leaf) -> Type:
    """The type of an array, but for extents: shapes are compared before the launch."""
    return replace(leaf.type, tail=(), ones=None) if isinstance(leaf.type, ArrayType) else leaf.type


def put_back(region: Region, scope: Scope, places: ArrayBindings, node: ast.stmt) -> None:
    """At the end of the region: move the slots, so that each name stands for its array again.

    Raises:
        KernelSyntaxError: two names stand for one array now.
    """
    for name in places.names:
        _keep_new_array(region, scope, name, places.names[name], node)
    sources = {name: _leaf(scope, name) if _is_array(scope, name) else None for name in places.names}
    moved = [name for name, leaf in places.names.items() if sources[name] != leaf]
    if not moved:
        return
    for name in moved:
        source = sources[name]
        if source is not None and _without_tail(source) != _without_tail(places.names[name]):
            was, becomes = places.names[name].type, source.type
            alike = " that lies otherwise in memory" if str(was) == str(becomes) else ""
            raise KernelTypeError(
                f"`{name}` is {was}, and becomes {becomes}{alike} in a loop or branch",
                scope.span(names_assigned([node])[name][0]),
                hint="give it an array of the same dtype, number of dimensions and memory layout",
            )
    before = frozenset(places.names[name].name for name in moved)
    after = frozenset(leaf.name for leaf in (sources[name] for name in moved) if leaf is not None)
    if _arranged(region.unit, scope, after, before) != before:
        found = f"after this, {' and '.join(f'`{name}`' for name in sorted(moved))} are not the same arrays in another order"
        hint = "in a loop or branch arrays may change places, `u, v = v, u`; to copy one, write `u[:] = v` or a loop"
        if len(moved) == 1:
            found = f"after this, `{moved[0]}` is one array or another"
            hint = (
                f"make an array before the loop or branch, {moved[0]} = x.copy(), and copy elements to it, {moved[0]}[:] = y; "
                "arrays may also change places, `u, v = v, u`"
            )
        place = scope.span(names_assigned([node])[moved[0]][0])
        raise KernelSyntaxError(found, place, hint=_copied_instead(scope, places, moved) or hint)
    selections = region.unit.selections
    pairs = [
        (selections[places.names[name].name], selections[leaf.name]) for name in moved if (leaf := sources[name]) is not None
    ]
    # A slot counts among the arrays of its group: names get places of their own group alone.
    assert all(to.leaves == of.leaves for to, of in pairs)
    targets, values = [to.slot for to, _ in pairs], [of.slot for _, of in pairs]
    region.run(scope).rotate(targets, values, [get_slot(slot) for slot in values], node)
    # What the test of the next iteration adds finds the arrays where they are now.
    region.flush()
    for name, bound in scope.names.items():
        if name not in places.names and not name.startswith(ADDED) and before & arrays_of(bound):
            scope.names[name] = Poisoned(
                f"`{name}` was bound in a loop or branch in which its array changes places",
                scope.span(node),
                "bind it again after the loop or branch",
            )
    for name, leaf in places.names.items():
        scope.names[name] = LeafRef(leaf)


def _copied_instead(scope: Scope, places: ArrayBindings, moved: Sequence[str]) -> str:
    """What to write where a name has got the array that one of ``moved`` was, and this another one: "" where none has."""
    for name in moved:
        for other, bound in scope.names.items():
            if other == name or other.startswith(ADDED) or not isinstance(bound, LeafRef) or bound.leaf != places.names[name]:
                continue
            made = (
                ""
                if other in places.names
                else f"make an array before the loop or branch, {other} = np.empty_like({name}), and "
            )
            return f"{made}copy what `{name}` was, `{other}[:] = {name}`; arrays may also change places, `u, v = v, u`"
    return ""


def _keep_new_array(region: Region, scope: Scope, name: str, place: Leaf, node: ast.stmt) -> None:
    """Where ``name`` means an array that was made here, copy its elements to the place that it had, if that is its alone."""
    made, unit = scope.names.get(name), region.unit
    if not isinstance(made, LeafRef) or _without_tail(made.leaf) != _without_tail(place) or made in scope.entry.values():
        return
    old, new = (frozenset(_candidates(unit, leaf)) for leaf in (place, made.leaf))
    others = (bound for other, bound in scope.entry.items() if other != name and not other.startswith(ADDED))
    if old & new or any(may_be(unit, bound, old, place) for bound in others):
        return
    if is_private(unit, scope, name, old, place) and is_private(unit, scope, name, new, made.leaf):
        copy_elements(region, scope, name, place, node)


def _arranged(unit: ProgramBuilder, scope: Scope, after: frozenset[str], before: frozenset[str]) -> frozenset[str]:
    """The arrays that ``after`` are in some order, as far as an inner region had slots of its own for some of ``before``."""
    assert scope.frame is not None
    for made, outer in reversed(scope.frame.arranged.items()):
        alike = len({unit.selections[name].leaves for name in made | outer}) == 1
        if made <= after - before and alike and not outer & (after - made):
            after = (after - made) | outer
    return after


def _make_selections(region: Region, scope: Scope, names: list[str], leaves: list[Leaf], node: ast.stmt) -> list[Leaf]:
    """A slot for each of ``names``, which tells its array among all that they stand for now."""
    unit = region.unit
    if len({leaf.name for leaf in leaves}) < len(leaves):
        raise KernelSyntaxError(
            f"{' and '.join(f'`{name}`' for name in names)} are names of the same array, and a loop or branch binds them again",
            scope.span(node),
            hint="give each array one name",
        )
    candidates: list[str] = []
    starts: list[ast.expr] = []
    for leaf in leaves:
        mine = _candidates(unit, leaf)
        candidates += [name for name in mine if name not in candidates]
        selection = unit.selections.get(leaf.name)
        places = [candidates.index(name) for name in mine]
        starts.append(ast.Constant(places[0]) if selection is None else _place(get_slot(selection.slot), places))
    arrays = [unit.leaves[name] for name in candidates]
    made = [unit.selection(name, tuple(arrays)) for name in names]
    assert scope.frame is not None
    scope.frame.selections |= {leaf.name for leaf in made}
    if all(leaf.name in unit.selections for leaf in leaves):
        scope.frame.arranged[frozenset(leaf.name for leaf in made)] = frozenset(leaf.name for leaf in leaves)
    for name in candidates[1:]:
        same = f"int({unit.shape_of(candidates[0])} == {unit.shape_of(name)})"
        text = f"`{arrays[0].path}` and `{unit.leaves[name].path}` change places, and they have different shapes"
        unit.host_value(parsed(same), scope.span(node), "same", text=text)
    unit.alike(arrays, made, leaves)
    region.run(scope).rotate(
        [unit.selections[leaf.name].slot for leaf in made],
        [unit.selections[leaf.name].slot for leaf in leaves if leaf.name in unit.selections],
        starts,
        node,
    )
    for name, leaf in zip(names, made, strict=True):
        scope.names[name] = LeafRef(leaf)
    return made


def _place(slot: ast.expr, places: Sequence[int]) -> ast.expr:
    """Of a name that had a slot before, the place of its array in a longer list, in which its arrays have ``places``."""
    if places == [*range(places[0], places[0] + len(places))]:
        return ast.BinOp(slot, ast.Add(), ast.Constant(places[0]))
    found: ast.expr = ast.Constant(places[-1])
    for at, place in reversed([*enumerate(places[:-1])]):
        found = ast.IfExp(ast.Compare(copied(slot), [ast.Eq()], [ast.Constant(at)]), ast.Constant(place), found)
    return found


def _is_array(scope: Scope, name: str) -> bool:
    bound = scope.names.get(name)
    return isinstance(bound, LeafRef) and bound.is_array


def _leaf(scope: Scope, name: str) -> Leaf:
    bound = scope.names[name]
    assert isinstance(bound, LeafRef)
    return bound.leaf

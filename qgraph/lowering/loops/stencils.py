"""Stencils in a loop: which elements around its own each loop of the body needs, and how far beyond a tile sweeps must go."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Loop, Program, Task, TaskStatement
from qgraph.polyhedral.array_sections import Section
from qgraph.polyhedral.symbolic_integers import Poly

# How many axes arrays in tiles have, and how many elements at least along each: loops over smaller ones run as they are.
AXES = 2
LEAST_EXTENT = 4
_PROVED = ("independent", "dependent")


class NotTiled(Exception):  # noqa: N818 - no error: the loop runs as it is
    """A loop takes one sweep a pass; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """An index along one axis of an access: variable number ``axis`` of the loop plus ``offset``; or always ``fixed``."""

    axis: int | None
    offset: int
    fixed: Poly | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One access to an array in tiles: an index along each axis."""

    leaf: str
    writes: bool
    places: tuple[Place, ...]


# By array and axis: how far beyond what a tile owns its elements are needed, below and above.
Needs = Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """A loop as written, and the accesses to tiled arrays in it.

    ``places``: what writes have along each axis of the arrays; where that is fixed, offsets of accesses count from it.
    ``beyond``: how far beyond what a tile owns its variables go, below and above, in the last sweep of a pass.
    """

    task: Task
    accesses: tuple[Access, ...]
    places: tuple[Place, ...]
    beyond: tuple[tuple[int, int], ...] = ()


def stages_of(loop: Loop, program: Program, arrays: Mapping[str, ArrayType]) -> tuple[Stage, ...]:
    """The loops in the body of ``loop``, which takes tiles.

    Raises:
        NotTiled: it does not.
    """
    if loop.counter is None or loop.enter is None:
        raise NotTiled("how many iterations it has is not known when it begins")
    tasks = [task for each in loop.body if isinstance(each, TaskStatement) for task in each.task.written]
    if not tasks or not all(isinstance(each, TaskStatement) for each in loop.body):
        raise NotTiled("there is more in it than loops")
    moving = loop.condition.effects.writes
    for task in tasks:
        _refuse_task(task, moving)
    written = frozenset().union(*(task.effects.writes for task in tasks))
    for task in tasks:
        for name in sorted(task.effects.writes):
            if name not in arrays or arrays[name].ndim != AXES:
                found = "kernel scalars" if name not in arrays else f"`{name}`, which has {arrays[name].ndim} dimensions"
                raise NotTiled(f"line {task.span.line} writes {found}; tiles have {AXES}")
    touched = frozenset().union(*(task.effects.touched for task in tasks))
    if any(touched.issuperset(pair) and not written.isdisjoint(pair) for pair in program.aliases):
        raise NotTiled("arrays share memory")
    return tuple(_with_beyond([_stage(task, written) for task in tasks]))


def _refuse_task(task: Task, moving: frozenset[str]) -> None:
    line = f"line {task.span.line}"
    if not task.axes or task.reductions or task.ticket is not None:
        raise NotTiled(f"{line} is no parallel loop over elements alone")
    if task.verdict is None or task.verdict.kind not in _PROVED:
        raise NotTiled(f"nothing proves that the iterations of {line} are independent")
    if task.effects.touched & moving:
        raise NotTiled(f"{line} looks at the loop's own variable")
    changing = task.selections or task.results or task.moves or task.trades or task.plain is not None
    if changing or task.index_tuple or any(axis.on_device for axis in task.axes):
        raise NotTiled(f"{line} takes its arrays, its indices or its bounds as they are on the device")


def _stage(task: Task, written: frozenset[str]) -> Stage:
    accesses = tuple(_accesses(task, written))
    writes = [access for access in accesses if access.writes]
    if not writes:
        raise NotTiled(f"line {task.span.line} writes nowhere that is known")
    places = tuple(_common(task, accesses, axis, writes[0]) for axis in range(AXES))
    return Stage(task, tuple(_relative(task, access, places) for access in accesses), places)


def _accesses(task: Task, written: frozenset[str]) -> Iterator[Access]:
    for leaf in sorted(task.effects.touched & written):
        sections = task.sections.get(leaf)
        if sections is None:
            raise NotTiled(f"which elements of `{leaf}` line {task.span.line} touches is not known")
        for section in sections:
            yield Access(leaf, section.writes, tuple(_place(task, section, axis, written) for axis in range(AXES)))


def _place(task: Task, section: Section, axis: int, written: frozenset[str]) -> Place:
    reach = section.reach
    index = None if reach.indices is None else reach.indices[axis]
    if index is None or (reach.wraps[axis] and not _is_from_end(index, written)):
        raise NotTiled(f"`{section.text}` in line {task.span.line} has an index that may be any, or negative")
    variables = {loop.symbol: number for number, loop in enumerate(reach.loops)}
    found = [symbol for symbol in index.symbols if symbol in variables]
    if not found and not index.varies:
        return Place(None, 0, index)
    (symbol,) = found if len(found) == 1 else (None,)
    offset = None if symbol is None else (index - symbol.poly).constant
    if symbol is None or offset is None or variables[symbol] >= len(task.axes):
        raise NotTiled(f"`{section.text}` in line {task.span.line} is no variable of its loop plus a constant")
    return Place(variables[symbol], offset)


def _is_from_end(index: Poly, tiled: frozenset[str]) -> bool:
    """Whether it is an extent of an array in tiles less a few, which is not negative where those are long enough."""
    extents = {f"#{name}.shape[{axis}]" for name in tiled for axis in range(AXES)}
    offsets = ((index - symbol.poly).constant for symbol in index.symbols if symbol in extents)
    return any(offset is not None and -LEAST_EXTENT <= offset < 0 for offset in offsets)


def _common(task: Task, accesses: Sequence[Access], axis: int, write: Access) -> Place:
    """What all accesses have along an axis of the arrays: the variable of ``write``, or a fixed index as it has."""
    place = write.places[axis]
    if any(access.places[axis].axis != place.axis for access in accesses):
        raise NotTiled(f"accesses in line {task.span.line} have other variables along axis {axis}")
    if place.axis is not None and ast.unparse(task.axes[place.axis].step) != "1":
        raise NotTiled(f"line {task.span.line} has a step")
    return place


def _relative(task: Task, access: Access, places: Sequence[Place]) -> Access:
    """``access`` with fixed indices as offsets from that of the writes."""
    found = []
    for mine, common in zip(access.places, places, strict=True):
        if mine.fixed is None or common.fixed is None:
            found.append(mine)
            continue
        offset = (mine.fixed - common.fixed).constant
        if offset is None:
            raise NotTiled(f"line {task.span.line} touches two places whose distance depends on the size")
        found.append(replace(mine, offset=offset))
    return replace(access, places=tuple(found))


def _with_beyond(stages: Sequence[Stage]) -> list[Stage]:
    """``stages`` with what they must store beyond a tile, so that in the end what it owns is right: found backwards."""
    found: list[Stage] = []
    needs: dict[str, tuple[tuple[int, int], ...]] = {}
    for stage in reversed(stages):
        found.append(replace(stage, beyond=_beyond(stage, needs)))
        needs = _needed(found[-1], needs)
    return found[::-1]


def _beyond(stage: Stage, needs: Needs) -> tuple[tuple[int, int], ...]:
    """How far below and above what the tile owns the loop's variables go, along each axis."""
    writes = [access for access in stage.accesses if access.writes]
    return tuple(
        (
            max(_need(needs, each.leaf)[axis][0] + each.places[axis].offset for each in writes),
            max(_need(needs, each.leaf)[axis][1] - each.places[axis].offset for each in writes),
        )
        for axis in range(AXES)
    )


def _needed(stage: Stage, needs: Needs) -> dict[str, tuple[tuple[int, int], ...]]:
    """What must be right before ``stage``: also what is needed behind it, since it may leave elements as they are."""
    found = dict(needs)
    for access in stage.accesses:
        mine = _need(found, access.leaf)
        found[access.leaf] = tuple(
            (max(low, below - place.offset), max(high, above + place.offset))
            for (low, high), (below, above), place in zip(mine, stage.beyond, access.places, strict=True)
        )
    return found


def _need(needs: Needs, leaf: str) -> tuple[tuple[int, int], ...]:
    return needs.get(leaf, ((0, 0),) * AXES)


def reach_of(stages: Sequence[Stage]) -> Iterator[tuple[int, ...]]:
    """By array: how much more a body needs, along each axis, than what is needed behind it."""
    needs: Needs = {}
    for stage in reversed(stages):
        needs = _needed(stage, needs)
    return (tuple(max(pair) for pair in need) for need in needs.values())

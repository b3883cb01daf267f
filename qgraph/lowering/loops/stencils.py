"""Stencils in a loop: which elements around its own each loop of the body needs, and how far beyond a tile sweeps must go."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Loop, Program, Selection, Task, TaskStatement
from qgraph.ir.slots import Slot
from qgraph.ir.trees import names_in, parsed
from qgraph.lowering.codegen.generated_names import walk
from qgraph.lowering.loops.plain_indices import with_plain_indices
from qgraph.records import dataclass

# How many axes arrays in tiles may have, and how many elements at least along each: loops over smaller ones run as they are.
_AXES = (2, 3)
LEAST_EXTENT = 4
_PROVED = ("independent", "dependent")


class NotTiled(Exception):  # noqa: N818 - no error: the loop runs as it is
    """A loop takes one sweep a pass; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """An index along one axis of an access: ``base`` plus ``offset``.

    ``axis``: the number of the loop's variable that ``base`` is; None where the index is the same in all iterations, and
    ``base`` an expression, or empty. ``wraps``: the leaf and the axis of it whose extent is where it begins at 0 again.
    """

    axis: int | None
    base: str
    offset: int
    wraps: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One access to an array in tiles: ``array`` is its key, with an index along each axis."""

    array: str
    writes: bool
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A loop as written, and the accesses to tiled arrays in it.

    ``arrays``: the keys of the arrays in tiles, by their names there. ``places``: what writes have along each axis; offsets of
    accesses count from a fixed one. ``beyond``: how far beyond what a tile owns its variables go, below and above, in the
    last sweep of a pass.
    """

    task: Task
    arrays: Mapping[str, str]
    accesses: tuple[Access, ...]
    places: tuple[Place, ...]
    beyond: tuple[tuple[int, int], ...] = ()

    def along(self, position: int) -> int | None:
        """The axis of arrays along which variable number ``position`` goes."""
        return next((each for each, place in enumerate(self.places) if place.axis == position), None)

    @property
    def is_everywhere(self) -> bool:
        """Whether the loop goes over all axes, and is none along an edge."""
        return all(place.axis is not None for place in self.places)

    @property
    def anchor(self) -> tuple[int, ...]:
        """How far from the variables the first element is that it writes, or looks at where it writes none."""
        access = next((each for each in self.accesses if each.writes), self.accesses[0])
        return tuple(place.offset for place in access.places)


@dataclass(frozen=True, slots=True)
class Trade:
    """Names of arrays change places: each key gets what another one stands for."""

    sources: Mapping[str, str]

    def after(self, stands: Mapping[str, str]) -> dict[str, str]:
        """What each key stands for, given what it stood for before."""
        return {key: stands[self.sources.get(key, key)] for key in stands}


@dataclass(frozen=True, slots=True)
class Stencils:
    """The body of a loop.

    An array in tiles has a key: its leaf, or the slot that says which of ``leaves`` it is. ``names``: what loads and stores it.
    """

    steps: tuple[Stage | Trade, ...]
    leaves: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str]
    selections: tuple[Selection, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The loops alone."""
        return tuple(step for step in self.steps if isinstance(step, Stage))

    @property
    def axes(self) -> range:
        """The axes of the arrays."""
        return range(len(self.stages[0].places))

    @property
    def reach(self) -> tuple[int, ...]:
        """How much more the body needs, along each axis, than what is needed behind it."""
        needs: _Needs = {}
        for step in reversed(self.steps):
            needs = _before(step, needs)
        return tuple(max((max(need[axis]) for need in needs.values()), default=0) for axis in self.axes)

    def halo(self, sweeps: int) -> tuple[int, ...]:
        """How far beyond what a tile owns it must go along each axis for so many iterations."""
        beyond = (max(max(stage.beyond[axis]) for stage in self.stages) for axis in self.axes)
        return tuple((sweeps - 1) * most + max(most, more) for most, more in zip(self.reach, beyond, strict=True))

    @property
    def wraps(self) -> dict[int, set[tuple[str, int]]]:
        """Axes that are periodic, each with leaves and axes of theirs whose extents must be one."""
        places = [(axis, access.places[axis]) for stage in self.stages for access in stage.accesses for axis in self.axes]
        found: dict[int, set[tuple[str, int]]] = {axis: set() for axis, place in places if place.wraps is not None}
        for axis, ends in found.items():
            ends |= {place.wraps for along, place in places if along == axis and place.wraps is not None}
            ends |= {(leaf, axis) for leaves in self.leaves.values() for leaf in leaves}
        return found

    @property
    def overwritten(self) -> dict[str, Stage]:
        """Arrays at whose elements no iteration looks where a loop of it has not written them before: that loop, by key."""
        stands, seen = {key: key for key in self.leaves}, set[str]()
        found: dict[str, Stage] = {}
        for step in self.steps:
            if isinstance(step, Trade):
                stands = step.after(stands)
                continue
            names = {access.array for access in step.accesses}
            found |= {stands[name]: step for name in names if stands[name] not in seen and _overwrites(step, name)}
            seen |= {stands[name] for name in names}
        return found

    @property
    def period(self) -> int:
        """After how many iterations each name stands for the array that it stood for before."""
        stands = start = {key: key for key in self.leaves}
        for count in range(1, 1000):
            for step in self.steps:
                if isinstance(step, Trade):
                    stands = step.after(stands)
            if stands == start:
                return count
        raise NotTiled("names of arrays change places without end")


def stencils_of(loop: Loop, program: Program, arrays: Mapping[str, ArrayType]) -> Stencils:
    """The body of ``loop``, which can run in tiles.

    Raises:
        NotTiled: it cannot.
    """
    return stencils_in(tasks_in(loop), loop.condition.effects.writes, program, arrays)


def tasks_in(loop: Loop) -> list[Task]:
    """The tasks of a body, as they were written but where arrays of theirs became numbers when they were joined.

    Raises:
        NotTiled: there is more in it.
    """
    if not all(isinstance(each, TaskStatement) for each in loop.body):
        raise NotTiled("there is more in it than loops")
    tasks: list[Task] = []
    for each in loop.body:
        assert isinstance(each, TaskStatement)
        touched = frozenset().union(*(task.effects.touched for task in each.task.written))
        tasks += each.task.written if touched <= each.task.effects.touched else (each.task,)
    return tasks


def stencils_in(tasks: Sequence[Task], moving: frozenset[str], program: Program, arrays: Mapping[str, ArrayType]) -> Stencils:
    """Some loops that follow each other, and tasks in which names change places, none of which may touch ``moving``.

    Raises:
        NotTiled: they cannot run in tiles.
    """
    sweeps = [task for task in tasks if not task.moves]
    if not sweeps:
        raise NotTiled("no loop in it goes over elements")
    for task in sweeps:
        _refuse_task(task, moving)
    written = frozenset().union(*(task.effects.writes for task in sweeps))
    touched = frozenset().union(*(task.effects.touched for task in sweeps))
    if any(touched.issuperset(pair) and not written.isdisjoint(pair) for pair in program.aliases):
        raise NotTiled("arrays share memory")
    selections = {each.local: each for task in sweeps for each in task.selections}
    leaves = _leaves_of(sweeps, written, arrays, selections.values())
    keys = {key: key for key in leaves} | {local: each.slot.name for local, each in selections.items()}
    known = {value.name: parsed(value.source) for value in program.host_values}
    # Arrays that change places have one shape, so one of them tells it.
    tiled = {name: leaves[key][0] for name, key in keys.items()} | {leaf: each[0] for each in leaves.values() for leaf in each}
    tasks = [task if task.moves else with_plain_indices(task, tiled) for task in tasks]
    ndim = arrays[next(iter(tiled.values()))].ndim
    steps = [_trade(task, leaves) if task.moves else _stage(task, keys, _Indices(task, known, tiled), ndim) for task in tasks]
    names = {key: next(name for name, its in keys.items() if its == key and (key in arrays) == (name == key)) for key in leaves}
    found = Stencils(tuple(_with_beyond(steps)), leaves, names, tuple(selections.values()))
    return replace(found, steps=tuple(_periodic(step, found.wraps) for step in found.steps))


def _periodic(step: Stage | Trade, wraps: Mapping[int, set[tuple[str, int]]]) -> Stage | Trade:
    """A loop with the axes that are periodic in any: it must go over all of these, as far as can be seen here."""
    if not isinstance(step, Stage):
        return step
    places = list(step.places)
    for axis, ends in wraps.items():
        number = places[axis].axis
        if number is None or taken_apart(step.task.axes[number].start) != (None, 0):
            raise NotTiled(f"line {step.task.span.line} goes over a part of axis {axis}, which is periodic")
        places[axis] = replace(places[axis], wraps=min(ends))
    return replace(step, places=tuple(places))


def _leaves_of(
    tasks: Sequence[Task], written: frozenset[str], arrays: Mapping[str, ArrayType], selections: Iterable[Selection]
) -> dict[str, tuple[str, ...]]:
    """The arrays in tiles, by key."""
    found = {each.slot.name: each.leaves for each in selections}
    change_places = frozenset(leaf for leaves in found.values() for leaf in leaves)
    found |= {leaf: (leaf,) for leaf in sorted(written - change_places)}
    for task in tasks:
        selected = frozenset(leaf for each in task.selections for leaf in each.leaves)
        nodes = [*walk(task.body)]
        asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "shape"}
        direct = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in asked} & change_places
        if direct:
            raise NotTiled(f"line {task.span.line} names `{min(direct)}`, which changes places, by another name too")
        for name in sorted(task.effects.writes | selected):
            if name not in arrays or arrays[name].ndim not in _AXES:
                dimensions = f"`{name}`, which has {arrays[name].ndim} dimensions; tiles have 2 or 3" if name in arrays else ""
                raise NotTiled(f"line {task.span.line} writes {dimensions or 'kernel scalars'}")
    if any(len({arrays[leaf].dtype for leaf in leaves}) > 1 for leaves in found.values()):
        raise NotTiled("arrays of several types change places")
    if len({arrays[leaf].ndim for leaves in found.values() for leaf in leaves}) > 1:
        raise NotTiled("arrays of two dimensions and of three are written")
    return found


def _refuse_task(task: Task, moving: frozenset[str]) -> None:
    line = f"line {task.span.line}"
    if not task.axes or task.reductions or task.ticket is not None:
        raise NotTiled(f"{line} is no parallel loop over elements alone")
    if task.verdict is None or task.verdict.kind not in _PROVED:
        raise NotTiled(f"nothing proves that the iterations of {line} are independent")
    if task.effects.touched & moving:
        raise NotTiled(f"{line} looks at the loop's own variable")
    if task.results or task.trades or task.plain is not None or task.index_tuple or any(axis.on_device for axis in task.axes):
        raise NotTiled(f"{line} takes its indices or its bounds as they are on the device")


def _trade(task: Task, leaves: Mapping[str, tuple[str, ...]]) -> Trade:
    sources: dict[str, str] = {}
    for slot, source in task.moves:
        if not isinstance(source, Slot):
            raise NotTiled(f"line {task.span.line} gives a name one array always")
        if slot.name != source.name:
            sources[slot.name] = source.name
    if not sources or not leaves.keys() >= {*sources, *sources.values()} or {*sources} != {*sources.values()}:
        raise NotTiled(f"line {task.span.line} names arrays that the loops do not")
    return Trade(sources)


def _stage(task: Task, keys: Mapping[str, str], indices: _Indices, ndim: int) -> Stage:
    names = [node for node in walk(task.body) if isinstance(node, ast.Name)]
    arrays = {node.id: keys[node.id] for node in names if node.id in keys}
    single = {id(name) for node in walk(task.body) if (name := _alone(node, ndim)) is not None}
    whole = next((node.id for node in names if node.id in arrays and id(node) not in single), None)
    if whole is not None:
        raise NotTiled(f"line {task.span.line} hands on `{whole}` as a whole, or several of its elements")
    variables = {axis.variable for axis in task.axes}
    if any(node.id in variables and isinstance(node.ctx, ast.Store) for node in names):
        raise NotTiled(f"line {task.span.line} assigns to its own variable")
    accesses = tuple(_accesses(task, arrays, indices))
    anchors = sorted(accesses, key=lambda access: not access.writes)
    if not anchors:
        raise NotTiled(f"line {task.span.line} writes nowhere that is seen")
    places = tuple(_common(task, accesses, axis, place) for axis, place in enumerate(anchors[0].places))
    return Stage(task, arrays, tuple(_relative(access, places) for access in accesses), places)


def _alone(node: ast.AST, ndim: int) -> ast.expr | None:
    """The array of which ``node`` is one element, or what it says of itself."""
    match node:
        case ast.Subscript(value=ast.Name() as array, slice=ast.Tuple(elts=elements)) if len(elements) == ndim:
            return array
        case ast.Attribute(value=ast.Name() as array, attr="shape" | "size" | "ndim"):
            return array
    return None


def _accesses(task: Task, arrays: Mapping[str, str], indices: _Indices) -> Iterator[Access]:
    for node in walk(task.body):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=elements)) if name in arrays:
                places = (indices.place(index, name, axis) for axis, index in enumerate(elements))
                yield Access(arrays[name], isinstance(node.ctx, ast.Store), tuple(places))


@dataclass(frozen=True, slots=True)
class _Indices:
    """Understands the indices of a loop: ``known`` are host values, ``tiled`` the leaves of arrays in tiles by their names."""

    task: Task
    known: Mapping[str, ast.expr]
    tiled: Mapping[str, str]

    def place(self, index: ast.expr, array: str, axis: int) -> Place:
        """An index along an axis of an array in tiles."""
        index, wraps = self._without_modulo(index)
        base, offset = taken_apart(index)
        if isinstance(base, ast.Name) and base.id in self.known:
            base, more = taken_apart(self.known[base.id])
            offset += more
        where = f"the index `{ast.unparse(index)}` in line {self.task.span.line}"
        variable = base.id if isinstance(base, ast.Name) else ""
        number = next((number for number, axis in enumerate(self.task.axes) if axis.variable == variable), None)
        if number is not None:
            start = taken_apart(self.task.axes[number].start)
            if wraps is None and start == (None, 0) and -LEAST_EXTENT <= offset < 0:
                # Below 0 it counts from the end.
                wraps = self.tiled[array], axis
            if start[0] is not None or (start[1] + offset < 0 and wraps is None):
                raise NotTiled(f"{where} may be negative")
            return Place(number, "", offset, wraps)
        if wraps is not None:
            raise NotTiled(f"{where} wraps around, and is no variable plus a constant")
        if base is None:
            # Below 0 it counts from the end.
            return Place(None, self._extent(array, axis) if offset < 0 else "", offset)
        match base:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(number))
            ):
                if name in self.tiled and -LEAST_EXTENT <= offset < 0:
                    return Place(None, self._extent(name, number), offset)
        raise NotTiled(f"{where} is neither a variable of its loop nor an extent, plus a constant")

    def _extent(self, array: str, axis: int) -> str:
        return f"{self.tiled[array]}.shape[{axis}]"

    def _without_modulo(self, index: ast.expr) -> tuple[ast.expr, tuple[str, int] | None]:
        """An index, and the extent by which it is taken modulo, if it is."""
        match index:
            case ast.BinOp(
                left=left,
                op=ast.Mod(),
                right=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(number))
                ),
            ) if name in self.tiled:
                return left, (self.tiled[name], number)
        return index, None


def taken_apart(index: ast.expr) -> tuple[ast.expr | None, int]:
    """An index as an expression, or None, plus a constant."""
    match index:
        case ast.Constant(value=int(value)):
            return None, value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return None, -value
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            (base, offset), (more, by) = taken_apart(left), taken_apart(right)
            if more is None:
                return base, offset - by if isinstance(operator, ast.Sub) else offset + by
            if base is None and isinstance(operator, ast.Add):
                return more, offset + by
    return index, 0


def _common(task: Task, accesses: Sequence[Access], axis: int, place: Place) -> Place:
    """What all accesses have along an axis of the arrays: the variable of ``place``, which a write has, or its fixed index."""
    for access in accesses:
        if (access.places[axis].axis, access.places[axis].base) != (place.axis, place.base):
            raise NotTiled(f"accesses in line {task.span.line} have other variables along axis {axis}")
    if place.axis is not None:
        if taken_apart(task.axes[place.axis].step) != (None, 1):
            raise NotTiled(f"line {task.span.line} has a step")
        return replace(place, offset=0)
    return place


def _relative(access: Access, common: Sequence[Place]) -> Access:
    """``access`` with offsets from a variable, or from the fixed index of the writes."""
    places = (replace(mine, offset=mine.offset - place.offset) for mine, place in zip(access.places, common, strict=True))
    return replace(access, places=tuple(places))


def _overwrites(stage: Stage, array: str) -> bool:
    """Whether each iteration writes an element of an array of its own, and none looks at one before."""
    body = stage.task.body
    plain = all(isinstance(each, ast.Assign | ast.AugAssign) for each in body)
    if not plain or any(place.axis is None for place in stage.places):
        return False
    accesses = [access for access in stage.accesses if access.array == array]
    write = next((access for access in accesses if access.writes), None)
    if write is None or any(access.places != write.places for access in accesses):
        return False
    first = next(each for each in body if any(stage.arrays.get(name) == array for name in names_in(each)))
    return isinstance(first, ast.Assign) and not any(stage.arrays.get(name) == array for name in names_in(first.value))


# --- halos ------------------------------------------------------------------------------------------------------------------

# By array and axis: how far beyond what a tile owns its elements are needed, below and above.
_Needs = Mapping[str, tuple[tuple[int, int], ...]]


def _with_beyond(steps: Sequence[Stage | Trade]) -> list[Stage | Trade]:
    """``steps`` with what they must store beyond a tile, so that in the end what it owns is right: found backwards."""
    found: list[Stage | Trade] = []
    needs: _Needs = {}
    for step in reversed(steps):
        found.append(replace(step, beyond=_beyond(step, needs)) if isinstance(step, Stage) else step)
        needs = _before(found[-1], needs)
    return found[::-1]


def _beyond(stage: Stage, needs: _Needs) -> tuple[tuple[int, int], ...]:
    """How far below and above what the tile owns the loop's variables go, along each axis."""
    writes = [access for access in stage.accesses if access.writes]
    if not writes:
        # What it looks at of what the tile owns.
        return tuple((offset, -offset) for offset in stage.anchor)
    return tuple(
        (
            max(_need(needs, each)[axis][0] + each.places[axis].offset for each in writes),
            max(_need(needs, each)[axis][1] - each.places[axis].offset for each in writes),
        )
        for axis in range(len(stage.places))
    )


def _before(step: Stage | Trade, needs: _Needs) -> _Needs:
    """What must be right before ``step``: also what is needed behind it, since it may leave elements as they are."""
    if isinstance(step, Trade):
        others = {key: need for key, need in needs.items() if key not in step.sources}
        return others | {source: needs[key] for key, source in step.sources.items() if key in needs}
    found = dict(needs)
    for access in step.accesses:
        mine = _need(found, access)
        found[access.array] = tuple(
            (max(low, below - place.offset), max(high, above + place.offset))
            for (low, high), (below, above), place in zip(mine, step.beyond, access.places, strict=True)
        )
    return found


def _need(needs: _Needs, access: Access) -> tuple[tuple[int, int], ...]:
    return needs.get(access.array, ((0, 0),) * len(access.places))

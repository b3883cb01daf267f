"""The code of a pass over memory on CUDA, for arrays with three axes: a block of threads streams through the planes of a tile.

Each sweep of the pass follows the one before it, some planes behind. What a sweep needs of the planes that the one before it
left, a thread has in registers, and what other threads have of them, in shared memory. So tiles have halos of columns and rows
that are loaded, and planes only where a tile begins and ends along the first axis.

The scheme is the 3.5D blocking of Nguyen et al., "3.5-D blocking optimization for stencil computations on modern CPUs and GPUs"
(SC 2010), with the register planes of Matsumura et al., "AN5D: automated stencil framework for high-degree temporal blocking on
GPUs" (CGO 2020).
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from qgraph.ir.blocks import STATIC_SHARED, shared_place
from qgraph.ir.functions import Function
from qgraph.ir.trees import call_of, load
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import ELEMENT_CASTS, Statements, generated, indented, shared_arrays, walk
from qgraph.lowering.codegen.task_codegen import BUILTINS, make_function
from qgraph.lowering.loops.register_tiles import assigns_alone, computes_indices, is_everywhere, subscripts_of
from qgraph.lowering.loops.stencils import NotTiled, Stage
from qgraph.lowering.loops.tile_codegen import InTile, TileCode, element_type, fixed, keys_of, real, wraps_at
from qgraph.records import dataclass
from qgraph.source import copied

# A row and a column, from the first ones that a thread owns.
_Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Version:
    """What an array is before a pass (``step`` is -1), or what a step of it stores there: ``name`` and ``array`` are the code's.

    ``lag``: how many planes it is behind the first one that is loaded. ``planes``: how many of them a thread keeps. ``ring``:
    how many are in shared memory, 0 where no thread looks at another one's.
    """

    name: str
    key: str
    step: int
    lag: int = 0
    planes: int = 1
    ring: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """A loop in one of the sweeps. ``before``: the versions that its names stand for; ``after``: those that it makes."""

    sweep: int
    number: int
    stage: Stage
    lag: int
    before: Mapping[str, _Version]
    after: Mapping[str, _Version]


@dataclass(frozen=True, slots=True)
class StreamCode(TileCode):
    """Writes what a block does. A thread owns ``rows`` by ``columns`` neighbours of each plane, beside ``lanes`` others."""

    rows: int = 1
    columns: int = 1
    lanes: int = 1

    def refuse(self) -> None:
        """Refuse loops whose iterations do more than assign to elements.

        Raises:
            NotTiled: a loop does.
        """
        for stage in self.stencils.stages:
            line = f"line {stage.task.span.line}"
            if not assigns_alone(stage):
                raise NotTiled(f"{line} does more than assign to elements")
            if computes_indices(stage):
                raise NotTiled(f"{line} computes indices")
            if sorted(place.axis for place in stage.places if place.axis is not None) != [*range(len(stage.task.axes))]:
                raise NotTiled(f"{line} has a variable that is no index of what it writes")
            if any(any(_from_anchor(stage)[number]) for number, each in enumerate(stage.accesses) if each.writes):
                raise NotTiled(f"{line} writes elements beside each other")
            if any(
                np.dtype(self.arrays[leaf].dtype) == np.float16 for leaves in self.stencils.leaves.values() for leaf in leaves
            ):
                raise NotTiled("elements are float16")

    # --- versions, and how far one is behind another ----------------------------------------------------------------------

    def _schedule(self) -> tuple[dict[str, _Version], list[_Step]]:
        """The versions that are loaded, by key, and the steps of the most sweeps."""
        named, steps = self._in_order()
        # How far behind a step must be, since what it looks at of the planes before and after is there then.
        lags: dict[str, int] = {}
        for key in self.stencils.leaves:
            lags[named[key][0].name] = 0
        for step in steps:
            lag = max((lags[version.name] + dz + across for version, dz, across in self._reads(step)), default=0)
            lags |= {version.name: lag for version in step.after.values()}
        # What is loaded is loaded as late as possible.
        lag_of = {index: lags[version.name] for index, step in enumerate(steps) for version in step.after.values()}
        uses: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
        for index, step in enumerate(steps):
            for version, dz, across in self._reads(step):
                uses[version.name].append((lag_of[index], dz, across))
        for key in self.stencils.leaves:
            first = named[key][0].name
            lags[first] = min((lag - dz - across for lag, dz, across in uses[first]), default=0)
        made: dict[str, _Version] = {}
        for version in itertools.chain.from_iterable(named.values()):
            lag = lags[version.name]
            ages = [(used - dz - lag, across) for used, dz, across in uses[version.name]]
            planes = 1 + max((age for age, _ in ages), default=0)
            ring = 1 + max(age for age, across in ages if across) if any(across for _, across in ages) else 0
            made[version.name] = _Version(version.name, version.key, version.step, lag, planes, ring)
        final = [
            _Step(
                step.sweep,
                step.number,
                step.stage,
                lag_of[index],
                {name: made[version.name] for name, version in step.before.items()},
                {name: made[version.name] for name, version in step.after.items()},
            )
            for index, step in enumerate(steps)
        ]
        return {key: made[named[key][0].name] for key in named}, final

    def _in_order(self) -> tuple[dict[str, list[_Version]], list[_Step]]:
        """The versions of each array, and the steps, without lags."""
        named = {key: [_Version(f"{key.lstrip('_')}_0", key, -1)] for key in self.stencils.leaves}
        stands, steps = {key: key for key in self.stencils.leaves}, list[_Step]()
        for sweep in range(self.sweeps):
            numbers = itertools.count()
            for each in self.stencils.steps:
                if not isinstance(each, Stage):
                    stands = each.after(stands)
                    continue
                before = {name: named[stands[name]][-1] for name in keys_of(each)}
                for name in sorted({access.array for access in each.accesses if access.writes}):
                    versions = named[stands[name]]
                    versions.append(_Version(f"{stands[name].lstrip('_')}_{len(versions)}", stands[name], len(steps)))
                written = {access.array for access in each.accesses if access.writes}
                after = {name: named[stands[name]][-1] for name in sorted(written)}
                steps.append(_Step(sweep, next(numbers), each, 0, before, after))
        return named, steps

    def _reads(self, step: _Step) -> Iterator[tuple[_Version, int, bool]]:
        """The versions that a step looks at, in which plane from its own, and whether other threads may have them."""
        for access, (dz, dy, dx) in zip(step.stage.accesses, _from_anchor(step.stage), strict=True):
            if not access.writes:
                yield step.before[access.array], dz, (dy, dx) != (0, 0)
        # Where it writes nothing there is what was.
        yield from ((step.before[name], 0, False) for name in step.after)

    @property
    def held(self) -> int:
        """Bytes that a thread keeps from plane to plane."""
        planes = (self._itemsize(each.key) * (each.planes + self._is_ahead(each)) for each in self._versions())
        return sum(planes) * self._cells

    def _is_ahead(self, version: _Version) -> bool:
        """Whether a plane is loaded while the one before it is looked at: it is loaded everywhere."""
        return version.step < 0 and version.key not in self.stencils.overwritten

    @property
    def _cells(self) -> int:
        return self.rows * self.columns

    def _versions(self) -> list[_Version]:
        loaded, steps = self._schedule()
        return [*loaded.values(), *(version for step in steps for version in step.after.values())]

    def _itemsize(self, key: str) -> int:
        return np.dtype(self.arrays[self.stencils.leaves[key][0]].dtype).itemsize

    # --- a plane in shared memory -----------------------------------------------------------------------------------------

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of a block along x and y."""
        return self.lanes, self.extents[1] // self.rows

    @property
    def used(self) -> int:
        """Bytes of shared memory of a block."""
        end = 0
        for version in self._versions():
            if version.ring:
                end = shared_place(end) + self._itemsize(version.key) * version.ring * self._plane
        return end

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a launch must ask for."""
        return self.used if self.used > STATIC_SHARED else 0

    @property
    def _part(self) -> int:
        """Elements from one column's part to the next one's: lanes with neighbouring columns do not meet in a bank."""
        return self.extents[1] * self.lanes + max(self.lanes // self.columns, 1)

    def _offset(self, cell: _Cell) -> int:
        """Where a cell is, from the first one that the same thread owns."""
        row, column = cell
        return column % self.columns * self._part + row * self.lanes + column // self.columns

    @property
    def _seen(self) -> list[int]:
        """Where all that a thread looks at is, or stores."""
        cells = {*itertools.product(range(self.rows), range(self.columns))}
        for stage in self.stencils.stages:
            for _, dy, dx in _from_anchor(stage):
                cells |= {(row + dy, column + dx) for row, column in itertools.product(range(self.rows), range(self.columns))}
        return [*map(self._offset, cells)]

    @property
    def _front(self) -> int:
        """Elements before the first one: what threads at the rim look at that nobody owns."""
        return max(0, -min(self._seen))

    @property
    def _plane(self) -> int:
        """Elements of a plane in shared memory."""
        return self._front + max(self._seen) + (self.extents[1] - self.rows + 1) * self.lanes

    # --- the body ---------------------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f", streamed along the first axis, {self.rows} by {self.columns} of a plane in the registers of a thread"

    def names(self) -> dict[str, object]:
        """The globals of ``body``."""
        types = {element_type(key): np.dtype(self.arrays[name].dtype) for key, (name, *_) in self.stencils.leaves.items()}
        zeros = {_zero(key): np.dtype(self.arrays[name].dtype).type(0) for key, (name, *_) in self.stencils.leaves.items()}
        functions = {_cells_name(number): self._function(stage) for number, stage in enumerate(self.stencils.stages)}
        return {**BUILTINS, **types, **zeros, **functions}

    def places(self) -> list[str]:
        """Lines that say where a tile is: a row of the launch is one of tiles along the last axis."""
        ends = ", ".join(f"{self.ends(key)[0]}.shape[1]" for key in self.stencils.leaves)
        most = f"_max({ends})" if len(self.stencils.leaves) > 1 else ends
        return [
            f"_down = -(-{most} // {self.tile[1]})",
            "_tile0, _tile1 = _tile01 // _down, _tile01 % _down",
            *TileCode.places(self),
        ]

    def body(self) -> Statements:
        """Go through the planes of a tile, with all sweeps."""
        versions = self._versions()
        memory = [
            f"{_tile(each)} = _cuda.shared.array({each.ring * self._plane}, {element_type(each.key)})"
            for each in versions
            if each.ring
        ]
        lines = [
            "_lane = _assume_u32(_cuda.threadIdx.x)",
            "_part = _assume_u32(_cuda.threadIdx.y)",
            self.count(),
            *self.places(),
        ]
        lines += [f"_row = _assume_u32(_part * {self.rows})", f"_column = _assume_u32(_lane * {self.columns})"]
        lines += ["_y, _x = _from1 + _row, _from2 + _column", f"_begin = _row * {self.lanes} + _lane + {self._front}"]
        for number, stage in enumerate(self.stencils.stages):
            lines += _bounds(stage, number)
        turns = self._planes
        for version in versions:
            for plane in range(turns if version.planes > 1 else 1):
                lines.append(f"{_held(version, plane)} = _cuda.local.array({self._cells}, {element_type(version.key)})")
                lines += [f"{_held(version, plane)}[{cell}] = {_zero(version.key)}" for cell in range(self._cells)]
            if self._is_ahead(version):
                lines.append(f"{_next(version)} = _cuda.local.array({self._cells}, {element_type(version.key)})")
        for number, stage in enumerate(self.stencils.stages):
            for cell in self._own_cells():
                guards = (_guard(stage, number, 1, f"_y + {cell[0]}"), _guard(stage, number, 2, f"_x + {cell[1]}"))
                lines.append(f"{_in(number, cell)} = {' & '.join(guards)}")
        loaded, steps = self._schedule()
        for version in loaded.values():
            lines += self._where_loaded(version)
            if self._is_ahead(version):
                lines += self._load(version, _next(version), f"_from0 - {version.lag}", inside=False)
        ends = ", ".join(f"{self.ends(key)[0]}.shape[0]" for key in self.stencils.leaves)
        lines.append(f"_steps = _min(_end0, _max({ends}, 0)) + {max(each.lag for each in versions)} - _from0")
        lines += [f"_deep = {self._inside()}", f"for _round in _range(-(-_steps // {turns})):"]
        lines.append(f"    _first = _from0 + _round * {turns}")
        lines.append(f"    if _deep and {self._between()}:")
        for turn in range(turns):
            lines += indented(self._plane_lines(turn, loaded, steps, inside=True), 2)
        lines.append("    else:")
        for turn in range(turns):
            lines += indented(self._plane_lines(turn, loaded, steps, inside=False), 2)
        return [*shared_arrays(self.stencils.stages[0].task.span, memory), *self.where_it_runs(generated(*lines))]

    @property
    def _planes(self) -> int:
        """How many planes of a version a thread keeps at most; so many steps later each is where it was."""
        return max(each.planes for each in self._versions())

    def _last(self) -> dict[str, _Version]:
        """The versions that the last sweep leaves."""
        return {version.key: version for version in self._versions()}

    def _inside(self) -> str:
        """The code of whether all rows and columns of a tile are the loops' own, in as many sweeps as there may be."""
        found = [f"_sweeps == {self.sweeps}"]
        for axis, extent in [*enumerate(self.extents)][1:]:
            found.append(f"_from{axis} >= 0")
            found += [f"_from{axis} + {extent} <= {self.ends(key)[0]}.shape[{axis}]" for key in self.stencils.leaves]
            for number, stage in enumerate(self.stencils.stages):
                place, low, high = stage.places[axis], f"_low{number}_{axis}", f"_high{number}_{axis}"
                if place.wraps is None and place.axis is not None:
                    found += [f"{low} <= _from{axis}", f"_from{axis} + {extent} <= {high}"]
                elif place.axis is None:
                    found.append(f"({high} <= _from{axis} or _from{axis} + {extent} <= {low})")
        return " and ".join(found)

    def _between(self) -> str:
        """The code of whether the same is true of all planes between ``_first`` and the last one that is loaded."""
        before, after = max(each.lag for each in self._versions()), self._planes
        found = [f"_first >= {before}", *(f"_first + {after} < {self.ends(key)[0]}.shape[0]" for key in self.stencils.leaves)]
        for number, stage in enumerate(self.stencils.stages):
            place, low, high = stage.places[0], f"_low{number}_0", f"_high{number}_0"
            if place.wraps is None and place.axis is not None:
                found += [f"{low} <= _first - {before}", f"_first + {after} < {high}"]
            elif place.axis is None:
                found.append(f"({high} <= _first - {before} or _first + {after} < {low})")
        return " and ".join(dict.fromkeys(found))

    def _where_loaded(self, version: _Version) -> list[str]:
        """Lines that say which rows and columns a thread loads, and which of them it stores in the end."""
        array, name = self.ends(version.key)[0], version.name
        lines = []
        for axis, place, index, count in ((1, "_row", "_y", self.rows), (2, "_column", "_x", self.columns)):
            first, stop = self.halo[axis], self.halo[axis] + self.tile[axis]
            for by in range(count):
                lines.append(f"_at{axis}_{name}_{by} = {self.present(array, axis, f'{index} + {by}')}")
                owned = f"({place} + {by} >= {first}) & ({place} + {by} < {stop}) & ({index} + {by} < {array}.shape[{axis}])"
                lines.append(f"_mine{axis}_{name}_{by} = {owned}")
        return lines

    def _unless(self, version: _Version, cell: _Cell) -> str:
        """The code of whether an element counts before the first iteration behind a pass, or in it, stores to plane ``_p``."""
        stage = self.stencils.overwritten.get(version.key)
        if stage is None:
            return ""
        number = self.stencils.stages.index(stage)
        return f"not ({_guard(stage, number, 0, '_p')} & {_in(number, cell)})"

    def _load(self, version: _Version, held: str, plane: str, *, inside: bool) -> list[str]:
        """Lines that load what a thread owns of a plane, or what is closest to that."""
        array, name = self.ends(version.key)[0], version.name
        lines = [f"_p = {plane}", f"_i = {'_assume_ge(_p, 0)' if inside else self.present(array, 0, '_p')}"]
        for number, cell in enumerate(self._own_cells()):
            value = f"{array}[_i, _at1_{name}_{cell[0]}, _at2_{name}_{cell[1]}]"
            unless = self._unless(version, cell)
            lines.append(f"{held}[{number}] = " + (f"{value} if {unless} else {_zero(version.key)}" if unless else value))
        return lines

    def _store(self, version: _Version, turn: int, *, inside: bool) -> list[str]:
        """Lines that store what the tile owns of a plane."""
        if inside and version.key in self.stencils.overwritten:
            return []
        array, first = self.ends(version.key)[1], f"{version.key.lstrip('_')}_0"
        held = _held(version, self._turned(version, turn, 0))
        lines = []
        for number, (row, column) in enumerate(self._own_cells()):
            unless = self._unless(version, (row, column))
            test = f"_mine1_{first}_{row} & _mine2_{first}_{column}" + (f" & ({unless})" if unless else "")
            at = f"_assume_ge(_p, 0), _assume_ge(_y + {row}, 0), _assume_ge(_x + {column}, 0)"
            lines.append(f"if {test}: {array}[{at}] = {held}[{number}]")
        test = f"if (_own0 <= _p) & (_p < _min(_end0, {array}.shape[0])):"
        return [f"_p = _first + {turn - version.lag}", test, *indented(lines)]

    def _own_cells(self) -> list[_Cell]:
        return [*itertools.product(range(self.rows), range(self.columns))]

    def _turned(self, version: _Version, turn: int, age: int) -> int:
        """Which of the planes that a thread keeps is so many planes old."""
        return (turn - age) % self._planes if version.planes > 1 else 0

    def _plane_lines(self, turn: int, loaded: Mapping[str, _Version], steps: list[_Step], *, inside: bool) -> list[str]:
        """One more plane is loaded, and each step does one, as far behind as it is."""
        rings = {version.ring for version in self._versions() if version.ring}
        lines = [f"_step = _assume_u32(_round * {self._planes} + {turn})"] if rings else []
        for ring in sorted(rings):
            lines += [
                f"_slot{ring}_{age} = _assume_u32((_step + {ring - age}) % {ring} * {self._plane} + _begin)"
                for age in range(ring)
            ]
        for version in loaded.values():
            held = _held(version, self._turned(version, turn, 0))
            if self._is_ahead(version):
                lines += [f"{held}[{cell}] = {_next(version)}[{cell}]" for cell in range(self._cells)]
                lines += self._load(version, _next(version), f"_first + {turn + 1 - version.lag}", inside=inside)
            elif not inside:
                lines += self._load(version, held, f"_first + {turn - version.lag}", inside=inside)
            lines += self._share(version, turn)
        for step in steps:
            if not inside:
                guard = _guard(step.stage, step.number, 0, f"(_first + {turn - step.lag})")
                lines.append(f"_active = {guard} & (_sweeps > {step.sweep})")
            lines.append(f"{_cells_name(step.number)}({', '.join(self._given(step, turn, inside=inside))})")
            for version in step.after.values():
                lines += self._share(version, turn)
        for version in self._last().values():
            lines += self._store(version, turn, inside=inside)
        return [*lines, "_cuda.syncthreads()"] if rings else lines

    def _share(self, version: _Version, turn: int) -> list[str]:
        """Lines that store a plane where other threads see it."""
        if not version.ring:
            return []
        held = _held(version, self._turned(version, turn, 0))
        return [
            f"{_tile(version)}[_assume_u32(_slot{version.ring}_0 + {self._offset(cell)})] = {held}[{number}]"
            for number, cell in enumerate(self._own_cells())
            if cell in self._shown
        ]

    @property
    def _shown(self) -> set[_Cell]:
        """The cells of a thread at which others look."""
        by = [(dy, dx) for stage in self.stencils.stages for _, dy, dx in _from_anchor(stage)]
        seen = {(row + dy, column + dx) for row, column in self._own_cells() for dy, dx in by}
        return {(row % self.rows, column % self.columns) for row, column in seen if not self._owns((row, column))}

    # --- a step -----------------------------------------------------------------------------------------------------------

    def _looks(self, stage: Stage) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """By name the planes, from that of the step, of which it looks at what a thread has itself, and at what others have."""
        own: dict[str, set[int]] = {name: set() for name in keys_of(stage)}
        others: dict[str, set[int]] = {name: set() for name in keys_of(stage)}
        for access, (dz, dy, dx) in zip(stage.accesses, _from_anchor(stage), strict=True):
            if access.writes:
                own[access.array].add(0)
                continue
            for row, column in self._own_cells():
                (own if self._owns((row + dy, column + dx)) else others)[access.array].add(dz)
        return ({name: sorted(each) for name, each in found.items()} for found in (own, others))  # type: ignore[return-value]

    def _owns(self, cell: _Cell) -> bool:
        return 0 <= cell[0] < self.rows and 0 <= cell[1] < self.columns

    def _given(self, step: _Step, turn: int, *, inside: bool) -> list[str]:
        """What a step is called with, as ``_taken`` names it."""
        number, stage = step.number, step.stage
        given = [f"_first + {turn - step.lag}", "_y", "_x"]
        given += [str(is_everywhere(stage))] * (1 + self._cells) if inside else ["_active"]
        given += [] if inside else [_in(number, cell) for cell in self._own_cells()]
        for axis, place in enumerate(stage.places):
            given += (
                [f"_extent{number}_{axis}"] if place.wraps is not None else [f"_low{number}_{axis}", f"_high{number}_{axis}"]
            )
        own, others = self._looks(stage)
        for name, version in step.before.items():
            age = step.lag - version.lag
            given += [_held(version, self._turned(version, turn, age - dz)) for dz in own[name]]
            given += [f"_slot{version.ring}_{age - dz}" for dz in others[name]]
            given += [_tile(version)] if others[name] else []
        given += [_held(version, self._turned(version, turn, 0)) for version in step.after.values()]
        return [*given, *self.passed(stage)]

    def _taken(self, stage: Stage) -> list[str]:
        taken = ["_plane", "_y", "_x", "_active", *(f"_inside{cell}" for cell in range(self._cells))]
        for axis, place in enumerate(stage.places):
            taken += [f"_extent{axis}"] if place.wraps is not None else [f"_low{axis}", f"_high{axis}"]
        own, others = self._looks(stage)
        for name in keys_of(stage):
            taken += [_own(name, dz) for dz in own[name]]
            taken += [_at(name, dz) for dz in others[name]]
            taken += [_others(name)] if others[name] else []
        written = sorted({access.array for access in stage.accesses if access.writes})
        return [*taken, *map(_new, written), *self.passed(stage)]

    def _function(self, stage: Stage) -> Function:
        """What a thread does of a plane in a sweep."""
        body: list[ast.stmt] = []
        for number, cell in enumerate(self._own_cells()):
            body += self._cell(stage, number, cell)
        names = {**dict(self._casts(stage).values()), **stage.task.names, **BUILTINS}
        return make_function(f"{stage.task.name}_cells", self._taken(stage), body, names, stage.task.span)

    def _casts(self, stage: Stage) -> dict[str, tuple[str, object]]:
        """By name of an array that a loop writes: the conversion to its elements' type, and the name of that."""
        written = {access.array for access in stage.accesses if access.writes}
        types = {name: str(np.dtype(self.arrays[self.stencils.leaves[name][0]].dtype)) for name in written}
        return {name: (f"_to_{dtype}_element", ELEMENT_CASTS[dtype]) for name, dtype in types.items()}

    def _cell(self, stage: Stage, number: int, cell: _Cell) -> list[ast.stmt]:
        """An iteration, whose results count where it is one of the loop."""
        body = copied(list(stage.task.body))
        found: dict[int, tuple[str, ast.expr]] = {}
        for node, access, (dz, dy, dx) in zip(subscripts_of(body, stage), stage.accesses, _from_anchor(stage), strict=True):
            seen = cell[0] + dy, cell[1] + dx
            if self._owns(seen):
                element = ast.Subscript(load(_own(access.array, dz)), ast.Constant(self._own_cells().index(seen)), ast.Load())
            else:
                at = call_of("_assume_u32", ast.BinOp(load(_at(access.array, dz)), ast.Add(), ast.Constant(self._offset(seen))))
                element = ast.Subscript(load(_others(access.array)), at, ast.Load())
            stored = access.array if (dz, dy, dx) == (0, 0, 0) else ""
            found[id(node)] = stored, ast.copy_location(element, node)
        conversions = {name: conversion for name, (conversion, _) in self._casts(stage).items()}
        statements = _Stored(found, conversions).of(body)
        statements = [InTile(stage).visit(each) for each in statements]
        used = {node.id for node in walk(statements) if isinstance(node, ast.Name)}
        lines = []
        for axis, (place, index) in enumerate(zip(stage.places, ("_plane", f"_y + {cell[0]}", f"_x + {cell[1]}"), strict=True)):
            if place.axis is None:
                continue
            variable = real(axis) if place.wraps is not None else stage.task.axes[place.axis].variable
            if variable not in used:
                continue
            first = stage.anchor[axis]
            # What is no iteration of the loop looks at what one of them does.
            closest = f"_max(_min({index}, _high{axis} - 1), _low{axis}) - {first}"
            value = closest if place.wraps is None else f"_assume_ge(({index} - {first}) % _extent{axis}, 0)"
            lines.append(f"{variable} = {value}")
        own = stored_in(statements) | {axis.variable for axis in stage.task.axes} | {real(axis) for axis in range(3)}
        inside = f"_active & _inside{number}"
        after = []
        for name in conversions:
            value = _value(name)
            if np.dtype(self.arrays[self.stencils.leaves[name][0]].dtype).kind in "fc":
                # As where the loop is plain, what a sweep computes is rounded before the next one looks at it.
                value = f"_unfused({value})"
            after += [f"{_value(name)} = {value}"]
            after += [f"{_new(name)}[{number}] = {_value(name)} if {inside} else {_own(name, 0)}[{number}]"]
        whole = [*generated(*lines), *statements, *generated(*after)]
        return [*renamed(whole, {name: f"_cell{number}_{name}" for name in own | {*map(_value, conversions)}})]


class _Stored(ast.NodeTransformer):
    """Elements of arrays in tiles become those of what a thread has, and what an iteration stores there gets a name.

    ``elements``: by the identity of a node, the array that it is the iteration's own element of, and what it is.
    """

    def __init__(self, elements: Mapping[int, tuple[str, ast.expr]], conversions: Mapping[str, str]) -> None:
        self._elements = elements
        self._conversions = conversions
        self._stored = set[str]()

    def of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of ``body`` in order, changed in place."""
        return [self._statement(each) for each in body]

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target], value=value) if id(target) in self._elements:
                value = self.visit(value)
            case ast.AugAssign(target=ast.Subscript() as target, op=operator, value=added) if id(target) in self._elements:
                # Typed as the assignment was: an operator and its assignment have one rule.
                value = ast.copy_location(ast.BinOp(self._element(target), operator, self.visit(added)), statement)
            case _:
                return self.visit(statement)
        name, _ = self._elements[id(target)]
        self._stored.add(name)
        value = ast.copy_location(call_of(self._conversions[name], value), statement)
        return ast.copy_location(ast.Assign([ast.copy_location(ast.Name(_value(name), ast.Store()), target)], value), statement)

    def _element(self, node: ast.Subscript) -> ast.expr:
        name, element = self._elements[id(node)]
        return ast.copy_location(load(_value(name)), node) if name in self._stored else copied(element)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An element that an iteration looks at."""
        return self._element(node) if id(node) in self._elements else self.generic_visit(node)


def _from_anchor(stage: Stage) -> list[tuple[int, ...]]:
    """How far each access is from what an iteration stores first, along each axis."""
    return [
        tuple(place.offset - by for place, by in zip(access.places, stage.anchor, strict=True)) for access in stage.accesses
    ]


def _guard(stage: Stage, number: int, axis: int, index: str) -> str:
    """The code of whether a loop stores elements with an ``index`` along ``axis``."""
    if stage.places[axis].wraps is not None:
        return "True"
    return f"({index} >= _low{number}_{axis}) & ({index} < _high{number}_{axis})"


def _bounds(stage: Stage, number: int) -> list[str]:
    """Lines that say from where to where a loop stores along each axis, or where that begins again."""
    lines = []
    for axis, (place, first) in enumerate(zip(stage.places, stage.anchor, strict=True)):
        if place.wraps is not None:
            lines.append(f"_extent{number}_{axis} = {wraps_at(stage, axis)}")
        elif place.axis is None:
            lines.append(f"_low{number}_{axis}, _high{number}_{axis} = {fixed(place)}, {fixed(place)} + 1")
        else:
            each = stage.task.axes[place.axis]
            lines.append(f"_low{number}_{axis} = {ast.unparse(each.start)} + {first}")
            lines.append(f"_high{number}_{axis} = _low{number}_{axis} + {ast.unparse(each.count)}")
    return lines


def _in(number: int, cell: _Cell) -> str:
    """Whether a loop stores in a row and a column of a thread."""
    return f"_in{number}_{cell[0]}_{cell[1]}"


def _zero(key: str) -> str:
    return f"_zero{key}"


def _held(version: _Version, plane: int) -> str:
    """A plane that a thread keeps."""
    return f"_held_{version.name}_{plane}"


def _next(version: _Version) -> str:
    """The plane that a thread loads before it is looked at."""
    return f"_next_{version.name}"


def _tile(version: _Version) -> str:
    """Its planes in shared memory."""
    return f"_tile_{version.name}"


def _named(prefix: str, name: str, dz: int) -> str:
    return f"_{prefix}_{name.lstrip('_')}_{f'm{-dz}' if dz < 0 else dz}"


def _own(name: str, dz: int) -> str:
    """In a step: what a thread has of a plane."""
    return _named("own", name, dz)


def _at(name: str, dz: int) -> str:
    """In a step: where in shared memory a plane has a thread's first element."""
    return _named("at", name, dz)


def _others(name: str) -> str:
    """In a step: what all threads have."""
    return f"_others_{name.lstrip('_')}"


def _new(name: str) -> str:
    """In a step: what it stores."""
    return f"_new_{name.lstrip('_')}"


def _value(name: str) -> str:
    """In an iteration: what it stores."""
    return f"_value_{name.lstrip('_')}"


def _cells_name(number: int) -> str:
    """The function that is one loop over what a thread owns of a plane."""
    return f"_cells{number}"

"""The code of a pass over memory on CUDA, for arrays with three axes: a block of threads streams through the planes of a tile.

Each sweep of the pass follows the one before it, some planes behind. What a sweep needs of the planes that the one before it
left, a thread has in registers: some rows, and of each as many neighbouring columns as one instruction loads. A warp has whole
rows of a tile, so columns beside these come by shuffles, and rows of other warps through shared memory. Tiles have halos of
rows and columns that are loaded, and planes only where a tile begins and ends along the first axis.

The scheme is the 3.5D blocking of Nguyen et al., "3.5-D blocking optimization for stencil computations on modern CPUs and GPUs"
(SC 2010), with the register planes of Matsumura et al., "AN5D: automated stencil framework for high-degree temporal blocking on
GPUs" (CGO 2020).
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace

import numpy as np

from qgraph.ir.artifacts import WARP
from qgraph.ir.blocks import SHARED_ALIGNMENT, STATIC_SHARED, shared_place
from qgraph.lowering.codegen.generated_names import Statements, generated, indented, shared_arrays
from qgraph.lowering.codegen.task_codegen import BUILTINS
from qgraph.lowering.loops.iterations_together import Cell, assigns_alone, is_short
from qgraph.lowering.loops.plane_schedule import Step, Version, from_anchor, schedule
from qgraph.lowering.loops.plane_sweeps import CELLS, COLUMNS, ROWS, PlaneSweep, bounds, in_place, of_plane, stores_at
from qgraph.lowering.loops.register_tiles import chooses_indices, computes_indices
from qgraph.lowering.loops.stencils import NotTiled, Stage
from qgraph.lowering.loops.tile_codegen import TileCode, element_type
from qgraph.operations import intrinsics
from qgraph.records import dataclass

# Columns of a tile: those of a warp.
ACROSS = WARP * COLUMNS
# Bytes of an element, planes of a tile, the most sweeps of a pass, warps of a block, and bytes that a thread may keep. Measured
# on an H200, seven points: with 16 warps, or with three rows a thread, registers were spilled, and a sweep took about twice as
# long; with float64 it took longer than without tiles, in four shapes. At 256^3 52 planes fill the device twice, and took 37 us
# instead of the 44 of 64 planes, whose last tiles leave half of it idle; at 384^3 and 512^3 either took as long within 2%.
_BYTES = 4
PLANES, SWEEPS, WARPS, HELD = 52, 4, 12, 480
# Bytes of all tiled arrays from which it pays, and how many times as fast tiles must be at least, as `gain` estimates: seven
# points at 256^3 37 us instead of 52 (estimated 1.7 x), at 512^3 210 instead of 385; two arrays in place 101 instead of 159,
# and 541 instead of 1250 (1.4 x); four corners, estimated 1.2 x, 85 instead of 53.
LARGE = 1 << 27
GAIN = 1.3


@dataclass(frozen=True, slots=True)
class StreamCode(TileCode):
    """Writes what a block does. ``loaded``, ``steps``: what it loads, and what it does with that, as ``schedule`` has it."""

    loaded: tuple[Version, ...] = ()
    steps: tuple[Step, ...] = ()

    def _refuse(self) -> None:
        """Refuse loops whose iterations do more than assign to elements.

        Raises:
            NotTiled: a loop does.
        """
        for leaf in itertools.chain.from_iterable(self.stencils.leaves.values()):
            kind = self.arrays[leaf]
            if kind.layout != "C":
                raise NotTiled("arrays with three axes are not contiguous")
            if np.dtype(kind.dtype).kind not in "iuf" or np.dtype(kind.dtype).itemsize != _BYTES:
                raise NotTiled(f"arrays with three axes have elements of {kind.dtype}: tiles pay for those of {_BYTES} bytes")
        for stage in self.stencils.stages:
            line, body = f"line {stage.task.span.line}", stage.task.body
            plain = assigns_alone(body) and not any(isinstance(each, ast.If) for each in body)
            if not plain or not is_short(stage, len(CELLS)):
                raise NotTiled(f"{line} does more than assign to elements of arrays with three axes")
            if computes_indices(stage):
                raise NotTiled(f"{line} computes indices")
            if chooses_indices(stage):
                raise NotTiled(f"{line} chooses by elements at which others it looks")
            if sorted(place.axis for place in stage.places if place.axis is not None) != [*range(len(stage.task.axes))]:
                raise NotTiled(f"{line} has a variable that is no index of what it writes")
            if any(any(by) for each, by in zip(stage.accesses, from_anchor(stage), strict=True) if each.writes):
                raise NotTiled(f"{line} writes elements beside each other")

    def forms(self, shared: int) -> list[StreamCode]:
        """What stays in registers and in ``shared`` bytes of shared memory, fewer sweeps first.

        Raises:
            NotTiled: nothing does, or loops do more than assign to elements.
        """
        self._refuse()
        period, found = self.stencils.period, list[StreamCode]()
        for sweeps in range(period, SWEEPS + 1, period):
            *before, across = self.stencils.halo(sweeps)
            # Vectors begin at multiples of their length.
            halo = *before, -(-across // COLUMNS) * COLUMNS
            extents = PLANES + 2 * halo[0], WARPS * ROWS, ACROSS
            tile = tuple(extent - 2 * beyond for extent, beyond in zip(extents, halo, strict=True))
            loaded, steps = schedule(self.stencils, sweeps)
            code = replace(self, sweeps=sweeps, tile=tile, halo=halo, loaded=loaded, steps=steps)
            if sweeps > 1 and min(tile) > 0 and code.held <= HELD and code.used <= shared:
                found.append(code)
        if not found:
            arrays = len(self.stencils.leaves)
            raise NotTiled(f"planes of its {arrays} arrays do not fit into registers and shared memory, in {SWEEPS} iterations")
        return found

    # --- registers and shared memory ---------------------------------------------------------------------------------------

    def _versions(self) -> list[Version]:
        return [*self.loaded, *(version for step in self.steps for version in step.after.values())]

    @property
    def held(self) -> int:
        """Bytes that a thread keeps from plane to plane."""
        planes = (each.planes * (each.planes > 1) + (each.step < 0) for each in self._versions())
        return sum(planes) * _BYTES * len(CELLS)

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of a block along x and y: one warp beside another has the next rows."""
        return WARP, self.extents[1] // ROWS

    @property
    def used(self) -> int:
        """Bytes of shared memory of a block."""
        end = 0
        for version in self._versions():
            if version.ring:
                end = shared_place(end) + _BYTES * version.ring * self._plane
        return end

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a launch must ask for."""
        return self.used if self.used > STATIC_SHARED else 0

    @property
    def _front(self) -> int:
        """Rows before the first one: what threads at the rim look at that nobody owns."""
        return max(0, *(-dy for stage in self.stencils.stages for _, dy, _ in from_anchor(stage)))

    @property
    def _plane(self) -> int:
        """Elements of a plane in shared memory."""
        behind = max(0, *(dy for stage in self.stencils.stages for _, dy, _ in from_anchor(stage)))
        return (self._front + self.extents[1] + behind) * ACROSS

    def _sweep(self, stage: Stage) -> PlaneSweep:
        return PlaneSweep(self, stage)

    def exchanged(self) -> float:
        """Bytes for each cell that a sweep of all loops gets from other threads, and that it stores for them."""
        rings = {version.key for version in self._versions() if version.ring}
        found = 0
        for sweep in (self._sweep(stage) for stage in self.stencils.stages if stage.is_everywhere):
            for cells in sweep.others().values():
                found += sum(not 0 <= column < COLUMNS for _, column in cells) + COLUMNS * len(_foreign_rows(cells))
            found += sum(COLUMNS * len(self._rows_shown) for name in sweep.written if name in rings)
        return found * _BYTES / len(CELLS)

    @property
    def _rows_shown(self) -> list[int]:
        """The rows of a thread at which other warps look."""
        looks = (cells for stage in self.stencils.stages for cells in self._sweep(stage).others().values())
        return sorted({row % ROWS for cells in looks for row in _foreign_rows(cells)})

    # --- the body ---------------------------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """And where a tile is."""
        return f"streamed along the first axis, {ROWS} by {COLUMNS} of a plane in the registers of a thread"

    def names(self) -> dict[str, object]:
        """The globals of ``body``."""
        types = {element_type(key): np.dtype(self.arrays[name].dtype) for key, (name, *_) in self.stencils.leaves.items()}
        zeros = {_zero(key): np.dtype(self.arrays[name].dtype).type(0) for key, (name, *_) in self.stencils.leaves.items()}
        functions = {_cells_name(number): self._sweep(stage).function() for number, stage in enumerate(self.stencils.stages)}
        words = {
            "_of_lane": intrinsics.of_lane,
            "_load_vector": intrinsics.load_vector,
            "_store_vector": intrinsics.store_vector,
            "_holds_vectors": intrinsics.holds_vectors,
        }
        return {**BUILTINS, **words, **types, **zeros, **functions}

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
            f"{_tile(each)} = _cuda.shared.array({each.ring * self._plane}, {element_type(each.key)}, {SHARED_ALIGNMENT})"
            for each in versions
            if each.ring
        ]
        lines = ["_lane = _assume_u32(_cuda.threadIdx.x)", "_part = _assume_u32(_cuda.threadIdx.y)"]
        lines += [self.count(), *self.places()]
        lines += [f"_row = _assume_u32(_part * {ROWS})", f"_column = _assume_u32(_lane * {COLUMNS})"]
        lines += ["_y, _x = _from1 + _row, _from2 + _column"]
        lines.append(f"_begin = _assume_u32((_row + {self._front}) * {ACROSS} + _column)")
        arrays = dict.fromkeys(name for key in self.stencils.leaves for name in self.ends(key))
        lines.append("_vectors = " + " and ".join(f"_holds_vectors({name})" for name in arrays))
        for number, stage in enumerate(self.stencils.stages):
            lines += [*bounds(stage, number), *self._where_inside(number, stage)]
        lines += self._registers()
        for version in self.loaded:
            lines += self._where_loaded(version)
            lines += self._load(version, f"_from0 - {version.lag}", inside=False)
        ends = ", ".join(f"{self.ends(key)[0]}.shape[0]" for key in self.stencils.leaves)
        lines.append(f"_steps = _min(_end0, _max({ends}, 0)) + {max(each.lag for each in versions)} - _from0")
        # Each has registers of its own: what tiles at edges ask and keep is nothing to the others.
        for test, inside in ((f"if {self._inside()}:", True), ("else:", False)):
            turns = (self._turn(turn, inside=inside) for turn in range(self._planes))
            rounds = [f"_first = _from0 + _round * {self._planes}", *itertools.chain.from_iterable(turns)]
            lines += [test, *indented([f"for _round in _range(-(-_steps // {self._planes})):", *indented(rounds)])]
        return [*shared_arrays(self.stencils.stages[0].task.span, memory), *self.where_it_runs(generated(*lines))]

    @property
    def _planes(self) -> int:
        """How many planes of a version a thread keeps at most; so many steps later each is where it was."""
        return max(each.planes for each in self._versions())

    def _registers(self) -> list[str]:
        """Lines that make the local arrays of a thread."""
        lines = []
        size = len(CELLS)
        for version in self._versions():
            for plane in range(self._planes if version.planes > 1 else 1):
                held = _held(version, plane)
                lines.append(f"{held} = _cuda.local.array({size}, {element_type(version.key)})")
                lines += [f"{held}[{cell}] = {_zero(version.key)}" for cell in range(size)]
            if version.step < 0:
                lines.append(f"{_next(version)} = _cuda.local.array({size}, {element_type(version.key)})")
        for number, stage in enumerate(self.stencils.stages):
            for (name, dz), cells in self._sweep(stage).others().items():
                lines.append(f"{_seen(number, name, dz)} = _cuda.local.array({len(cells)}, {element_type(name)})")
                for row in _foreign_rows(cells):
                    lines.append(f"{_foreign(number, name, dz, row)} = _cuda.local.array({COLUMNS}, {element_type(name)})")
        return lines

    def _where_inside(self, number: int, stage: Stage) -> list[str]:
        """Lines that say in which rows and columns of a thread a loop stores."""
        rows = (f"{in_place(number, 1, row)} = {stores_at(stage, number, 1, f'_y + {row}')}" for row in range(ROWS))
        columns = (
            f"{in_place(number, 2, column)} = {stores_at(stage, number, 2, f'_x + {column}')}" for column in range(COLUMNS)
        )
        return [*rows, *columns]

    def _inside(self) -> str:
        """The code of whether all rows of a tile are the loops' own, in as many sweeps as there may be, and hold vectors."""
        found, extent = ["_vectors", f"_sweeps == {self.sweeps}", "_from1 >= 0"], self.extents[1]
        found += [f"_from1 + {extent} <= {self.ends(key)[0]}.shape[1]" for key in self.stencils.leaves]
        for number, stage in enumerate(self.stencils.stages):
            place, low, high = stage.places[1], f"_low{number}_1", f"_high{number}_1"
            if place.wraps is None and place.axis is not None:
                found += [f"{low} <= _from1", f"_from1 + {extent} <= {high}"]
            elif place.axis is None:
                found.append(f"({high} <= _from1 or _from1 + {extent} <= {low})")
        return " and ".join(found)

    def _where_loaded(self, version: Version) -> list[str]:
        """Lines that say which rows and columns a thread loads, and which of them it stores in the end.

        Where rows hold vectors, a thread has columns of the array or none: what it then loads nobody looks at.
        """
        array, name = self.ends(version.key)[0], version.name
        lines = []
        for axis, place, index, count in ((1, "_row", "_y", ROWS), (2, "_column", "_x", COLUMNS)):
            first, stop = self.halo[axis], self.halo[axis] + self.tile[axis]
            for by in range(count):
                lines.append(f"_at{axis}_{name}_{by} = {self.present(array, axis, f'{index} + {by}')}")
                owned = f"({place} + {by} >= {first}) & ({place} + {by} < {stop}) & ({index} + {by} < {array}.shape[{axis}])"
                lines.append(f"_mine{axis}_{name}_{by} = {owned}")
        extent = f"{array}.shape[2]"
        whole = f"_x % {extent}" if 2 in self.stencils.wraps else f"_max(_min(_x, {extent} - {COLUMNS}), 0)"
        return [*lines, f"_whole_{name} = _assume_ge({whole}, 0)"]

    def _matters(self, version: Version, cells: list[Cell], *, inside: bool) -> str:
        """The code of whether some cells count in plane ``_p``: the next iteration does not store all of them."""
        stage = self.stencils.overwritten.get(version.key)
        if stage is None:
            return ""
        number = self.stencils.stages.index(stage)
        stored = [stores_at(stage, number, 0, "_p"), *(in_place(number, 1, row) for row, _ in cells if not inside)]
        stored += [in_place(number, 2, column) for _, column in cells]
        return f"not ({' & '.join(dict.fromkeys(stored))})"

    def _load(self, version: Version, plane: str, *, inside: bool) -> list[str]:
        """Lines that load what a thread owns of the next plane, or what is closest to that, as far as it counts."""
        array, name, held = self.ends(version.key)[0], version.name, _next(version)
        lines = [f"_p = {plane}", f"_i = {self.present(array, 0, '_p')}"]
        if version.key in self.stencils.overwritten:
            # What no loop looks at lives no longer.
            lines += [f"{held}[{number}] = {_zero(version.key)}" for number in range(len(CELLS))]
        moves = []
        for number, (row, column) in enumerate(CELLS):
            single = f"{held}[{number}] = {array}[_i, _at1_{name}_{row}, _at2_{name}_{column}]"
            at = f"_assume_ge(_y + {row}, 0)" if inside else f"_at1_{name}_{row}"
            moves.append(("", single, f"_load_vector({held}, {number}, {array}, _i, {at}, _whole_{name})"))
        return [*lines, *self._each(version, moves, inside=inside)]

    def _store(self, version: Version, turn: int, *, inside: bool) -> list[str]:
        """Lines that store what the tile owns of a plane."""
        array, first = self.ends(version.key)[1], f"{version.key.lstrip('_')}_0"
        held = _held(version, self._turned(version, turn, 0))
        moves = []
        for number, (row, column) in enumerate(CELLS):
            at = f"_assume_ge(_p, 0), _assume_ge(_y + {row}, 0)"
            single = f"{array}[{at}, _assume_ge(_x + {column}, 0)] = {held}[{number}]"
            whole = f"_store_vector({held}, {number}, {array}, {at}, _assume_ge(_x, 0))"
            moves.append((f"_mine1_{first}_{row} & _mine2_{first}_{column}", single, whole))
        test = f"if (_own0 <= _p) & (_p < _min(_end0, {array}.shape[0])):"
        return [f"_p = _first + {turn - version.lag}", test, *indented(self._each(version, moves, inside=inside))]

    def _each(self, version: Version, moves: list[tuple[str, str, str]], *, inside: bool) -> list[str]:
        """Lines that move what counts of a plane: vectors where rows hold such, and else elements.

        ``moves``: for each cell a condition, and the lines that move it, and it and the others of its row.
        """
        single, whole = [], []
        for (row, column), (test, one, several) in zip(CELLS, moves, strict=True):
            single += _where(test, self._matters(version, [(row, column)], inside=inside), one)
            if not column:
                cells = [(row, each) for each in range(COLUMNS)]
                whole += _where(test, self._matters(version, cells, inside=inside), several)
        return whole if inside else ["if _vectors:", *indented(whole), "else:", *indented(single)]

    def _turned(self, version: Version, turn: int, age: int) -> int:
        """Which of the planes that a thread keeps is so many planes old."""
        return (turn - age) % self._planes if version.planes > 1 else 0

    def _turn(self, turn: int, *, inside: bool) -> list[str]:
        """One more plane is loaded, and each step does one, as far behind as it is."""
        rings = {version.ring for version in self._versions() if version.ring}
        lines = [f"_step = _assume_u32(_round * {self._planes} + {turn})"] if rings else []
        for ring in sorted(rings):
            lines += [
                f"_slot{ring}_{age} = _assume_u32((_step + {ring - age}) % {ring} * {self._plane} + _begin)"
                for age in range(ring)
            ]
        for version in self.loaded:
            held = _held(version, self._turned(version, turn, 0))
            lines += [f"{held}[{cell}] = {_next(version)}[{cell}]" for cell in range(len(CELLS))]
            lines += self._load(version, f"_first + {turn + 1 - version.lag}", inside=inside)
            lines += self._share(version, turn)
        for step in self.steps:
            active = stores_at(step.stage, step.number, 0, f"(_first + {turn - step.lag})")
            lines.append(f"_active = {active}" if inside else f"_active = {active} & (_sweeps > {step.sweep})")
            lines += self._look(step, turn)
            lines.append(f"{_cells_name(step.number)}({', '.join(self._given(step, turn, inside=inside))})")
            for version in step.after.values():
                lines += self._share(version, turn)
        for version in {version.key: version for version in self._versions()}.values():
            lines += self._store(version, turn, inside=inside)
        # What is stored before it is looked at behind it, and what is looked at before it may change.
        return [*lines, "_cuda.syncthreads()"] if rings else lines

    def _share(self, version: Version, turn: int) -> list[str]:
        """Lines that store rows of a plane where other warps see them."""
        if not version.ring:
            return []
        held = _held(version, self._turned(version, turn, 0))
        place = f"_slot{version.ring}_0"
        return [
            f"_store_vector({held}, {row * COLUMNS}, {_tile(version)}, _assume_u32({place} + {row * ACROSS}))"
            for row in self._rows_shown
        ]

    def _look(self, step: Step, turn: int) -> list[str]:
        """Lines that get what a step sees of other threads': rows of other warps, and columns of other lanes."""
        lines = []
        for (name, dz), cells in self._sweep(step.stage).others().items():
            version = step.before[name]
            age = step.lag - version.lag - dz
            rows = {row: _foreign(step.number, name, dz, row) for row in _foreign_rows(cells)}
            for row, line in rows.items():
                by = f"{'-' if row < 0 else '+'} {abs(row) * ACROSS}"
                place = f"_assume_u32(_slot{version.ring}_{age} {by})"
                lines.append(f"_load_vector({line}, 0, {_tile(version)}, {place})")
            held = _held(version, self._turned(version, turn, age))
            for number, (row, column) in enumerate(cells):
                lane, at = divmod(column, COLUMNS)
                value = f"{rows[row]}[{at}]" if row in rows else f"{held}[{row * COLUMNS + at}]"
                other = f"_assume_u32(_lane + {lane % WARP})"
                found = f"_of_lane({value}, {other})" if lane else value
                lines.append(f"{_seen(step.number, name, dz)}[{number}] = {found}")
        return lines

    def _given(self, step: Step, turn: int, *, inside: bool) -> list[str]:
        """What a step is called with, as ``PlaneSweep.taken`` names it."""
        number, stage, sweep = step.number, step.stage, self._sweep(step.stage)
        given = [f"_first + {turn - step.lag}", "_y", "_x", "_active"]
        # A loop along an edge that a tile is far from stores in no row of it.
        rows = [str(stage.places[1].axis is not None)] * ROWS
        given += rows if inside else [in_place(number, 1, row) for row in range(ROWS)]
        given += [in_place(number, 2, column) for column in range(COLUMNS)]
        for axis, place in enumerate(stage.places):
            ends = ("_low", "_high") if place.wraps is None else ("_extent",)
            given += [f"{end}{number}_{axis}" for end in ends]
        for name, dz in sweep.own():
            version = step.before[name]
            given.append(_held(version, self._turned(version, turn, step.lag - version.lag - dz)))
        given += [_seen(number, *at) for at in sweep.others()]
        given += [_held(version, self._turned(version, turn, 0)) for version in step.after.values()]
        return [*given, *self.passed(stage)]


def _where(test: str, other: str, line: str) -> list[str]:
    """A line where both conditions hold that there are."""
    tests = " & ".join(f"({each})" for each in (test, other) if each)
    return [f"if {tests}: {line}"] if tests else [line]


def _foreign_rows(cells: list[Cell]) -> list[int]:
    """The rows among those of cells that other warps have."""
    return sorted({row for row, _ in cells if not 0 <= row < ROWS})


def _zero(key: str) -> str:
    return f"_zero{key}"


def _held(version: Version, plane: int) -> str:
    """A plane that a thread keeps."""
    return f"_held_{version.name}_{plane}"


def _next(version: Version) -> str:
    """The plane that a thread loads before it is looked at."""
    return f"_next_{version.name}"


def _tile(version: Version) -> str:
    """Its planes in shared memory."""
    return f"_tile_{version.name}"


def _seen(number: int, name: str, dz: int) -> str:
    """What a thread sees in a loop of other threads' elements in a plane."""
    return f"_seen{number}_{of_plane(name, dz)}"


def _foreign(number: int, name: str, dz: int, row: int) -> str:
    """A row of them that another warp has."""
    return f"_foreign{number}_{of_plane(name, dz)}_{f'm{-row}' if row < 0 else row}"


def _cells_name(number: int) -> str:
    """The function that is one loop over what a thread owns of a plane."""
    return f"_cells{number}"

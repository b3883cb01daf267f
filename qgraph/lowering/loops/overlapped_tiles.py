"""Overlapped tiles: a counted loop of stencils does many sweeps for each pass over memory, with ``fuse``.

A tile of each array that the loop writes, with a halo around it, is copied to where the cache holds it, on CUDA to shared
memory. All sweeps of a pass
run there, each on a region that is smaller by the reach of the accesses, and what the tile owns then goes to arrays of the
kernel's own, since neighbours still read what was. A turn of the loop is two passes, forth and back. Cells in halos are
computed for several tiles, by the same statements from the same values, so the results are those of the plain loop.

The scheme is the overlapped tiling of Krishnamoorthy et al., "Effective automatic parallelization of stencil computations"
(PLDI 2007), with the ghost zones of Meng and Skadron (ICS 2009).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.blocks import BlockShape
from qgraph.ir.program import (
    Axis,
    Branch,
    Effects,
    HostValue,
    Loop,
    Program,
    Statement,
    Task,
    TaskStatement,
    Temporary,
)
from qgraph.ir.slots import Slot
from qgraph.ir.trees import load, parsed
from qgraph.ir.verdicts import Verdict
from qgraph.lowering.codegen.generated_names import SLOTS, place_at, walk
from qgraph.lowering.loops.block_codegen import BlockCode
from qgraph.lowering.loops.converging_tiles import (
    ConvergingCode,
    begun,
    goes_on,
    going_through,
    has_loops_alone,
    in_one_block,
    over_both_axes,
    tested,
)
from qgraph.lowering.loops.going_beyond import may_go_beyond
from qgraph.lowering.loops.iterations_together import runs_together
from qgraph.lowering.loops.repeated_bodies import in_turns, left_of
from qgraph.lowering.loops.stencils import LEAST_EXTENT, NotTiled, Stage, Stencils, stencils_in, stencils_of
from qgraph.lowering.loops.streamed_tiles import GAIN as STREAM_GAIN
from qgraph.lowering.loops.streamed_tiles import LARGE as STREAM_LARGE
from qgraph.lowering.loops.streamed_tiles import StreamCode
from qgraph.lowering.loops.tile_codegen import Attempt, TileCode, reduction_code
from qgraph.lowering.loops.tile_costs import gain, tile_cost

# Elements of a tile along each axis, the last one along memory, and of its halo on each side. Measured with 2 MiB of L2 a core,
# where larger tiles of two float64 arrays go through L3: 4096 x 4096, 256 x 512 with a halo of 32 takes 1.7 times as long for
# jacobi of float64 (8.3 ms instead of 4.7) and FDTD, as long for jacobi of float32. Smaller ones compute more in halos.
TILE = (192, 384)
HALO = 24
# Bytes of all tiled arrays from which it pays: less stays in the last cache from sweep to sweep. Measured on two cores with 480
# MiB of that: arrays of 32 to 96 MiB took 0.87 to 1.3 times as long in tiles, those of 128 and more 0.4 to 0.9 times.
LARGE = 1 << 27
# So many iterations at most are no slower one by one than in two passes, which load and store besides.
FEW = 8
# The same on CUDA: a block takes the first tile, here with its halo, of which shared memory holds all arrays. A thread has so
# many rows of a tile, the first number if they stay in registers, and columns that are as many apart as there are lanes, one
# warp: no two lanes meet in a bank. Of twenty shapes on an H200, 64 x 128 was the best or within 5% of it, for five points and
# staggered arrays over 4096 x 4096: several blocks share a multiprocessor, so that one loads while another computes. Four rows
# in registers instead of eight in shared memory: FDTD of float64 58.9 us a sweep instead of 121.8.
BLOCK_TILES = ((64, 128), (64, 96), (64, 64), (32, 64))
# The first halo that is as good as the best one but for a little, as `gain` estimates.
BLOCK_HALOS, BLOCK_NEAR = (8, 12, 16), 0.95
BLOCK_ROWS = (8, 4)
BLOCK_LANES = 32
# The most bytes that a thread keeps in registers. Where it keeps more than the second number, only so many threads have room on
# a multiprocessor as the third one says, and these may be one block: its tile is larger, with less halo. Measured on an H200 at
# 4096 x 4096: FDTD 30.5 us a sweep instead of 33.1, and jacobi, of which more threads have room, 14.0 instead of 13.2.
BLOCK_HELD = 400
BLOCK_HELD_ALONE = 256
BLOCK_ALONE = 512
BLOCK_TILE_ALONE = (128, 128)
# Bytes from which it pays, and times as many where tiles at edges do one iteration after another. At 1024 x 1024 float32 jacobi
# took 3.1 us a sweep instead of 4.8, FDTD 5.6 instead of 9.3, red and black points 12.1 instead of 9.3, but at 2048 x 2048 18.9
# instead of 28.9.
BLOCK_LARGE = 1 << 23
BLOCK_LARGE_SINGLY = 2
# How many times as fast tiles must be at least, as `gain` estimates.
BLOCK_GAIN = 0.95


def tile_loops(program: Program, shared: int | None = None, *, tiles: bool) -> Program:
    """``program``, each of whose counted loops of stencils is two: one of whole turns, and one for what is left then.

    ``shared``: bytes of shared memory that a block of threads may have on CUDA; None for the CPU. Without ``tiles`` the loops
    are as they were, and host values say whether arrays are large enough.
    """
    tiler = _Tiler(program, shared, tiles)
    body = tiler.block(program.body)
    return replace(
        program,
        body=body,
        host_values=(*program.host_values, *tiler.host_values, *tiler.sizes),
        slots=(*program.slots, *tiler.slots),
        temporaries=(*program.temporaries, *tiler.temporaries),
    )


class _Tiler:
    def __init__(self, program: Program, shared: int | None, tiles: bool) -> None:
        self._program = program
        self._shared = shared
        self._tiles = tiles
        self._arrays = {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
        self.host_values: list[HostValue] = []
        self.sizes: list[HostValue] = []
        self.slots: list[Slot] = []
        self.temporaries: list[Temporary] = []

    def block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """``statements`` with loops in tiles."""
        return tuple(each for statement in statements for each in self._statement(statement))

    def _statement(self, statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case Loop():
                made: tuple[list[Any], ...] = (self.host_values, self.temporaries, self.slots)
                before = [*map(len, made)]
                try:
                    return self._in_tiles(statement) if statement.counter is not None else self._converging(statement)
                except NotTiled as reason:
                    for each, length in zip(made, before, strict=True):
                        del each[length:]
                    told = statement.counter is not None or has_loops_alone(statement)
                    note = f"one sweep for a pass over memory: {self._as_written(str(reason))}" if told else ""
                    return (replace(statement, body=self.block(statement.body), note=note),)
            case Branch():
                return (replace(statement, regions=tuple(map(self.block, statement.regions))),)
        return (statement,)

    def _as_written(self, reason: str) -> str:
        """``reason`` with the user's names for arrays and kernel scalars; an index that nobody wrote has none."""
        names = {slot.name: slot.told for slot in self._program.slots}
        names |= {leaf.name: leaf.path for leaf in self._program.arrays_and_scalars}
        text = re.sub(r"\w+", lambda found: names.get(found[0], found[0]), reason)
        return re.sub(r"the index `[^`]*\b_\w[^`]*`", "an index", text)

    def _in_tiles(self, loop: Loop) -> tuple[Statement, ...]:
        assert loop.counter is not None
        if loop.enter is None:
            raise NotTiled("how many iterations it has is not known when it begins")
        stencils = stencils_of(loop, self._program, self._arrays)
        if self._shared is None and len(stencils.axes) > 2:
            raise NotTiled("arrays have three axes, which tiles in the cache of a CPU were measured to be slower for")
        period = stencils.period
        least, count = 2 * period if self._shared is not None else max(2 * period, FEW), loop.counter.count
        if count is not None and count <= least:
            raise NotTiled(f"it has {count} iterations, and it takes more for two passes to pay")
        large, others = self._others(loop, stencils)
        code = self._code(stencils, others, left_of(loop.counter))
        axes = self._axes(loop, stencils, code.tile)
        codes = {"": code, "_back": replace(code, back=True)}
        passes = (self._pass(loop, each, axes, large, loop.counter.left, name) for name, each in codes.items())
        label = f"{loop.label}, up to {2 * code.sweeps} iterations in two passes over memory"
        tiled = replace(loop, label=label, body=tuple(map(TaskStatement, passes)), times=2 * code.sweeps)
        return in_turns(loop, tiled, code.turn, least, large)

    def _sweeps(self, stencils: Stencils) -> list[int]:
        """How many a pass may do."""
        most, period = max(1, *stencils.reach), stencils.period
        halos = (HALO,) if self._shared is None else BLOCK_HALOS
        sweeps = [halo // most // period * period for halo in halos]
        if not any(sweeps):
            turns = "" if period == 1 else f" in each of {period} iterations"
            raise NotTiled(f"it reaches {most} elements beyond what it stores{turns}, and a halo has {max(halos)}")
        return [*dict.fromkeys(filter(None, sweeps))]

    def _converging(self, loop: Loop) -> tuple[Statement, ...]:
        """A loop that ends by what its loops compute: blocks of sweeps while it goes on behind all of them, then the loop."""
        which = tested(loop, self._program)
        stencils = stencils_in(which.tasks, loop.condition.effects.writes, self._program, self._arrays)
        over_both_axes(which, stencils)
        for stage in stencils.stages:
            may_go_beyond(stage)
        large, others = self._others(loop, stencils, which.reducing)
        plain = self._code(stencils, others, "", ConvergingCode, Attempt(which.reducing, {}, ""))
        sweeps = plain.sweeps
        axes = self._axes(loop, stencils, plain.tile)
        sources = {each.name: f"({each.source})" for each in self.host_values}
        down, across = (sources[ast.unparse(axis.count)] for axis in axes)
        tiles = self._host(f"{down} * {across} * {sources[large]}", loop, "tiles")
        rows = self._host(str(sweeps), loop, "sweeps")
        found = {number: self._found(loop, task, (rows, tiles)) for number, task in which.reducing.items()}
        index = max((slot.index + slot.words for slot in (*self._program.slots, *self.slots)), default=0)
        state = Slot(index, f"_block_{len(self._program.slots) + len(self.slots)}")
        self.slots.append(state)
        forth = Attempt(which.reducing, found, ast.unparse(axes[1].count))
        back = replace(forth, when=f"{SLOTS.name}[{index}] == 1")
        attempts = {"": forth, "_back": back, "_undone": replace(back, empty=True)}
        codes = {name: replace(plain, attempt=each, back=bool(name)) for name, each in attempts.items()}
        passes = [self._pass(loop, code, axes, large, state, name) for name, code in codes.items()]
        parts, combined = tiles, {"": list[Task](), "_back": list[Task]()}
        if self._shared is not None:
            parts, tiled = self._host("1", loop, "one"), found
            found = {number: self._found(loop, task, (rows, parts)) for number, task in which.reducing.items()}
            for name, tasks in combined.items():
                for number, task in which.reducing.items():
                    code = reduction_code(task, self._program)
                    tasks.append(in_one_block(code, task, name, tiled[number], found[number], (rows, parts), tiles, large))
        through = [going_through(which, sweeps, found, parts, state, before) for before in range(2)]
        body = (passes[0], *combined[""], through[0], passes[1], *combined["_back"], through[1], passes[2])
        blocks = replace(
            loop,
            label=f"{loop.label}, up to {2 * sweeps} iterations in two passes over memory",
            enter=begun(loop, large),
            test_first=True,
            body=tuple(map(TaskStatement, body)),
            condition=goes_on(loop, state),
            times=2 * sweeps,
        )
        return blocks, loop if loop.enter is None else replace(loop, enter=replace(loop.enter, name=f"{loop.enter.name}_rest"))

    def _found(self, loop: Loop, task: Task, shape: tuple[str, str]) -> str:
        """A new array for what the tiles find in each sweep of a block; ``shape`` are host values."""
        dtype = reduction_code(task, self._program).dtype
        name = f"_found{len(self._program.temporaries) + len(self.temporaries)}"
        leaf = Leaf(name, f"results of line {task.span.line}", ArrayType(dtype, 2, "C"))
        self.temporaries.append(Temporary(leaf, shape, loop.span))
        return leaf.name

    def _code(
        self,
        stencils: Stencils,
        others: dict[str, str],
        left: str,
        on_cpu: type[TileCode] = TileCode,
        attempt: Attempt | None = None,
    ) -> TileCode:
        """What writes a pass, forth; on the CPU it is an ``on_cpu``."""
        given = (self._program, self._arrays, stencils)
        if self._shared is None:
            sweeps = self._sweeps(stencils)[0]
            return on_cpu(*given, sweeps, others, left, TILE, (HALO,) * len(TILE), attempt=attempt)
        if len(stencils.axes) > 2:
            codes: list[BlockCode | StreamCode] = [*StreamCode(*given, 0, others, left, (), ()).forms(self._shared)]
        else:
            codes = [*self._in_blocks(stencils, BlockCode(*given, 0, others, left, (), (), attempt=attempt, lanes=BLOCK_LANES))]
        forms = [(gain(code), code) for code in codes]
        most = max(times for times, _ in forms)
        times, code = next(form for form in forms if form[0] >= BLOCK_NEAR * most)
        least = BLOCK_GAIN if len(stencils.axes) == 2 else STREAM_GAIN
        if times < least:
            raise NotTiled(f"tiles, {code.where}, would be about {times:.1f} times as fast, and do from {least} on")
        return code

    def _in_blocks(self, stencils: Stencils, code: BlockCode) -> list[BlockCode]:
        """``code`` with the numbers of sweeps for which its tiles fit, at least one."""
        found, why_not = [], NotTiled()
        for sweeps in self._sweeps(stencils):
            try:
                found.append(self._in_rows(replace(code, sweeps=sweeps, halo=stencils.halo(sweeps), held=BLOCK_HELD)))
            except NotTiled as reason:
                why_not = reason
        if not found:
            raise why_not
        return found

    def _in_rows(self, code: BlockCode) -> BlockCode:
        """``code`` with as many rows as stay in the registers of a thread, if some do."""
        forms = (self._in_block(replace(code, rows=rows)) for rows in BLOCK_ROWS)
        first = next(forms)
        return first if first.kept else next((each for each in forms if each.kept), first)

    def _in_block(self, code: BlockCode) -> BlockCode:
        """``code`` with the first tile that does."""
        assert self._shared is not None
        for extents in (BLOCK_TILE_ALONE, *BLOCK_TILES):
            tile = tuple(extent - 2 * beyond for extent, beyond in zip(extents, code.halo, strict=True))
            found = replace(code, tile=tile)
            if extents == BLOCK_TILE_ALONE and (found.kept <= BLOCK_HELD_ALONE or math.prod(found.threads) > BLOCK_ALONE):
                continue
            if min(tile) > 0 and found.used <= self._shared:
                return found
        raise NotTiled(f"tiles of its {len(code.stencils.leaves)} arrays do not fit into shared memory")

    def _host(self, source: str, loop: Loop, text: str) -> str:
        name = f"_tiles{len(self.host_values)}"
        self.host_values.append(HostValue(name, source, loop.span, text=text))
        return name

    def _extent(self, leaf: str, axis: int) -> str:
        """An extent of an array as the host computes it: it has no arrays of the kernel's own."""
        own = {each.leaf.name: each.shape for each in (*self._program.returned, *self._program.temporaries)}
        if leaf not in own:
            return f"{leaf}.shape[{axis}]"
        return f"({next(value.source for value in self._program.host_values if value.name == own[leaf][axis])})"

    def _others(self, loop: Loop, stencils: Stencils, reducing: Iterable[int] = ()) -> tuple[str, dict[str, str]]:
        """The host value that says whether a launch runs in tiles, and the arrays of the kernel's own, by key."""
        shapes = {key: [self._extent(leaves[0], axis) for axis in stencils.axes] for key, leaves in stencils.leaves.items()}
        types = {key: self._arrays[leaves[0]] for key, leaves in stencils.leaves.items()}
        size = " + ".join(f"{np.dtype(types[key].dtype).itemsize} * {' * '.join(shapes[key])}" for key in shapes)
        least = ", ".join(extent for shape in shapes.values() for extent in shape)
        is_large = f"{size} >= {self._large(stencils)} and min({least}) >= {LEAST_EXTENT}"
        more = [*self._all_around(stencils), *self._all_owned(stencils, [stencils.stages[number] for number in reducing])]
        more += self._all_iterate(stencils) if len(stencils.axes) > 2 else ()
        is_large += "".join(f" and {each}" for each in more)
        if not self._tiles:
            self.sizes.append(HostValue(f"_large{len(self.sizes)}", f"1 if {is_large} else 0", loop.span, "tiles"))
            where = f"{self._large(stencils) >> 20} MiB together, and {LEAST_EXTENT} elements along each axis"
            whole = ", where loops go over whole arrays" if more else ""
            raise NotTiled(f"arrays of these extents are too small: tiles pay from {where} on{whole}")
        large = self._host(f"1 if {is_large} else 0", loop, "large arrays")
        paths = {leaf.name: leaf.path for leaf in self._program.arrays_and_scalars}
        others = {}
        for key, shape in shapes.items():
            path = " or ".join(paths[leaf] for leaf in stencils.leaves[key])
            type_ = replace(types[key], layout="C", readonly=False, tail=())
            leaf = Leaf(f"_other{len(self._program.temporaries) + len(self.temporaries)}", f"{path} of the next pass", type_)
            extents = tuple(
                self._host(f"{extent} if {is_large} else 0", loop, f"{path}.shape[{axis}]") for axis, extent in enumerate(shape)
            )
            self.temporaries.append(Temporary(leaf, extents, loop.span))
            others[key] = leaf.name
        return large, others

    def _large(self, stencils: Stencils) -> int:
        """Bytes of all tiled arrays from which tiles pay."""
        if self._shared is None:
            return LARGE
        if len(stencils.axes) > 2:
            return STREAM_LARGE
        together = all(runs_together(stage, min(BLOCK_ROWS)) for stage in stencils.stages if stage.is_everywhere)
        return BLOCK_LARGE * (1 if together else BLOCK_LARGE_SINGLY)

    def _all_around(self, stencils: Stencils) -> Iterator[str]:
        """Conditions under which periodic axes are: each loop goes over all of one, and all arrays end where it does."""
        sources = {each.name: f"({each.source})" for each in self._program.host_values}
        for axis, ends in stencils.wraps.items():
            extents = [self._extent(*end) for end in sorted(ends)]
            for stage in stencils.stages:
                number = stage.places[axis].axis
                assert number is not None
                count = ast.unparse(stage.task.axes[number].count)
                extents.append(sources.get(count, count))
            if len(dict.fromkeys(extents)) > 1:
                yield " == ".join(dict.fromkeys(extents))

    def _all_owned(self, stencils: Stencils, stages: Sequence[Stage]) -> Iterator[str]:
        """Conditions under which each iteration of some loops is for an element of some array, and so for one of a tile."""
        sources = {each.name: f"({each.source})" for each in self._program.host_values}
        for axis in stencils.axes:
            extents = ", ".join(self._extent(leaves[0], axis) for leaves in stencils.leaves.values())
            for stage in stages:
                number = stage.places[axis].axis
                assert number is not None
                start, count = (ast.unparse(each) for each in (stage.task.axes[number].start, stage.task.axes[number].count))
                yield f"{start} + {sources.get(count, count)} + {stage.anchor[axis]} <= max({extents}, 0)"

    def _all_iterate(self, stencils: Stencils) -> Iterator[str]:
        """Conditions under which each loop has iterations: what is none of them looks at what the closest one does."""
        sources = {each.name: f"({each.source})" for each in self._program.host_values}
        counts = (ast.unparse(axis.count) for stage in stencils.stages for axis in stage.task.axes)
        yield from dict.fromkeys(f"{sources.get(count, count)} > 0" for count in counts)

    def _axes(self, loop: Loop, stencils: Stencils, tiles: tuple[int, ...]) -> tuple[Axis, ...]:
        """The loop over tiles: as many as cover every array."""
        axes = []
        for axis, tile in enumerate(tiles):
            extents = [self._extent(leaves[0], axis) for leaves in stencils.leaves.values()]
            count = self._host(f"-(-max({', '.join(extents)}, 0) // {tile})", loop, "tiles")
            axes.append(Axis(f"_tile{axis}", parsed("0"), parsed("1"), load(count), on_device=False, span=loop.span))
        if len(axes) > 2:
            # A launch has two.
            sources = {each.name: f"({each.source})" for each in self.host_values}
            count = self._host(" * ".join(sources[ast.unparse(axis.count)] for axis in axes[:2]), loop, "tiles")
            axes[:2] = [replace(axes[0], variable="_tile01", count=load(count))]
        return tuple(axes)

    def _pass(self, loop: Loop, code: TileCode, axes: tuple[Axis, ...], large: str, asked: Slot, name: str) -> Task:
        """``asked``: what a pass looks at to know what it does."""
        tasks = [stage.task for stage in code.stencils.stages]
        written = frozenset(leaf for leaves in code.stencils.leaves.values() for leaf in leaves)
        touched = frozenset().union(*(task.effects.touched for task in tasks))
        others = frozenset(code.others.values())
        touched |= {asked.name}
        found = frozenset() if code.attempt is None else frozenset(code.attempt.found.values())
        body = code.body()
        for node in walk(body):
            place_at(node, loop.span)
        return Task(
            name=f"{tasks[0].name}_tiles{name}",
            role="loop",
            span=loop.span,
            axes=axes,
            body=tuple(body),
            names=code.names(),
            effects=Effects(touched - written | others, written | found) if code.back else Effects(touched, others | found),
            verdict=Verdict("independent", "each tile stores what it owns"),
            scalars=code.scalars,
            selections=code.stencils.selections,
            block=BlockShape(code.threads, code.shared, large) if isinstance(code, BlockCode | StreamCode) else None,
            tile=tile_cost(code),
            note=code.note,
        )

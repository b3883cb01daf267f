"""Overlapped tiles: a counted loop of stencils does many sweeps for each pass over memory. On the CPU, with ``fuse``.

A tile of each array that the loop writes, with a halo around it, is copied to where the cache holds it. All sweeps of a pass
run there, each on a region that is smaller by the reach of the accesses, and what the tile owns then goes to arrays of the
kernel's own, since neighbours still read what was. A turn of the loop is two passes, forth and back. Cells in halos are
computed for several tiles, by the same statements from the same values, so the results are those of the plain loop.

The scheme is the overlapped tiling of Krishnamoorthy et al., "Effective automatic parallelization of stencil computations"
(PLDI 2007), with the ghost zones of Meng and Skadron (ICS 2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from qgraph.ir.argument_types import ArrayType, Leaf
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
from qgraph.ir.trees import load, parsed
from qgraph.ir.verdicts import Verdict
from qgraph.lowering.codegen.generated_names import place_at, walk
from qgraph.lowering.loops.repeated_bodies import in_two
from qgraph.lowering.loops.stencils import LEAST_EXTENT, NotTiled, reach_of, stages_of
from qgraph.lowering.loops.tile_codegen import TileCode

# Elements of a tile along each axis, the last one along memory, and of its halo on each side. Measured on a Zen 3 with 1 MiB of
# L2 a core: tiles of two float64 arrays go through L3 then, and that is quicker than smaller ones, which compute more in halos.
TILE = (256, 512)
HALO = 32
# Bytes of all tiled arrays from which it pays: less stays in the cache from sweep to sweep.
LARGE = 1 << 25


def tile_loops(program: Program) -> Program:
    """``program``, each of whose counted loops of stencils is two: one of whole turns, and one for what is left then."""
    tiler = _Tiler(program)
    body = tiler.block(program.body)
    return replace(
        program,
        body=body,
        host_values=(*program.host_values, *tiler.host_values),
        temporaries=(*program.temporaries, *tiler.temporaries),
    )


class _Tiler:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._arrays = {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
        self.host_values: list[HostValue] = []
        self.temporaries: list[Temporary] = []

    def block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """``statements`` with loops in tiles."""
        return tuple(each for statement in statements for each in self._statement(statement))

    def _statement(self, statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case Loop():
                before = len(self.host_values), len(self.temporaries)
                try:
                    return self._in_tiles(statement)
                except NotTiled as reason:
                    del self.host_values[before[0] :], self.temporaries[before[1] :]
                    note = f"one sweep for a pass over memory: {reason}" if statement.counter is not None else ""
                    return (replace(statement, body=self.block(statement.body), note=note),)
            case Branch():
                return (replace(statement, regions=tuple(map(self.block, statement.regions))),)
        return (statement,)

    def _in_tiles(self, loop: Loop) -> tuple[Statement, ...]:
        stages = stages_of(loop, self._program, self._arrays)
        reach = tuple(map(max, zip(*(stage_reach for stage_reach in reach_of(stages)), strict=True)))
        sweeps = HALO // max(1, *reach)
        if not sweeps:
            raise NotTiled(f"an iteration reaches {max(reach)} elements beyond what it stores, and a halo has {HALO}")
        times = 2 * sweeps
        if loop.counter is not None and loop.counter.count is not None and loop.counter.count <= times:
            raise NotTiled(f"it has {loop.counter.count} iterations, and a turn is {times}")
        leaves = sorted({access.leaf for stage in stages for access in stage.accesses if access.writes})
        large, others = self._others(loop, leaves)
        forth = TileCode(self._program, self._arrays, stages, reach, sweeps, others, TILE, HALO)
        back = replace(forth, others={other: leaf for leaf, other in others.items()})
        tasks = (self._task(loop, code, others, suffix) for code, suffix in ((forth, ""), (back, "_back")))
        label = f"{loop.label}, {times} iterations in two passes over memory"
        return in_two(loop, times, tuple(map(TaskStatement, tasks)), label=label, also=large)

    def _host(self, source: str, loop: Loop, text: str) -> str:
        name = f"_tiles{len(self.host_values)}"
        self.host_values.append(HostValue(name, source, loop.span, text=text))
        return name

    def _others(self, loop: Loop, leaves: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The host value that says whether a launch runs in tiles, and the arrays of the kernel's own, by those of the loop."""
        sizes = (f"{name}.shape[0] * {name}.shape[1] * {np.dtype(self._arrays[name].dtype).itemsize}" for name in leaves)
        least = ", ".join(f"*{name}.shape" for name in leaves)
        is_large = f"{' + '.join(sizes)} >= {LARGE} and min({least}) >= {LEAST_EXTENT}"
        large = self._host(f"1 if {is_large} else 0", loop, "large arrays")
        others = {}
        paths = {leaf.name: leaf.path for leaf in self._program.arrays_and_scalars}
        for name in leaves:
            type_ = replace(self._arrays[name], layout="C", readonly=False, tail=())
            leaf = Leaf(f"_other{len(self.temporaries)}_{name.strip('_')}", f"{paths[name]} of the next pass", type_)
            shape = tuple(
                self._host(f"{name}.shape[{axis}] if {is_large} else 0", loop, f"{paths[name]}.shape[{axis}]")
                for axis in (0, 1)
            )
            self.temporaries.append(Temporary(leaf, shape, loop.span))
            others[name] = leaf.name
        return large, others

    def _task(self, loop: Loop, code: TileCode, others: Mapping[str, str], suffix: str) -> Task:
        """One pass."""
        stages = [stage.task for stage in code.stages]
        axes = []
        for axis, tile in enumerate(TILE):
            extents = ", ".join(f"{name}.shape[{axis}]" for name in others)
            most = f"max({extents})" if len(others) > 1 else extents
            count = self._host(f"-(-{most} // {tile})", loop, "tiles")
            axes.append(Axis(f"_tile{axis}", parsed("0"), parsed("1"), load(count), on_device=False, span=loop.span))
        reads = frozenset().union(*(task.effects.reads for task in stages)) | frozenset(code.others)
        body = code.body()
        for node in walk(body):
            place_at(node, loop.span)
        return replace(
            stages[0],
            name=f"{stages[0].name}_tiles{suffix}",
            span=loop.span,
            axes=tuple(axes),
            body=tuple(body),
            names=code.names(),
            effects=Effects(reads - frozenset(code.others.values()), frozenset(code.others.values())),
            verdict=Verdict("independent", "each tile stores what it owns"),
            races=tuple(race for task in stages for race in task.races),
            sections={},
            scalars=code.scalars,
            joined=(),
            note=f"{code.sweeps} iterations in tiles of {TILE[0]} by {TILE[1]} elements with a halo of {HALO}",
            inner_length="",
            broadcast=False,
        )

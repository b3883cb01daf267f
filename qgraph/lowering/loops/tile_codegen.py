"""The code of a pass over memory: what one iteration of a loop over tiles does."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Program, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import call_of, load, parsed
from qgraph.lowering.codegen.generated_names import Statements, generated, indented, walk
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import BUILTINS, affine, make_function, parameters_of
from qgraph.lowering.loops.stencils import NotTiled, Place, Stage, Stencils, taken_apart
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import copied


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a pass does besides where the loop may end behind any of its sweeps, so that all of it may be undone.

    ``reducing``: the loops with a reduction, by number. ``found``: arrays of what they found, a row for each sweep and a column
    for each tile. ``across``: the host value of how many tiles there are beside one another. ``when``: the code of whether the
    pass runs at all. ``empty``: it only copies.
    """

    reducing: Mapping[int, Task]
    found: Mapping[int, str]
    across: str
    when: str = ""
    empty: bool = False

    def place(self, number: int, sweep: str) -> str:
        """The code of what a tile found in a sweep of loop ``number``."""
        return f"{self.found[number]}[{sweep}, _tile0 * {self.across} + _tile1]"


def reduction_code(task: Task, program: Program) -> ReductionCode:
    """The code of the reduction of ``task``: where it is a kernel scalar, of the kernel's float type and into a local."""
    (variable,) = task.reductions[0].variables
    if variable.slot is None:
        return ReductionCode(task, {})
    return ReductionCode(task, {variable.slot.name: program.float_type}, into=variable.slot.name)


@dataclass(frozen=True, slots=True)
class TileCode:
    """Writes what one iteration of a pass does.

    ``sweeps``: the most iterations of a pass. ``others``: arrays that hold the loop's after an odd number of passes, by key.
    ``left``: the code of how many iterations of the loop are left, of which at least one is not done in passes. ``back``: the
    pass goes from the others.
    """

    program: Program
    arrays: Mapping[str, ArrayType]
    stencils: Stencils
    sweeps: int
    others: Mapping[str, str]
    left: str
    tile: tuple[int, ...]
    halo: tuple[int, ...]
    back: bool = False
    attempt: Attempt | None = None

    @property
    def note(self) -> str:
        """What the plan says of it."""
        if self.copies:
            return "what the block before this one left, where this one goes beyond the end"
        tile, halo, reach = (
            " by ".join(map(str, each)) for each in (self.tile, dict.fromkeys(self.halo), dict.fromkeys(self.stencils.reach))
        )
        extent = f"tiles of {tile} elements with a halo of {halo}, {reach} for each iteration"
        return f"up to {self.sweeps} iterations in {extent}{self.where and f', {self.where}'}"

    @property
    def where(self) -> str:
        """And where a tile is, if not in the cache."""
        return ""

    @property
    def copies(self) -> bool:
        """Whether it does no iteration."""
        return self.attempt is not None and self.attempt.empty

    def reductions(self) -> dict[int, ReductionCode]:
        """The code of what the loops compute that have a reduction, by number."""
        reducing = {} if self.attempt is None or self.attempt.empty else self.attempt.reducing
        return {number: reduction_code(task, self.program) for number, task in reducing.items()}

    @property
    def turn(self) -> str:
        """The code of how many iterations the passes forth and back do: after those all names stand for what they did."""
        most, period = 2 * self.sweeps, self.stencils.period
        return f"({self.left} - 1 if {self.left} <= {most} else {most}) // {period} * {period}"

    def count(self) -> str:
        """A line that says how many iterations the pass does, ``_sweeps``."""
        if self.attempt is not None:
            return f"_sweeps = {0 if self.copies else self.sweeps}"
        period = self.stencils.period
        both = f"{self.turn} // {period}"
        return f"_sweeps = ({both}{'' if self.back else ' + 1'}) // 2 * {period}"

    @property
    def scalars(self) -> tuple[tuple[str, Slot], ...]:
        """What all loops read of slots."""
        found: dict[str, Slot] = {}
        for stage in self.stencils.stages:
            for name, slot in stage.task.scalars:
                if found.setdefault(name, slot) != slot:
                    raise NotTiled(f"`{name}` stands for two numbers")
        return tuple(found.items())

    def names(self) -> dict[str, object]:
        """The globals of ``body``."""
        types = {element_type(key): np.dtype(self.arrays[name].dtype).type for key, (name, *_) in self.stencils.leaves.items()}
        functions = {sweep_name(number): self._function(number, stage) for number, stage in enumerate(self.stencils.stages)}
        return {**BUILTINS, "_heap_array": intrinsics.heap_array, **types, **functions}

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements of a tile with its halo along each axis."""
        return tuple(tile + 2 * halo for tile, halo in zip(self.tile, self.halo, strict=True))

    def ends(self, key: str) -> tuple[str, str]:
        """The arrays that a tile is loaded from and stored to."""
        name, other = self.stencils.names[key], self.others[key]
        return (other, name) if self.back else (name, other)

    def places(self) -> list[str]:
        """Lines that say where a tile is: what it owns, and from where to where it goes, but for the halo behind."""
        lines = []
        for axis, (tile, halo) in enumerate(zip(self.tile, self.halo, strict=True)):
            lines.append(f"_own{axis} = _tile{axis} * {tile}")
            lines.append(f"_from{axis}, _end{axis} = _own{axis} - {halo}, _own{axis} + {tile}")
        return lines

    def unless_overwritten(self, key: str, lines: list[str]) -> list[str]:
        """``lines``, which move an array in or out, where the first iteration after that does not write all of it there.

        Then nobody looks at what was: an iteration, which writes them first, always follows a pass.
        """
        stage = self.stencils.overwritten.get(key)
        if stage is None:
            return lines
        inside = []
        for axis, place in enumerate(stage.places):
            assert place.axis is not None
            if place.wraps is not None:
                continue
            each = stage.task.axes[place.axis]
            start, count = ast.unparse(each.start), ast.unparse(each.count)
            low, high = region(stage, axis, str((self.sweeps - 1) * self.stencils.reach[axis]))
            inside.append(f"{start} <= {low} and {high} <= {start} + {count}")
        return [f"if not ({' and '.join(inside)}):", *indented(lines)] if inside else []

    def body(self) -> Statements:
        """Load the tile with its halo, run all sweeps there, and store what it owns."""
        lines = [self.count(), *self.places()]
        here, there = (f"[{', '.join(f'{index}{axis}' for axis in self.stencils.axes)}]" for index in ("_k", "_i"))
        for key in self.stencils.leaves:
            old, _ = self.ends(key)
            lines.append(f"{in_tile(key)} = _heap_array({element_type(key)}, {', '.join(map(str, self.extents))})")
            loaded = _copy(old, f"{in_tile(key)}{here} = {old}{there}", "_from", self.halo, self.stencils.wraps)
            lines += self.unless_overwritten(key, loaded)
        lines += ["for _sweep in _range(_sweeps):", *indented(self._iteration())]
        for key in self.stencils.leaves:
            _, new = self.ends(key)
            stored = _copy(new, f"{new}{there} = {in_tile(key)}{here}", "_own", (0,) * len(self.tile))
            lines += self.unless_overwritten(key, stored)
        return self.where_it_runs(generated(*lines))

    def present(self, array: str, axis: int, index: str) -> str:
        """The code of the closest index that there is; along a periodic axis that of the same element."""
        end = f"{array}.shape[{axis}]"
        found = f"({index}) % {end}" if axis in self.stencils.wraps else f"_max(_min({index}, {end} - 1), 0)"
        return f"_assume_ge({found}, 0)"

    def where_it_runs(self, body: Statements) -> Statements:
        """``body``, of a pass that need not run."""
        when = "" if self.attempt is None else self.attempt.when
        return generated(f"if {when}:", "    body", body=body) if when else body

    def _iteration(self) -> list[str]:
        """One iteration of the loop, in a tile: the more follow, the farther beyond what it owns."""
        reach = self.stencils.reach
        lines = [f"_more{axis} = (_sweeps - 1 - _sweep) * {most}" for axis, most in enumerate(reach)]
        stages = itertools.count()
        for step in self.stencils.steps:
            if isinstance(step, Stage):
                lines += self._call(next(stages), step)
            else:
                stored, loaded = (", ".join(map(in_tile, names)) for names in (step.sources, step.sources.values()))
                lines.append(f"{stored} = {loaded}")
        return lines

    def _call(self, number: int, stage: Stage) -> list[str]:
        """A sweep where the tile has a part in it, from where to where counted from the begin of the halo."""
        conditions, bounds = [], []
        for position, axis in enumerate(stage.task.axes):
            start, count = ast.unparse(axis.start), ast.unparse(axis.count)
            along = [each for each, place in enumerate(stage.places) if place.axis == position]
            if along and stage.places[along[0]].wraps is not None:
                bounds += [f"{bound} - _from{along[0]}" for bound in region(stage, along[0])]
                continue
            low, high = zip(*(region(stage, each) for each in along), strict=True) if along else ((), ())
            bounds += [f"_max({', '.join([start, *low])}) - _from{along[0]}" if along else start]
            stop = f"{start} + {count}"
            bounds += [f"_min({', '.join([stop, *high])}) - _from{along[0]}" if along else stop]
        for each, place in enumerate(stage.places):
            if place.axis is None:
                first, end = region(stage, each)
                conditions.append(f"{first} <= {fixed(place)} < {end}")
        call = f"{sweep_name(number)}({', '.join([*bounds, *self.given(stage)])})"
        return [f"if {' and '.join(conditions)}:", f"    {call}"] if conditions else [call]

    def given(self, stage: Stage) -> list[str]:
        """What a sweep is called with behind its bounds."""
        return [*origins(stage), *map(in_tile, keys_of(stage)), *self.passed(stage)]

    def passed(self, stage: Stage) -> list[str]:
        """The names that a loop reads from outside, tiles aside: arguments, host values and scalars."""
        task = stage.task
        body = InTile(stage).statements()
        parameters = parameters_of(self.program, body)
        if any(parameter.kind not in ("leaf", "host") for parameter in parameters):
            raise NotTiled(f"line {task.span.line} reads or tells what changes on the device")
        used = {node.id for node in walk(body) if isinstance(node, ast.Name)}
        more = [*(name for name, _ in task.scalars), *(each.local for each in task.selections)]
        return [*(parameter.name for parameter in parameters), *(name for name in more if name in used)]

    def _function(self, number: int, stage: Stage) -> Function:
        """One sweep of a loop over its part of the tile."""
        arguments, body = self._nest(stage, InTile(stage).statements())
        return make_function(f"{stage.task.name}_sweep", arguments, body, {**stage.task.names, **BUILTINS}, stage.task.span)

    def _nest(self, stage: Stage, body: Statements) -> tuple[list[str], Statements]:
        """The loops around ``body``, and the arguments of a function of them."""
        task = stage.task
        bounds: list[str] = []
        for position in reversed(range(len(task.axes))):
            axis = task.axes[position]
            along = stage.along(position)
            index = f"_k{position}"
            bounds[:0] = [f"_first{position}", f"_stop{position}"]
            if along is None:
                value = affine(replace(axis, start=load(f"_first{position}")), f"({index} - _first{position})")
            else:
                # Where an index is least it is not negative.
                least = max(0, *(-access.places[along].offset for access in stage.accesses))
                value = f"_assume_ge({index}, {least}) + _from{along}"
            loop = [f"for {index} in _range(_first{position}, _stop{position}):", f"    {axis.variable} = {value}", "    body"]
            body = generated(*loop, body=body)
        return [*bounds, *self.given(stage)], body


class InTile(ast.NodeTransformer):
    """The body of a loop with elements of tiles for those of arrays."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        wrapping = ((axis, place.axis) for axis, place in enumerate(stage.places) if place.wraps is not None)
        self._virtual = {axis: stage.task.axes[number].variable for axis, number in wrapping if number is not None}

    def statements(self) -> list[ast.stmt]:
        """A copy."""
        return self.of(copied(list(self._stage.task.body)))

    def of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """``body``, changed in place. Variables of periodic axes go on beyond the ends; other names are what they are there."""
        body = [self.visit(each) for each in body]
        lines = []
        for axis, variable in self._virtual.items():
            if any(isinstance(node, ast.Name) and node.id == real(axis) for node in walk(body)):
                lines.append(f"{real(axis)} = {variable} % {wraps_at(self._stage, axis)}")
        return [*generated(*lines), *body]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An element."""
        match node:
            case ast.Subscript(value=ast.Name(id=name) as array, slice=ast.Tuple(elts=elements) as index):
                if name in self._stage.arrays:
                    index.elts = [
                        self._unwrapped(each, axis) if axis in self._virtual else self._moved(self.visit(each), axis)
                        for axis, each in enumerate(elements)
                    ]
                    array.id = in_tile(self._stage.arrays[name])
                    return node
        return self.generic_visit(node)

    def _moved(self, index: ast.expr, axis: int) -> ast.expr:
        place = self._stage.places[axis]
        base, offset = taken_apart(index)
        if base is None and offset < 0:
            # Counted from the end, which a tile has elsewhere.
            index = parsed(f"{place.base} + {offset}")
        moved: ast.expr = ast.BinOp(index, ast.Sub(), load(f"_from{axis}"))
        return call_of("_assume_ge", moved, ast.Constant(0)) if place.axis is None else moved

    def _unwrapped(self, index: ast.expr, axis: int) -> ast.expr:
        """An index along a periodic axis, which has no end in a tile."""
        if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Mod):
            index = index.left
        _, offset = taken_apart(index)
        return parsed(f"{self._virtual[axis]} + {offset} - _from{axis}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable; what an array says of itself is the same in a tile."""
        for axis, variable in self._virtual.items():
            if node.id == variable:
                return ast.copy_location(ast.Name(real(axis), node.ctx), node)
        return node


def only_where(test: str, body: list[ast.stmt], local: str) -> list[ast.stmt]:
    """``body``, changed in place, that assigns to ``local`` only where ``test`` holds: a choice of values, and no branch."""
    return _OnlyWhere(test, local).visit(ast.Module(body, [])).body if local else body


class _OnlyWhere(ast.NodeTransformer):
    def __init__(self, test: str, local: str) -> None:
        self._test = test
        self._local = local

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """Perhaps one to the local."""
        match node:
            case ast.Assign(targets=[ast.Name(id=self._local)]):
                node.targets = [ast.Name("_then", ast.Store())]
                return [node, *generated(f"{self._local} = _then if {self._test} else {self._local}")]
        return [node]


def sweep_name(number: int) -> str:
    """The function that is one sweep of a loop."""
    return f"_sweep{number}"


def in_tile(key: str) -> str:
    """The tile of an array."""
    return f"_in_{key.lstrip('_')}"


def element_type(key: str) -> str:
    """The global that is the type of an array's elements."""
    return f"_type{key}"


def keys_of(stage: Stage) -> list[str]:
    """The arrays in tiles that a loop touches."""
    return sorted(set(stage.arrays.values()))


def origins(stage: Stage) -> list[str]:
    """The names of where a tile begins."""
    return [f"_from{axis}" for axis in range(len(stage.places))]


def fixed(place: Place) -> str:
    """The code of an index that is the same in all iterations."""
    return f"({place.base} + {place.offset})" if place.base else f"{place.offset}"


def real(axis: int) -> str:
    """The variable of a periodic axis as the loop has it."""
    return f"_real{axis}"


def wraps_at(stage: Stage, axis: int) -> str:
    """The code of the extent of a periodic axis."""
    end = stage.places[axis].wraps
    assert end is not None
    return f"{end[0]}.shape[{end[1]}]"


def region(stage: Stage, axis: int, more: str = "") -> tuple[str, str]:
    """From where to where along an axis a sweep in a tile goes, the iterations after it considered: ``more`` for these."""
    below, above = stage.beyond[axis]
    more = more or f"_more{axis}"
    return f"_own{axis} - {below} - {more}", f"_end{axis} + {above} + {more}"


def _copy(array: str, statement: str, first: str, halo: tuple[int, ...], wraps: Collection[int] = ()) -> list[str]:
    """Elements of ``array`` that lie in a tile, from ``first`` on to ``halo`` beyond what it owns; some axes are periodic."""
    lines: list[str] = []
    for axis in range(len(halo)):
        if axis in wraps:
            inside = [f"_i{axis} = _assume_ge(_i % {array}.shape[{axis}], 0)", f"_k{axis} = _assume_ge(_i - _from{axis}, 0)"]
            loop = f"for _i in _range({first}{axis}, _end{axis} + {halo[axis]}):"
            lines += indented([loop, *indented(inside)], axis)
            continue
        loop = f"for _i in _range(_max({first}{axis}, 0), _min(_end{axis} + {halo[axis]}, {array}.shape[{axis}])):"
        inside = [f"_i{axis} = _assume_ge(_i, 0)", f"_k{axis} = _assume_ge(_i{axis} - _from{axis}, 0)"]
        lines += indented([loop, *indented(inside)], axis)
    return [*lines, *indented([statement], len(halo))]

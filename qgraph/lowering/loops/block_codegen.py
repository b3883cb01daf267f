"""The code of a pass over memory on CUDA: what one block of threads does with a tile."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from qgraph.ir.blocks import STATIC_SHARED, shared_place
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast
from qgraph.ir.trees import assign, call_of, load
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import ELEMENT_CASTS, Statements, generated, indented, shared_arrays, walk
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import BUILTINS, make_function
from qgraph.lowering.loops.iterations_together import runs_together
from qgraph.lowering.loops.register_tiles import NotInRegisters, RegisterTile, in_warps, of_warps
from qgraph.lowering.loops.stencils import Access, NotTiled, Stage
from qgraph.lowering.loops.tile_codegen import (
    InTile,
    TileCode,
    element_type,
    fixed,
    in_tile,
    keys_of,
    only_where,
    origins,
    real,
    region,
    sweep_name,
    wraps_at,
)
from qgraph.records import dataclass
from qgraph.source import copied

# Where the rows and columns end that a tile owns, as a sweep is told.
_ENDS = ("_ends0", "_ends1")


@dataclass(frozen=True, slots=True)
class BlockCode(TileCode):
    """Writes what a block does: tiles lie in shared memory, and between two loops there is a barrier.

    A thread has ``rows`` neighbouring rows, and of these every column that is a multiple of ``lanes`` apart.
    """

    rows: int = 1
    lanes: int = 1
    held: int = 0

    @property
    def registers(self) -> RegisterTile | str:
        """What a thread does of a tile far from every edge, or why it keeps nothing in registers."""
        if self.copies:
            return "no iteration is done"
        tile = RegisterTile(self, self.rows, self.extents[1] // self.lanes, self.lanes)
        try:
            tile.refuse(self.held)
        except NotInRegisters as reason:
            return str(reason)
        return tile

    @property
    def kept(self) -> int:
        """Bytes that a thread keeps in registers from sweep to sweep."""
        found = self.registers
        return found.held if isinstance(found, RegisterTile) else 0

    @property
    def where(self) -> str:
        """And where a tile is."""
        found = self.registers
        return found.note if isinstance(found, RegisterTile) else f"not in registers: {found}"

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of a block along x and y."""
        return self.lanes, self.extents[0] // self.rows

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a launch must ask for."""
        return self.used if self.used > STATIC_SHARED else 0

    @property
    def used(self) -> int:
        """Bytes of shared memory of a block."""
        end = 0
        for leaf, *_ in self.stencils.leaves.values():
            end = shared_place(end) + np.dtype(self.arrays[leaf].dtype).itemsize * self._elements
        for code in self.reductions().values():
            end = shared_place(end) + np.dtype(code.dtype).itemsize * self.sweeps * self.threads[1]
        return end

    @property
    def _elements(self) -> int:
        """Of a tile in shared memory."""
        size, registers = self.extents[0] * self.extents[1], self.registers
        return max(size, registers.elements) if isinstance(registers, RegisterTile) else size

    def names(self) -> dict[str, object]:
        """The globals of ``body``."""
        types = {element_type(key): np.dtype(self.arrays[name].dtype) for key, (name, *_) in self.stencils.leaves.items()}
        functions = {sweep_name(number): self._function(number, stage) for number, stage in enumerate(self.stencils.stages)}
        names: dict[str, object] = self.registers.names() if isinstance(self.registers, RegisterTile) else {}
        for code in self.reductions().values():
            names |= code.next_names
        return {**names, **BUILTINS, **types, **functions}

    def body(self) -> Statements:
        """Load the tile with its halo, run all sweeps there, and store what it owns."""
        memory = [f"{in_tile(key)} = _cuda.shared.array({self._elements}, {element_type(key)})" for key in self.stencils.leaves]
        reductions = self.reductions()
        size = self.sweeps * self.threads[1]
        memory += [
            f"{of_warps(number)} = _cuda.shared.array({size}, _type_{code.dtype})" for number, code in reductions.items()
        ]
        lines = ["_lane = _assume_u32(_cuda.threadIdx.x)", "_part = _assume_u32(_cuda.threadIdx.y)"]
        lines += [self.count(), *self.places()]
        registers = self.registers
        if isinstance(registers, RegisterTile):
            lines += [f"if {registers.inside()}:", *indented(registers.body()), "else:", *indented(self._in_shared())]
        else:
            lines += self._in_shared()
        lines += [f"_sweep = _part * {self.lanes} + _lane"] if reductions else []
        for number, code in reductions.items():
            lines += self._of_block(number, code)
        return [*shared_arrays(self.stencils.stages[0].task.span, memory), *self.where_it_runs(generated(*lines))]

    def owned(self, stage: Stage, row: str, column: str) -> str:
        """The code of whether the iteration of a row and a column of the tile is for an element that it owns."""
        first = (halo - anchor for halo, anchor in zip(self.halo, stage.anchor, strict=True))
        return " and ".join(f"{low} <= {at} < {end}" for low, at, end in zip(first, (row, column), _ENDS, strict=True))

    def _ends(self, stage: Stage) -> list[str]:
        """The code of where what a tile owns ends, before the end of an axis that goes on as a periodic one."""
        found = []
        for axis, (place, anchor) in enumerate(zip(stage.places, stage.anchor, strict=True)):
            end = f"{self.halo[axis] - anchor + self.tile[axis]}"
            found.append(end if place.wraps is None else f"_min({end}, {wraps_at(stage, axis)} - _from{axis})")
        return found

    def _of_block(self, number: int, code: ReductionCode) -> list[str]:
        """Lines that keep what the block found in each sweep: it has at least as many threads as there are sweeps."""
        assert self.attempt is not None
        warps = self.threads[1]
        part = f"{of_warps(number)}[_assume_u32(_sweep * {warps} + _part)]"
        place = self.attempt.place(number, "_assume_ge(_sweep, 0)")
        found = indented([*code.combined(str(warps), part), f"{place} = {code.local}"])
        return [f"if _sweep < {self.sweeps}:", *found]

    def _in_shared(self) -> list[str]:
        """The same of a tile anywhere: all elements are in shared memory."""
        lines: list[str] = []
        for key in self.stencils.leaves:
            lines += self.unless_overwritten(key, self._load(self.ends(key)[0], in_tile(key)))
        lines.append("_cuda.syncthreads()")
        stands = {key: key for key in self.stencils.leaves}
        turns: list[str] = []
        for _ in range(0 if self.copies else self.stencils.period):
            iteration, stands = self._turn(stands)
            turns += indented(iteration)
        lines += ["_left = _sweeps", "while _left > 0:", *turns] if turns else []
        for key in self.stencils.leaves:
            lines += self.unless_overwritten(key, self._store(self.ends(key)[1], in_tile(key)))
        return lines

    def _turn(self, stands: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        """One iteration of the loop. ``stands``: which tile each name stands for; and the same behind it."""
        lines = ["_left -= 1", *(f"_more{axis} = _left * {most}" for axis, most in enumerate(self.stencils.reach))]
        stages = itertools.count()
        for step in self.stencils.steps:
            if isinstance(step, Stage):
                lines += [*self._sweep(next(stages), step, stands), "_cuda.syncthreads()"]
            else:
                stands = step.after(stands)
        return lines, stands

    def _load(self, array: str, tile: str) -> list[str]:
        """All elements of a tile that there are; for others one at the edge of the array, and nobody looks at it.

        All loads of a thread come before its first store, so that the memory answers them together.
        """
        rows, columns = range(self.rows), range(0, self.extents[1], self.lanes)
        down = [f"_from0 + _part * {self.rows} + {r}" for r in rows]
        across = [f"_from1 + _lane + {c}" for c in columns]
        lines = [f"_i0{tile}_{r} = {self.present(array, 0, index)}" for r, index in zip(rows, down, strict=True)]
        lines += [f"_i1{tile}_{c} = {self.present(array, 1, index)}" for c, index in zip(columns, across, strict=True)]
        lines += [f"_loaded{tile}_{r}_{c} = {array}[_i0{tile}_{r}, _i1{tile}_{c}]" for r in rows for c in columns]
        lines.append(f"_at{tile} = _assume_u32(_part * {self.rows * self.extents[1]} + _lane)")
        return lines + [
            f"{tile}[_assume_u32(_at{tile} + {r * self.extents[1] + c})] = _loaded{tile}_{r}_{c}" for r in rows for c in columns
        ]

    def _store(self, array: str, tile: str) -> list[str]:
        """What the tile owns."""
        halo, columns = self.halo, self.extents[1]
        return [
            "_k1 = _lane",
            f"while _k1 < {self.tile[1]} and _own1 + _k1 < {array}.shape[1]:",
            "    _i1 = _assume_ge(_own1 + _k1, 0)",
            f"    for _r in _range({self.rows}):",
            f"        _k0 = _assume_u32(_part * {self.rows} + _r)",
            "        _i0 = _assume_ge(_own0 + _k0, 0)",
            f"        if _k0 < {self.tile[0]} and _i0 < {array}.shape[0]:",
            f"            {array}[_i0, _i1] = {tile}[_assume_u32((_k0 + {halo[0]}) * {columns} + _k1 + {halo[1]})]",
            f"    _k1 = _assume_u32(_k1 + {self.lanes})",
        ]

    def _sweep(self, number: int, stage: Stage, stands: Mapping[str, str]) -> list[str]:
        """A loop where the tile has a part in it."""
        bounds, conditions = [], []
        for axis, place in enumerate(stage.places):
            low, high = region(stage, axis)
            if place.axis is None:
                conditions.append(f"{low} <= {fixed(place)} < {high}")
                bounds += [f"{fixed(place)} - _from{axis}", f"{fixed(place)} - _from{axis} + 1"]
            elif place.wraps is not None:
                bounds += [f"{low} - _from{axis}", f"{high} - _from{axis}"]
            else:
                each = stage.task.axes[place.axis]
                start = ast.unparse(each.start)
                bounds += [
                    f"_max({start}, {low}) - _from{axis}",
                    f"_max(_min({start} + {ast.unparse(each.count)}, {high}) - _from{axis}, 0)",
                ]
        given = [f"_assume_u32({bound})" for bound in bounds]
        given += ["_lane", "_part", *origins(stage), *(in_tile(stands[key]) for key in keys_of(stage)), *self.passed(stage)]
        reduction = self.reductions().get(number)
        given += self._ends(stage) if reduction is not None else []
        call = f"{sweep_name(number)}({', '.join(given)})"
        if reduction is not None:
            return in_warps(number, reduction, call, "_sweeps - 1 - _left", self.lanes, self.threads[1])
        return [f"if {' and '.join(conditions)}:", f"    {call}"] if conditions else [call]

    def _function(self, number: int, stage: Stage) -> Function:
        """What a thread does of a loop in a tile: ``rows`` rows together or none, and one of those that are then left."""
        task, reduction = stage.task, self.reductions().get(number)
        each = _InBlock(stage, self, "" if reduction is None else reduction.local)
        body = generated(*([] if reduction is None else reduction.identities), "_single = _low0")
        columns = f"for _column in _range(_assume_u32(_low1 + _lane), _high1, {self.lanes}):"
        at = f"    _at = _assume_ge(_assume_u32(_row * {self.extents[1]} + _column), {each.least})"
        if self.rows > 1 and runs_together(stage, self.rows):
            together, stores = each.jammed()
            body += generated(
                f"_row = _assume_u32(_low0 + _part * {self.rows})",
                f"if _row + {self.rows} <= _high0:",
                *indented([columns, at, "    together", "    stores"]),
                f"_single = _low0 + _assume_u32(_max(_high0 - _low0, 0)) // {self.rows} * {self.rows}",
                together=together,
                stores=stores,
            )
        body += generated(
            f"for _row in _range(_assume_u32(_single + _part), _high0, {self.threads[1]}):",
            *indented([columns, at, "    one"]),
            f"return {each.kept}",
            one=[*each.variables("_row"), *each.statements(0)],
        )
        own_names = {} if reduction is None else reduction.own_names
        names = {**own_names, **dict(each.casts.values()), **task.names, **BUILTINS}
        arguments = [f"{bound}{axis}" for axis in self.stencils.axes for bound in ("_low", "_high")]
        arguments += ["_lane", "_part", *origins(stage), *map(in_tile, keys_of(stage)), *self.passed(stage)]
        arguments += [] if reduction is None else _ENDS
        return make_function(f"{task.name}_sweep", arguments, body, names, task.span)


class _InBlock:
    """The body of a loop with elements of tiles in shared memory, which have one index.

    Each access is ``_at``, the place of row ``_row`` and column ``_column``, plus a constant. ``kept``: the local in which a
    reduction combines what the tile owns.
    """

    def __init__(self, stage: Stage, code: BlockCode, kept: str = "") -> None:
        self._stage = stage
        self._code = code
        self._columns = code.extents[1]
        self.kept = kept
        self._variables = {place.axis: axis for axis, place in enumerate(stage.places) if place.axis is not None}
        if not len(self._variables) == len(stage.task.axes) == sum(place.axis is not None for place in stage.places):
            raise NotTiled(f"line {stage.task.span.line} has a variable that is no index of what it writes")
        # Where an index is least it is not negative.
        self.least = max(0, *(-self._offset(access) for access in stage.accesses))

    def _offset(self, access: Access) -> int:
        return access.places[0].offset * self._columns + access.places[1].offset

    @property
    def casts(self) -> dict[str, tuple[str, Cast]]:
        """By the tiles that the loop writes: the conversion to the type of an element, and the name of it."""
        written = {access.array for access in self._stage.accesses if access.writes}
        types = {key: str(np.dtype(self._code.arrays[self._code.stencils.leaves[key][0]].dtype)) for key in written}
        return {
            in_tile(key): (f"_to_{dtype}_element", ELEMENT_CASTS.get(dtype, Cast(None, dtype))) for key, dtype in types.items()
        }

    def variables(self, row: str) -> Statements:
        """The loop's own variables, where they are used."""
        used = {node.id for node in walk(self.statements(0)) if isinstance(node, ast.Name)}
        lines = []
        for position, axis in enumerate(self._stage.task.axes):
            if axis.variable in used:
                along = self._variables[position]
                lines.append(f"{axis.variable} = _from{along} + {row if along == 0 else '_column'}")
            if self._stage.places[self._variables[position]].wraps is not None and real(self._variables[position]) in used:
                along = self._variables[position]
                value = f"(_from{along} + {row if along == 0 else '_column'}) % {wraps_at(self._stage, along)}"
                lines.append(f"{real(along)} = {value}")
        return generated(*lines)

    def statements(self, row: int) -> list[ast.stmt]:
        """A copy, ``row`` rows below ``_at``."""
        body = copied(list(self._stage.task.body))
        subscripts = [
            node
            for node in walk(body)
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self._stage.arrays
            if isinstance(node.slice, ast.Tuple)
        ]
        for node, access in zip(subscripts, self._stage.accesses, strict=True):
            by = row * self._columns + self._offset(access)
            index: ast.expr = load("_at")
            if by:
                index = ast.BinOp(index, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))
            node.slice = index
            assert isinstance(node.value, ast.Name)
            node.value.id = in_tile(access.array)
        body = [InTile(self._stage).visit(each) for each in body]
        return only_where(self._code.owned(self._stage, f"_row + {row}", "_column"), body, self.kept)

    def jammed(self) -> tuple[Statements, Statements]:
        """What as many iterations as a thread has rows compute, and then their stores."""
        own = (
            stored_in(self._stage.task.body)
            | {axis.variable for axis in self._stage.task.axes}
            | {*map(real, range(len(self._stage.places)))}
        )
        own -= {self.kept}
        together: list[ast.stmt] = []
        all_stores: list[ast.stmt] = []
        casts = {each: cast for each, (cast, _) in self.casts.items()}
        for row in range(self._code.rows):
            new = {name: f"_row{row}_{name}" for name in own}
            statements, stores = _stores_apart(self.statements(row), f"_row{row}_stored", casts)
            together += renamed([*self.variables(f"(_row + {row})"), *statements], new)
            all_stores += stores
        return together, all_stores


def _stores_apart(statements: Sequence[ast.stmt], name: str, casts: Mapping[str, str]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Plain statements that leave what they would store under names, and look there for it, and the stores.

    ``casts``: names of conversions to the types of arrays, which round what is stored.
    """
    before: list[ast.stmt] = []
    stores: list[ast.stmt] = []
    stored = _Stored({})
    for statement in map(stored.visit, statements):
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                pass
            case ast.AugAssign(target=ast.Subscript() as target, op=operator, value=added):
                loaded = copied(target)
                loaded.ctx = ast.Load()
                loaded = stored.visit(loaded)
                # Typed as the assignment was: an operator and its assignment have one rule.
                value = ast.copy_location(ast.BinOp(loaded, operator, added), statement)
            case ast.If(test=test, body=inside):
                when = f"{name}_on{len(before)}"
                computed, kept_back = _stores_apart(inside, when, casts)
                before += [assign(when, test, statement), *computed]
                stores += generated(f"if {when}:", "    stores", stores=kept_back)
                continue
            case _:
                before.append(statement)
                continue
        own = stored.names[ast.unparse(target)] = f"{name}{len(stores)}"
        assert isinstance(target.value, ast.Name)
        value = ast.copy_location(call_of(casts[target.value.id], value), statement)
        before.append(assign(own, value, statement))
        kept = ast.copy_location(ast.Name(own, ast.Load()), target)
        stores.append(ast.copy_location(ast.Assign([target], kept), statement))
    return before, stores


class _Stored(ast.NodeTransformer):
    """Elements that were stored to, by their code, become the ``names`` of what was."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An element."""
        name = self.names.get(ast.unparse(node)) if isinstance(node.ctx, ast.Load) else None
        return self.generic_visit(node) if name is None else ast.copy_location(ast.Name(name, ast.Load()), node)

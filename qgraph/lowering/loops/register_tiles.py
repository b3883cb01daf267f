"""The code of a tile far from every edge on CUDA: its elements stay in registers from sweep to sweep.

A thread owns some neighbouring rows and columns, the same ones in each sweep. It finds there what it looks at, and in shared
memory what another thread owns, which stores only what others look at. What is computed at the rim of a tile from elements that
nobody loaded is wrong, one row or column more in each sweep, and what the tile owns lies where that does not get to.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qgraph.ir.functions import Function
from qgraph.ir.trees import assign, load
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import generated, indented, walk
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import BUILTINS, make_function, operations
from qgraph.lowering.loops.iterations_together import (
    Cell,
    assigns_alone,
    guard,
    guards,
    is_short,
    seen_from,
    subscripts,
)
from qgraph.lowering.loops.stencils import Stage, Stencils
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
)
from qgraph.operations import intrinsics
from qgraph.operations.intrinsics import VECTOR
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of


class NotInRegisters(Exception):  # noqa: N818 - no error: elements are in shared memory alone
    """What a thread owns does not stay in registers; the message says why."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Writes what a thread does with ``rows`` by ``columns`` elements of each array, one of ``lanes`` threads beside another.

    In shared memory each of a thread's columns has a part of its own, where those of neighbouring lanes are neighbours: so no
    two lanes of a warp meet in a bank. Parts begin so far apart that lanes with neighbouring columns do not meet, either.
    """

    code: TileCode
    rows: int
    columns: int
    lanes: int

    @property
    def _numbers(self) -> tuple[int, ...]:
        """The loops in which a tile far from edges has a part."""
        return tuple(number for number, stage in enumerate(self._stencils.stages) if stage.is_everywhere)

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return tuple(self._stencils.stages[number] for number in self._numbers)

    @property
    def _stencils(self) -> Stencils:
        return self.code.stencils

    @property
    def note(self) -> str:
        """What the plan says of it."""
        return f"{self.rows} by {self.columns} of them in the registers of a thread"

    def refuse(self, most: int) -> None:
        """Raise ``NotInRegisters`` where it does not do, or where a thread would hold more than ``most`` bytes."""
        if not self._stages:
            raise NotInRegisters("no loop goes over rows and columns")
        if not self._kept:
            raise NotInRegisters("no iteration looks at what the one before it wrote")
        if self.columns * self.lanes != self.code.extents[1]:
            raise NotInRegisters("threads would own unequal parts of a row")
        for stage in self._stages:
            _refuse_stage(stage, self.rows)
        if any(self._dtype(key) == np.float16 for key in self._stencils.leaves):
            raise NotInRegisters("elements are float16")
        if self.held > most:
            raise NotInRegisters(f"a thread would hold {self.held} bytes, and {most} are the most")

    @property
    def held(self) -> int:
        """Bytes that a thread keeps from sweep to sweep."""
        return sum(self._dtype(key).itemsize for key in self._kept) * self.rows * self.columns

    def _dtype(self, key: str) -> np.dtype[Any]:
        return np.dtype(self.code.arrays[self._stencils.leaves[key][0]].dtype)

    def shared(self) -> float:
        """Bytes of shared memory that an iteration of all loops loads and stores, for each cell."""
        seen = (name for stage in self._stages for name, _ in dict.fromkeys(self._seen(stage)))
        stored = (name for each in self._stored() for name, cells in each.items() for _ in cells)
        return sum(self._dtype(name).itemsize for name in itertools.chain(seen, stored)) / (self.rows * self.columns)

    @property
    def elements(self) -> int:
        """Of an array in shared memory."""
        most = max(self._offset(cell) for cell in itertools.chain(self._cells(), self._outside()))
        return self._front + most + self.code.extents[0] * self.lanes - (self.rows - 1) * self.lanes

    @property
    def _front(self) -> int:
        """Elements before the first one: what threads at the rim look at that nobody owns."""
        return max(0, *(-self._offset(cell) for cell in itertools.chain(self._cells(), self._outside())))

    @property
    def _part(self) -> int:
        """Elements from the begin of a column's part to the next one's."""
        return self.code.extents[0] * self.lanes + max(self.lanes // self.columns, 1)

    def _offset(self, cell: Cell) -> int:
        """Where a cell is, from the first one that the same thread owns."""
        row, column = cell
        return column % self.columns * self._part + row * self.lanes + column // self.columns

    def _place(self, row: str, column: str) -> str:
        """The code of where an element of the tile is."""
        inside = f"{column} % {self.columns} * {self._part} + {column} // {self.columns}"
        return f"_assume_u32({inside} + ({row}) * {self.lanes} + {self._front})"

    def _cells(self) -> Iterator[Cell]:
        return itertools.product(range(self.rows), range(self.columns))

    def _owned(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.rows and 0 <= cell[1] < self.columns

    def _register(self, cell: Cell) -> int:
        return cell[0] * self.columns + cell[1]

    def _seen(self, stage: Stage) -> Iterator[tuple[str, Cell]]:
        """The cells of others that a thread looks at in a loop, with the names of arrays."""
        for access in stage.accesses:
            for cell in () if access.writes else self._cells():
                seen = seen_from(cell, access, stage)
                if not self._owned(seen):
                    yield access.array, seen

    def _outside(self) -> Iterator[Cell]:
        return (cell for stage in self._stages for _, cell in self._seen(stage))

    @property
    def _kept(self) -> tuple[str, ...]:
        """Arrays of which elements are kept from sweep to sweep."""
        return tuple(key for key in self._stencils.leaves if key not in self._stencils.overwritten)

    def _turns(self) -> Iterator[list[tuple[Stage, dict[str, str]]]]:
        """The iterations until all names stand for the arrays that they stood for before: loops, and what names stand for."""
        stands = {key: key for key in self._stencils.leaves}
        for _ in range(self._stencils.period):
            found = []
            for step in self._stencils.steps:
                if not isinstance(step, Stage):
                    stands = step.after(stands)
                elif step.is_everywhere:
                    found.append((step, stands))
            yield found

    def _needed(self) -> dict[str, set[Cell]]:
        """The cells of a thread at which others look, by the array."""
        needed: dict[str, set[Cell]] = defaultdict(set)
        for stage, stands in itertools.chain.from_iterable(self._turns()):
            for name, (row, column) in self._seen(stage):
                needed[stands[name]].add((row % self.rows, column % self.columns))
        return needed

    def _stored(self) -> list[dict[str, set[Cell]]]:
        """For each loop the cells that a thread must store, by the name of an array."""
        needed = self._needed()
        found: list[dict[str, set[Cell]]] = [defaultdict(set) for _ in self._stages]
        for turn in self._turns():
            for (stage, stands), stored in zip(turn, found, strict=True):
                for name in {access.array for access in stage.accesses if access.writes}:
                    stored[name] |= needed[stands[name]]
        return found

    def names(self) -> dict[str, object]:
        """The globals of ``body``: words of vectors, and a function a loop."""
        words = (intrinsics.load_vector, intrinsics.store_vector, intrinsics.holds_vectors)
        functions = map(self._function, self._numbers, self._stored())
        found = zip(map(_cells_name, self._numbers), functions, strict=True)
        return {**{f"_{word.__name__}": word for word in words}, **dict(found)}

    def _function(self, loop: int, stored: Mapping[str, set[Cell]]) -> Function:
        stage, reduction = self._stencils.stages[loop], self.code.reductions().get(loop)
        local = "" if reduction is None else reduction.local
        body = [] if reduction is None else generated(*reduction.identities)
        for cell in self._cells():
            body += self._cell(stage, cell, local)
        if reduction is not None and self._all_owned:
            body += generated(f"if not ({self._all_owned}):", *indented(reduction.identities))
        for name, cells in sorted(stored.items()):
            mine, tile = _mine(name), in_tile(name)
            if self._dtype(name).kind in "fc":
                # As where the loop is plain, what a sweep computes is rounded before the next one looks at it.
                places = map(self._register, self._cells())
                body += generated(*(f"{mine}[{place}] = _unfused({mine}[{place}])" for place in places))
            for cell in sorted(cells):
                # What nobody writes others may look at just now.
                conditions = " or ".join(self._own(guard(number), cell) for number in guards(stage).get(name, ()))
                store = f"{tile}[_at + {self._offset(cell)}] = {mine}[{self._register(cell)}]"
                body += generated(f"if {conditions}: {store}" if conditions else store)
        arrays = [each for key in keys_of(stage) for each in (_mine(key), in_tile(key))]
        body += generated(f"return {local}") if local else []
        arguments = ["_at", "_row", "_column", *origins(stage), *arrays, *self.code.passed(stage)]
        names = {**({} if reduction is None else reduction.own_names), **stage.task.names, **BUILTINS}
        return make_function(f"{stage.task.name}_cells", arguments, body, names, stage.task.span)

    def _cell(self, stage: Stage, cell: Cell, kept: str) -> list[ast.stmt]:
        """An iteration. ``kept``: the local in which a reduction combines what the tile owns."""
        body = copied(list(stage.task.body))
        for node, access in zip(subscripts(body, stage), stage.accesses, strict=True):
            seen = seen_from(cell, access, stage)
            assert isinstance(node.value, ast.Name)
            if self._owned(seen):
                node.value.id, node.slice = _mine(access.array), ast.Constant(self._register(seen))
            else:
                by = self._offset(seen)
                node.value.id = in_tile(access.array)
                node.slice = ast.BinOp(load("_at"), ast.Add() if by >= 0 else ast.Sub(), ast.Constant(abs(by)))
        conditions = {*itertools.chain.from_iterable(guards(stage).values())}
        statements: list[ast.stmt] = []
        for number, each in enumerate(body):
            statement = InTile(stage).visit(each)
            if number in conditions:
                statements.append(assign(guard(number), statement.test, statement))
                statement.test = ast.copy_location(load(guard(number)), statement.test)
            statements.append(statement)
        used = {node.id for node in walk(statements) if isinstance(node, ast.Name)}
        lines = []
        for along, (place, written) in enumerate(zip(stage.places, stage.anchor, strict=True)):
            assert place.axis is not None
            variable = stage.task.axes[place.axis].variable
            variable = variable if place.wraps is None else real(along)
            if variable in used:
                lines.append(f"{variable} = _from{along} + {('_row', '_column')[along]} + {cell[along] - written}")
        own = (
            stored_in(body)
            | {axis.variable for axis in stage.task.axes}
            | {*map(real, range(len(stage.places))), *map(guard, conditions)}
        )
        own -= {kept}
        if not self._all_owned:
            sizes = zip(("_row", "_column"), cell, self.code.halo, self.code.tile, strict=True)
            owned = (f"{halo - by} <= {first} < {halo + tile - by}" for first, by, halo, tile in sizes)
            statements = only_where(" and ".join(owned), statements, kept)
        return [*renamed([*generated(*lines), *statements], {name: self._own(name, cell) for name in own})]

    def _own(self, name: str, cell: Cell) -> str:
        """A local of the iteration that writes a cell."""
        return f"_cell{self._register(cell)}_{name}"

    @property
    def _all_owned(self) -> str:
        """The code of whether the tile owns what a thread does, where that is all or nothing of it; else empty."""
        sizes = [*zip(("_row", "_column"), (self.rows, self.columns), self.code.halo, self.code.tile, strict=True)]
        if any(halo % count or tile % count for _, count, halo, tile in sizes):
            return ""
        return " and ".join(f"{halo} <= {first} < {halo + tile}" for first, _, halo, tile in sizes)

    def inside(self) -> str:
        """The code of whether all iterations for all elements of a tile are the loops' own."""
        found = []
        for axis, extent in enumerate(self.code.extents):
            found.append(f"_from{axis} >= 0")
            found += [f"_from{axis} + {extent} <= {self.code.ends(key)[0]}.shape[{axis}]" for key in self._stencils.leaves]
            for stage in self._stages:
                place = stage.places[axis]
                assert place.axis is not None
                each = stage.task.axes[place.axis]
                start, first = ast.unparse(each.start), f"_from{axis} - {stage.anchor[axis]}"
                found += [f"{start} <= {first}", f"{first} + {extent} <= {start} + {ast.unparse(each.count)}"]
        for stage in self._stencils.stages:
            beside = []
            for axis, place in enumerate(stage.places):
                if place.axis is None:
                    low, high = region(stage, axis, str((self.code.sweeps - 1) * self._stencils.reach[axis]))
                    beside.append(f"not ({low} <= {fixed(place)} < {high})")
            found += [f"({' or '.join(beside)})"] if beside else []
        return " and ".join(dict.fromkeys(found))

    def body(self) -> list[str]:
        """Lines that load a tile, run all sweeps, and store what it owns."""
        cells, vectors = [*self._cells()], self._vectors()
        lines = [f"_row = _assume_u32(_part * {self.rows})", f"_column = _assume_u32(_lane * {self.columns})"]
        lines.append(f"_begin = _assume_ge(_assume_u32(_row * {self.lanes} + _lane + {self._front}), {self._front})")
        lines += [f"{_mine(key)} = _cuda.local.array({len(cells)}, {element_type(key)})" for key in self._stencils.leaves]
        lines += [f"_vectors = {vectors}"] if vectors else []
        lines += _either(vectors, self._load_vectors(), self._load())
        lines.append("_cuda.syncthreads()")
        mine = [f"{_mine(key)}[{self._register(cell)}] = {self._element(key, cell)}" for key in self._kept for cell in cells]
        lines += _either(vectors, [], mine)
        lines.append(f"for _turn in _range(_sweeps // {self._stencils.period}):")
        for iteration, turn in enumerate(self._turns()):
            for number, (stage, stands) in zip(self._numbers, turn, strict=True):
                tiles = [each for key in keys_of(stage) for each in (_mine(stands[key]), in_tile(stands[key]))]
                given = ["_begin", "_row", "_column", *origins(stage), *tiles, *self.code.passed(stage)]
                call = f"{_cells_name(number)}({', '.join(given)})"
                reduction, sweep = self.code.reductions().get(number), f"_turn * {self._stencils.period} + {iteration}"
                warps = self.code.extents[0] // self.rows
                kept = [call] if reduction is None else in_warps(number, reduction, call, sweep, self.lanes, warps)
                lines += indented([*kept, "_cuda.syncthreads()"])
        theirs = [line for key in self._kept for line in self._shown(key, cells)]
        return lines + _either(vectors, self._store_vectors(), [*theirs, "_cuda.syncthreads()", *self._store()])

    def _vectors(self) -> str:
        """The code of whether what a thread owns of a row is a vector of each array; empty where it never is."""
        names = [leaf for key in self._kept for leaf in self._stencils.leaves[key]]
        plain = all(self.code.arrays[name].layout == "C" and self.code.arrays[name].dtype[0] in "iuf" for name in names)
        if not plain or self.columns != VECTOR or self.code.halo[1] % VECTOR or self.code.tile[1] % VECTOR:
            return ""
        arrays = dict.fromkeys(name for key in self._kept for name in self.code.ends(key))
        return " and ".join(f"_holds_vectors({name})" for name in arrays)

    def _load_vectors(self) -> list[str]:
        """Each thread loads what it owns, and stores what others look at."""
        lines = [f"_y{r} = _assume_ge(_from0 + _row + {r}, 0)" for r in range(self.rows)]
        lines.append("_x = _assume_ge(_from1 + _column, 0)")
        for key in self._kept:
            array = self.code.ends(key)[0]
            lines += [f"_load_vector({_mine(key)}, {r * self.columns}, {array}, _y{r}, _x)" for r in range(self.rows)]
        needed = self._needed()
        return [*lines, *(line for key in self._kept for line in self._shown(key, sorted(needed[key])))]

    def _store_vectors(self) -> list[str]:
        """Each thread stores what it owns, as far as the tile does."""
        (halo0, halo1), (tile0, tile1) = self.code.halo, self.code.tile
        lines = []
        for r in range(self.rows):
            lines.append(f"if {halo0 - r} <= _row < {halo0 + tile0 - r}:")
            for key in self._kept:
                place = f"_assume_ge(_from0 + _row + {r}, 0), _assume_ge(_from1 + _column, 0)"
                lines.append(f"    _store_vector({_mine(key)}, {r * self.columns}, {self.code.ends(key)[1]}, {place})")
        return [f"if {halo1} <= _column < {halo1 + tile1}:", *indented(lines)]

    def _load(self) -> list[str]:
        """A warp loads neighbouring columns: elements go to their threads by shared memory."""
        rows, across = range(self.rows), range(0, self.code.extents[1], self.lanes)
        # No name is assigned to twice: each that is takes Numba a look at the whole function.
        lines = [f"_mine0_{r} = _assume_ge(_from0 + _row + {r}, 0)" for r in rows]
        lines += [f"_mine1_{c} = _assume_ge(_from1 + _lane + {c}, 0)" for c in across]
        lines += [f"_place_{c} = {self._place('_row', f'(_lane + {c})')}" for c in across]
        for number, key in enumerate(self._kept):
            array, tile, places = self.code.ends(key)[0], in_tile(key), [*itertools.product(rows, across)]
            lines += [f"_held{number}_{r}_{c} = {array}[_mine0_{r}, _mine1_{c}]" for r, c in places]
            lines += [f"{tile}[_assume_u32(_place_{c} + {r * self.lanes})] = _held{number}_{r}_{c}" for r, c in places]
        return lines

    def _shown(self, key: str, cells: Sequence[Cell]) -> list[str]:
        """Lines that store what a thread owns where others see it."""
        return [f"{self._element(key, cell)} = {_mine(key)}[{self._register(cell)}]" for cell in cells]

    def _element(self, key: str, cell: Cell) -> str:
        return f"{in_tile(key)}[_begin + {self._offset(cell)}]"

    def _store(self) -> list[str]:
        """What the tile owns: a warp stores neighbouring columns."""
        (halo0, halo1), (tile0, tile1) = self.code.halo, self.code.tile
        lines = []
        for c in range(0, tile1, self.lanes):
            lines.append(f"_out1_{c} = _assume_ge(_own1 + _lane + {c}, 0)")
            lines.append(f"_out_{c} = {self._place('_row', f'(_lane + {c + halo1})')}")
        for r in range(self.rows):
            lines += [f"if _row + {r} < {tile0}:", f"    _out0_{r} = _assume_ge(_own0 + _row + {r}, 0)"]
            for c in range(0, tile1, self.lanes):
                stores = []
                for key in self._kept:
                    place = f"_assume_u32(_out_{c} + {(r + halo0) * self.lanes})"
                    stores.append(f"{self.code.ends(key)[1]}[_out0_{r}, _out1_{c}] = {in_tile(key)}[{place}]")
                if c + self.lanes > tile1:
                    stores = [f"if _lane < {tile1 - c}:", *indented(stores)]
                lines += indented(stores)
        return lines


def _either(test: str, vectors: list[str], others: list[str]) -> list[str]:
    """Lines that do one or the other; ``test`` is empty where arrays never hold vectors."""
    if not test:
        return others
    return (
        ["if _vectors:", *indented(vectors), "else:", *indented(others)] if vectors else ["if not _vectors:", *indented(others)]
    )


def of_warps(number: int) -> str:
    """The array in shared memory of what each warp found in each sweep of a loop with a reduction."""
    return f"_of_warps{number}"


def in_warps(number: int, reduction: ReductionCode, call: str, sweep: str, lanes: int, warps: int) -> list[str]:
    """Lines that keep there what a warp found in a sweep, of which ``call`` is a thread's part."""
    place = f"{of_warps(number)}[_assume_u32(({sweep}) * {warps} + _part)]"
    return [f"{reduction.local} = {call}", *reduction.in_warp(lanes), "if _lane == 0:", f"    {place} = {reduction.local}"]


def _refuse_stage(stage: Stage, rows: int) -> None:
    line = f"line {stage.task.span.line}"
    if not is_short(stage, rows) or not assigns_alone(stage.task.body):
        raise NotInRegisters(f"{line} does more than assign to elements")
    if any(access.writes and seen_from((0, 0), access, stage) != (0, 0) for access in stage.accesses):
        raise NotInRegisters(f"{line} writes beside where it writes")
    if not all(guards(stage).values()):
        raise NotInRegisters(f"{line} looks at neighbours in an array that it writes")
    if computes_indices(stage):
        raise NotInRegisters(f"{line} computes indices")
    if chooses_indices(stage):
        raise NotInRegisters(f"{line} chooses by elements at which others it looks")


def computes_indices(stage: Stage) -> bool:
    """Whether a loop takes indices from elements: at the rim iterations see wrong ones."""
    body = stage.task.body
    inner = [*operations(body, stage.task.names)]
    own = {id(node) for node in walk(body)}
    known = {id(node) for node in subscripts(body, stage)}
    unknown = stored_in(body) | stage.arrays.keys()
    indices = (node for node in inner if isinstance(node, ast.Subscript) and id(node) not in known)
    return any(id(node) not in own or not unknown.isdisjoint(values_in(node.slice)) for node in indices)


def chooses_indices(stage: Stage) -> bool:
    """Whether elements decide at which others a loop looks, besides those in tiles: at the rim there may be no such ones."""
    body = stage.task.body
    known = {id(node) for node in subscripts(body, stage)}
    unknown = stored_in(body) | stage.arrays.keys()

    def looks(node: ast.AST) -> bool:
        elements = (each for each in nodes_of(node) if isinstance(each, ast.Subscript) and id(each) not in known)
        return not all(isinstance(each.value, ast.Attribute) and each.value.attr == "shape" for each in elements)

    choices = (choice for node in walk(body) for choice in _choices(node))
    return any(values_in(test) & unknown and any(map(looks, under)) for test, under in choices)


def _choices(node: ast.AST) -> Iterator[tuple[ast.AST, Sequence[ast.AST]]]:
    """What decides in ``node``, and what is done or not by that."""
    match node:
        case ast.IfExp(test=test, body=first, orelse=second):
            yield test, (first, second)
        case ast.If(test=test, body=first, orelse=second):
            yield test, (*first, *second)
        case ast.BoolOp(values=values):
            yield from ((value, values[number + 1 :]) for number, value in enumerate(values))
        case ast.Compare(left=left, comparators=[_, _, *_] as values):
            yield from ((value, values[max(number, 1) :]) for number, value in enumerate((left, *values)))


def values_in(node: ast.AST) -> set[str]:
    """The names under ``node``, but those of arrays that are only asked for what they say of themselves."""
    asked = {id(each.value) for each in nodes_of(node) if isinstance(each, ast.Attribute)}
    return {each.id for each in nodes_of(node) if isinstance(each, ast.Name) and id(each) not in asked}


def _mine(key: str) -> str:
    """What a thread owns of an array."""
    return f"_mine_{key.lstrip('_')}"


def _cells_name(number: int) -> str:
    """The function that is one loop over what a thread owns."""
    return f"_cells{number}"

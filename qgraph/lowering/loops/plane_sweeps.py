"""What a thread does of one plane in one sweep: a function of what it owns and of what it sees beside that."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from qgraph.ir.functions import Function
from qgraph.ir.trees import call_of, load
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import ELEMENT_CASTS, generated, walk
from qgraph.lowering.codegen.task_codegen import BUILTINS, make_function
from qgraph.lowering.loops.iterations_together import Cell, subscripts
from qgraph.lowering.loops.plane_schedule import from_anchor
from qgraph.lowering.loops.stencils import Stage
from qgraph.lowering.loops.tile_codegen import InTile, TileCode, fixed, real, wraps_at
from qgraph.operations.intrinsics import VECTOR
from qgraph.records import dataclass
from qgraph.source import copied

# What a thread owns of a plane: as many columns as one instruction loads.
ROWS, COLUMNS = 2, VECTOR
# In the order in which a thread keeps them.
CELLS = (*itertools.product(range(ROWS), range(COLUMNS)),)
# By the name of an array and the distance of a plane from a sweep's own.
Planes = Mapping[tuple[str, int], list[Cell]]


@dataclass(frozen=True, slots=True)
class PlaneSweep:
    """Writes the function of a loop."""

    code: TileCode
    stage: Stage

    @property
    def written(self) -> list[str]:
        """The names of the arrays that it writes."""
        return sorted({access.array for access in self.stage.accesses if access.writes})

    def own(self) -> Planes:
        """The planes of which a thread looks at cells of its own, or which it leaves where it stores nothing."""
        return {at: cells for at, cells in self._seen().items() if any(map(owns, cells))}

    def others(self) -> Planes:
        """The cells of other threads that it looks at, in order."""
        found = {at: [cell for cell in cells if not owns(cell)] for at, cells in self._seen().items()}
        return {at: cells for at, cells in found.items() if cells}

    def _seen(self) -> Planes:
        found: dict[tuple[str, int], set[Cell]] = defaultdict(set)
        for access, (dz, dy, dx) in zip(self.stage.accesses, from_anchor(self.stage), strict=True):
            # What it stores is where it does so.
            found[access.array, dz] |= {(row + dy, column + dx) for row, column in CELLS}
        return {at: sorted(cells) for at, cells in sorted(found.items())}

    @property
    def taken(self) -> list[str]:
        """Its parameters: which iteration it does and whether, bounds, planes, and what the loop reads from outside."""
        names = ["_plane", "_y", "_x", "_active", *map(_in_row, range(ROWS)), *map(_in_column, range(COLUMNS))]
        for axis, place in enumerate(self.stage.places):
            names += [f"_extent{axis}"] if place.wraps is not None else [f"_low{axis}", f"_high{axis}"]
        names += [_own(*at) for at in self.own()]
        names += [_beside(*at) for at in self.others()]
        return [*names, *map(_new, self.written), *self.code.passed(self.stage)]

    def function(self) -> Function:
        """All iterations for what a thread owns of a plane."""
        body: list[ast.stmt] = []
        for number, cell in enumerate(CELLS):
            body += self._cell(number, cell)
        names = {**dict(self._casts().values()), **self.stage.task.names, **BUILTINS}
        return make_function(f"{self.stage.task.name}_cells", self.taken, body, names, self.stage.task.span)

    def _dtype(self, name: str) -> np.dtype[np.generic]:
        return np.dtype(self.code.arrays[self.code.stencils.leaves[name][0]].dtype)

    def _casts(self) -> dict[str, tuple[str, object]]:
        """By name of an array that the loop writes: the conversion to its elements' type, and the name of that."""
        types = {name: str(self._dtype(name)) for name in self.written}
        return {name: (f"_to_{dtype}_element", ELEMENT_CASTS[dtype]) for name, dtype in types.items()}

    def _cell(self, number: int, cell: Cell) -> list[ast.stmt]:
        """An iteration, whose results count where it is one of the loop."""
        stage, others = self.stage, self.others()
        body = copied(list(stage.task.body))
        found: dict[int, tuple[str, ast.expr]] = {}
        for node, access, (dz, dy, dx) in zip(subscripts(body, stage), stage.accesses, from_anchor(stage), strict=True):
            seen = cell[0] + dy, cell[1] + dx
            array, cells = (_own, CELLS) if owns(seen) else (_beside, others[access.array, dz])
            element = ast.Subscript(load(array(access.array, dz)), ast.Constant(cells.index(seen)), ast.Load())
            stored = access.array if (dz, dy, dx) == (0, 0, 0) else ""
            found[id(node)] = stored, ast.copy_location(element, node)
        conversions = {name: conversion for name, (conversion, _) in self._casts().items()}
        statements = [InTile(stage).visit(each) for each in _Stored(found, conversions).of(body)]
        lines = self._variables(cell, {node.id for node in walk(statements) if isinstance(node, ast.Name)})
        own = stored_in(statements) | {axis.variable for axis in stage.task.axes} | {real(axis) for axis in range(3)}
        inside = f"_active & {_in_row(cell[0])} & {_in_column(cell[1])}"
        after = []
        for name in conversions:
            if self._dtype(name).kind == "f":
                # As where the loop is plain, what a sweep computes is rounded before the next one looks at it.
                after.append(f"{_value(name)} = _unfused({_value(name)})")
            after.append(f"{_new(name)}[{number}] = {_value(name)} if {inside} else {_own(name, 0)}[{number}]")
        whole = [*generated(*lines), *statements, *generated(*after)]
        return [*renamed(whole, {name: f"_cell{number}_{name}" for name in own | {*map(_value, conversions)}})]

    def _variables(self, cell: Cell, used: set[str]) -> list[str]:
        """Lines that give the loop's variables their values, if they are ``used``."""
        lines = []
        indices = "_plane", f"_y + {cell[0]}", f"_x + {cell[1]}"
        for axis, (place, index) in enumerate(zip(self.stage.places, indices, strict=True)):
            if place.axis is None:
                continue
            variable = real(axis) if place.wraps is not None else self.stage.task.axes[place.axis].variable
            if variable not in used:
                continue
            first = self.stage.anchor[axis]
            # What is no iteration of the loop looks at what one of them does.
            closest = f"_max(_min({index}, _high{axis} - 1), _low{axis}) - {first}"
            lines.append(
                f"{variable} = " + (closest if place.wraps is None else f"_assume_ge(({index} - {first}) % _extent{axis}, 0)")
            )
        return lines


def owns(cell: Cell) -> bool:
    """Whether a thread owns that cell, or another one does."""
    return cell in CELLS


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
                self.generic_visit(statement)
                return statement
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


def stores_at(stage: Stage, number: int, axis: int, index: str) -> str:
    """The code of whether a loop stores elements with an ``index`` along ``axis``."""
    if stage.places[axis].wraps is not None:
        return "True"
    return f"({index} >= _low{number}_{axis}) & ({index} < _high{number}_{axis})"


def bounds(stage: Stage, number: int) -> list[str]:
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


def in_place(number: int, axis: int, place: int) -> str:
    """Whether a loop stores in a row, or a column, of a thread."""
    return f"_in{number}_{axis}_{place}"


def _own(name: str, dz: int) -> str:
    """What a thread has of a plane."""
    return f"_own_{of_plane(name, dz)}"


def _beside(name: str, dz: int) -> str:
    """What it sees of other threads' there."""
    return f"_beside_{of_plane(name, dz)}"


def of_plane(name: str, dz: int) -> str:
    """A name of the plane of an array so far from a sweep's own."""
    return f"{name.lstrip('_')}_{f'm{-dz}' if dz < 0 else dz}"


def _new(name: str) -> str:
    """What it stores."""
    return f"_new_{name.lstrip('_')}"


def _value(name: str) -> str:
    """What an iteration stores."""
    return f"_value_{name.lstrip('_')}"


def _in_row(row: int) -> str:
    """Whether the loop stores in that row."""
    return f"_in_row{row}"


def _in_column(column: int) -> str:
    """Whether the loop stores in that column."""
    return f"_in_column{column}"

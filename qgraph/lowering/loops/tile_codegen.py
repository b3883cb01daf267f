"""The code of a pass over memory: what one iteration of a loop over tiles does."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Program, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import call_of, load, parsed
from qgraph.lowering.codegen.generated_names import Statements, generated, indented, walk
from qgraph.lowering.codegen.task_codegen import BUILTINS, affine, make_function, parameters_of
from qgraph.lowering.loops.stencils import AXES, NotTiled, Place, Stage
from qgraph.source import copied


@dataclass(frozen=True, slots=True)
class TileCode:
    """Writes what one iteration of a pass does: ``others`` has the arrays that it stores, by those that it loads."""

    program: Program
    arrays: Mapping[str, ArrayType]
    stages: tuple[Stage, ...]
    reach: tuple[int, ...]
    sweeps: int
    others: Mapping[str, str]
    tile: tuple[int, ...]
    halo: int

    @property
    def scalars(self) -> tuple[tuple[str, Slot], ...]:
        """What all loops read of slots."""
        found: dict[str, Slot] = {}
        for stage in self.stages:
            for name, slot in stage.task.scalars:
                if found.setdefault(name, slot) != slot:
                    raise NotTiled(f"`{name}` stands for two numbers")
        return tuple(found.items())

    @property
    def _tiled(self) -> list[str]:
        """The arrays of the loop, whichever way the pass goes."""
        return sorted({access.leaf for stage in self.stages for access in stage.accesses})

    def names(self) -> dict[str, object]:
        """The globals of ``body``."""
        types = {f"_type_{name}": np.dtype(self.arrays[name].dtype).type for name in self._tiled}
        functions = {_name(number): self._function(number, stage) for number, stage in enumerate(self.stages)}
        return {**BUILTINS, "_empty": np.empty, **types, **functions}

    def body(self) -> Statements:
        """Load the tile with its halo, run all sweeps there, and store what it owns."""
        lines = []
        for axis, tile in enumerate(self.tile):
            lines += [
                f"_own{axis} = _tile{axis} * {tile}",
                f"_from{axis} = _own{axis} - {self.halo}",
                f"_end{axis} = _own{axis} + {tile}",
            ]
        shape = ", ".join(str(tile + 2 * self.halo) for tile in self.tile)
        pairs = [(name, *self._ends(name)) for name in self._tiled]
        lines += [f"_in_{name} = _empty(({shape}), _type_{name})" for name, *_ in pairs]
        for name, old, _ in pairs:
            lines += _copy(old, old, f"_in_{name}[_k0, _k1] = {old}[_i0, _i1]", "_from", self.halo)
        lines.append(f"for _sweep in _range({self.sweeps}):")
        lines += indented([f"_more{axis} = ({self.sweeps - 1} - _sweep) * {reach}" for axis, reach in enumerate(self.reach)])
        for number, stage in enumerate(self.stages):
            lines += indented(self._call(number, stage))
        for name, _, new in pairs:
            lines += _copy(new, new, f"{new}[_i0, _i1] = _in_{name}[_k0, _k1]", "_own", 0)
        return generated(*lines)

    def _ends(self, name: str) -> tuple[str, str]:
        """The array that a tile is loaded from, and that to which it goes."""
        if name in self.others:
            return name, self.others[name]
        return next((old, new) for old, new in self.others.items() if new == name)

    def _bounds(self, stage: Stage) -> tuple[list[str], list[str]]:
        """Under which conditions it runs in a tile, and from where to where its variables go, counted from the halo's begin."""
        conditions, bounds = [], []
        for number, axis in enumerate(stage.task.axes):
            start, count = ast.unparse(axis.start), ast.unparse(axis.count)
            along = [each for each, place in enumerate(stage.places) if place.axis == number]
            low, high = [start], [f"{start} + {count}"]
            for each in along:
                below, above = stage.beyond[each]
                low.append(f"_own{each} - {below} - _more{each}")
                high.append(f"_end{each} + {above} + _more{each}")
            origin = f" - _from{along[0]}" if along else ""
            bounds += [
                f"_max({', '.join(low)}){origin}" if along else start,
                f"_min({', '.join(high)}){origin}" if along else high[0],
            ]
        for each, place in enumerate(stage.places):
            if place.fixed is not None:
                below, above = stage.beyond[each]
                index = self._fixed(stage, each)
                conditions.append(f"_own{each} - {below} - _more{each} <= {index} < _end{each} + {above} + _more{each}")
        return conditions, bounds

    def _fixed(self, stage: Stage, axis: int) -> str:
        """The index that a write has along an axis in every iteration."""
        for node in walk(stage.task.body):
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=elements), ctx=ast.Store()) if (
                    name in self._tiled
                ):
                    return f"({ast.unparse(elements[axis])})"
        raise NotTiled(f"where line {stage.task.span.line} writes is not seen")

    def _passed(self, stage: Stage) -> list[str]:
        """The names that a loop reads from outside: arguments, host values and scalars."""
        task = stage.task
        starts = [ast.Expr(axis.start) for axis in task.axes]
        parameters = parameters_of(self.program, [*task.body, *starts])
        if any(parameter.kind not in ("leaf", "host") for parameter in parameters):
            raise NotTiled(f"line {task.span.line} reads or tells what changes on the device")
        used = {node.id for node in walk(task.body) if isinstance(node, ast.Name)}
        return [*(parameter.name for parameter in parameters), *(name for name, _ in task.scalars if name in used)]

    def _call(self, number: int, stage: Stage) -> list[str]:
        conditions, bounds = self._bounds(stage)
        tiles = [f"_in_{name}" for name in self._tiled]
        origins = [f"_from{axis}" for axis in range(AXES)]
        call = f"{_name(number)}({', '.join([*bounds, *origins, *tiles, *self._passed(stage)])})"
        return [f"if {' and '.join(conditions)}:", f"    {call}"] if conditions else [call]

    def _function(self, number: int, stage: Stage) -> Function:
        """One sweep of a loop over its part of the tile."""
        task = stage.task
        body: Statements = _InTile(task, frozenset(self._tiled), stage.places).statements()
        parameters: list[str] = []
        for place in reversed(range(len(task.axes))):
            axis = task.axes[place]
            along = next((each for each, common in enumerate(stage.places) if common.axis == place), None)
            index = f"_k{place}"
            parameters[:0] = [f"_first{place}", f"_stop{place}"]
            if along is None:
                value = (
                    index
                    if ast.unparse(axis.step) == "1"
                    else affine(replace(axis, start=parsed("0")), f"({index} - _first{place})")
                )
                lines = [f"{axis.variable} = {value}"]
            else:
                # Where an index is least it is not negative.
                least = max(0, *(-access.places[along].offset for access in stage.accesses))
                lines = [f"{axis.variable} = _assume_ge({index}, {least}) + _from{along}"]
            loop = f"for {index} in _range(_first{place}, _stop{place}):"
            body = generated(loop, *indented(lines), "    body", body=body)
        tiles = [f"_in_{name}" for name in self._tiled]
        origins = [f"_from{axis}" for axis in range(AXES)]
        arguments = [*parameters, *origins, *tiles, *self._passed(stage)]
        return make_function(f"{task.name}_sweep", arguments, body, {**task.names, **BUILTINS}, task.span)


class _InTile(ast.NodeTransformer):
    """The body of a loop with elements of tiles for those of arrays."""

    def __init__(self, task: Task, tiled: frozenset[str], places: Sequence[Place]) -> None:
        self._task, self._tiled, self._places = task, tiled, places

    def statements(self) -> list[ast.stmt]:
        return [self.visit(each) for each in copied(list(self._task.body))]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An element."""
        match node:
            case ast.Subscript(value=ast.Name(id=name) as array, slice=ast.Tuple(elts=elements) as index) if (
                name in self._tiled
            ):
                index.elts = [self._moved(self.visit(each), axis) for axis, each in enumerate(elements)]
                array.id = f"_in_{name}"
                return node
        return self.generic_visit(node)

    def _moved(self, index: ast.expr, axis: int) -> ast.expr:
        moved: ast.expr = ast.BinOp(index, ast.Sub(), load(f"_from{axis}"))
        if self._places[axis].fixed is not None:
            moved = call_of("_assume_ge", moved, ast.Constant(0))
        for child in ast.walk(moved):
            if not hasattr(child, "lineno") and isinstance(child, ast.expr):
                ast.copy_location(child, index)
        return moved

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """What an array says of itself is the same in a tile."""
        if isinstance(node.value, ast.Name) and node.value.id in self._tiled and node.attr in ("shape", "size", "ndim"):
            return node
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """An array as a whole."""
        if node.id in self._tiled:
            raise NotTiled(f"line {self._task.span.line} hands on `{node.id}` as a whole")
        return node


def _name(number: int) -> str:
    return f"_sweep{number}"


def _copy(bounds: str, array: str, statement: str, first: str, halo: int) -> list[str]:
    """Elements of ``array`` that lie in a tile, from ``first`` on to ``halo`` beyond what it owns."""
    lines: list[str] = []
    for axis in range(AXES):
        loop = f"for _i in _range(_max({first}{axis}, 0), _min(_end{axis} + {halo}, {bounds}.shape[{axis}])):"
        inside = [f"_i{axis} = _assume_ge(_i, 0)", f"_k{axis} = _assume_ge(_i{axis} - _from{axis}, 0)"]
        lines += indented([loop, *indented(inside)], axis)
    return [*lines, *indented([statement], AXES)]

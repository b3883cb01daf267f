"""The types of kernel scalars: what Numba infers for the values assigned to them, joined over all assignments.

The code of each task that assigns scalars is typed, not compiled, in program order. A conversion to a scalar's type notes the
type of its operand, and stands for what was noted so far; where that changes a type, everything is typed once more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from qgraph.errors import KernelTypeError
from qgraph.ir.artifacts import Parameter
from qgraph.ir.faults import KEY
from qgraph.ir.functions import Function
from qgraph.ir.program import NUMBER, Cast, Program, Task
from qgraph.ir.slots import SCALAR_DTYPES, Slot
from qgraph.lowering.codegen.generated_names import HANDLE, NOTED, walk
from qgraph.lowering.codegen.task_codegen import make_function, replace_continue
from qgraph.lowering.numba_backend import cpu
from qgraph.lowering.numba_backend.types import numba_type
from qgraph.lowering.number_types.type_promotion import NumberError, join, plain
from qgraph.source import Span


def scalar_types(program: Program, *, every: bool = False) -> dict[str, str]:
    """The dtype of each kernel scalar of ``program``, by slot name.

    ``every``: type the tasks that assign none, too, at which no compiler will look afterwards.

    Raises:
        KernelTypeError: a value is no number, or two of them have no common type; Numba cannot type a task.
    """
    noted = NotedTypes(program)
    waiting = tasks = [
        task
        for task in (each.plain or each for each in program.tasks())
        # What blocks of threads do stands in the program as it was written, too.
        if task.block is None
        if every or any(_unknown(slot) for slot in assigned_slots(task))
    ]
    seen: dict[str, dict[str, Any]] = {}
    while waiting:
        for task in waiting:
            seen[task.name] = noted.task(task)
        # What was typed when a scalar had another type, or none yet, is typed once more.
        waiting = [task for task in tasks if any(noted.types.get(name) != item for name, item in seen[task.name].items())]
    return {name: _dtype(item) for name, item in noted.types.items()}


def assigned_slots(task: Task) -> Iterable[Slot]:
    """The slots that ``task`` gives a value through conversions."""
    yield from (slot for _, slot in task.results)
    for reduction in task.reductions:
        yield from (variable.slot for variable in reduction.variables if variable.slot is not None)


class NotedTypes:
    """The types noted so far, and where."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.types: dict[str, Any] = {}
        self._spans: dict[str, Span] = {}
        # Of the task at hand, the types of scalars that it went by.
        self._seen: dict[str, Any] = {}
        # Scalars to which nothing that can be reached has assigned yet: behind a `raise`, Numba types nothing.
        self._unreached: set[str] = set()
        self._leaves = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
        self._float_type = program.float_type

    def task(self, task: Task) -> dict[str, Any]:
        """Note the types of all values that ``task`` assigns to scalars; gives those that it went by itself, by slot name."""
        self._seen = {}
        if not task.axes and self._by_sight(task):
            return {}
        recorders = {
            name: cpu.Recorder(self._recorder(value.slot, task.span))
            for name, value in task.names.items()
            if isinstance(value, Cast) and value.slot is not None
        }
        function, types = self.function(task, {**task.names, **recorders})
        cpu.infer(function, types, float_type=self._float_type)
        for slot in assigned_slots(task):
            if _unknown(slot) and slot.name not in self.types:
                self.types[slot.name] = cpu.dtype_type("int64")
                self._unreached.add(slot.name)
        return self._seen

    def function(self, task: Task, names: Mapping[str, object]) -> tuple[Function, list[Any]]:
        """The statements of ``task`` with the globals ``names``, what they need as parameters, and the types of those."""
        # What it assigns before it reads is its own.
        locals_ = dict(task.scalars)
        for reduction in task.reductions:
            # An array element has no slot, but its partial results have its type.
            locals_ |= {variable.local: variable.slot or variable.partials for variable in reduction.variables}
        used = {child.id for child in walk(task.body) if isinstance(child, ast.Name)}
        parameters, types = [], []
        for name in sorted(used - task.names.keys()):
            item = self._type_of(name, task, locals_)
            if item is not None:
                parameters.append(name)
                types.append(item)
        return make_function(task.name, parameters, replace_continue(task.body), names, task.span), types

    def _by_sight(self, task: Task) -> bool:
        """Whether every statement assigns a literal or another scalar, which need no Numba; notes them if so."""
        found: list[tuple[Slot, Any, ast.stmt]] = []
        slots = dict(task.scalars) | dict(task.results)
        for statement in task.body:
            match statement:
                case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Name(id=cast), args=[value])):
                    conversion = task.names.get(cast)
                    item = self._sight(value, slots, task.names)
                    if not isinstance(conversion, Cast) or conversion.slot is None or item is None:
                        return False
                    found.append((conversion.slot, item, statement))
                case _:
                    return False
        for slot, item, statement in found:
            self._note(slot, item, Span.of(statement, task.span.file))
        return True

    def _sight(self, value: ast.expr, slots: Mapping[str, Slot], names: Mapping[str, object]) -> Any:
        match value:
            case ast.Call(func=ast.Name(id=name), args=[operand]) if names.get(name) is np.float32:
                value = operand
        if isinstance(value, ast.Constant) and isinstance(value.value, bool | int | float):
            return cpu.literal_type(value.value, self._float_type)
        if isinstance(value, ast.Name) and value.id in slots and not _unknown(slots[value.id]):
            return cpu.dtype_type(slots[value.id].dtype)
        return None

    def _type_of(self, name: str, task: Task, locals_: Mapping[str, Slot]) -> Any:
        """The type of a name that the code takes from outside; None for a local that it assigns itself."""
        selected = {selection.local: selection.leaves[0] for selection in task.selections}
        if selected.get(name, name) in self._leaves:
            return numba_type(self._leaves[selected.get(name, name)], self._float_type)
        if name in locals_:
            slot = locals_[name]
            if not _unknown(slot):
                return cpu.dtype_type(slot.dtype)
            self._seen[slot.name] = self.types.get(slot.name)
            return self._seen[slot.name]
        hosts = {value.name for value in self._program.host_values}
        if name in (NUMBER, KEY) or name in hosts or any(axis.variable == name for axis in task.axes):
            return cpu.dtype_type("int64")
        if name in (HANDLE.name, NOTED.name):
            return numba_type(HANDLE if name == HANDLE.name else NOTED, self._float_type)
        if name == task.index_tuple:
            return cpu.index_tuple_type(len(task.axes))
        if name.startswith("_slots"):
            return numba_type(Parameter("slots", name), self._float_type)
        return None

    def _recorder(self, slot: Slot, span: Span) -> Any:
        def note(item: Any) -> Any:
            if not _unknown(slot):
                return cpu.dtype_type(slot.dtype)
            self._note(slot, plain(item), span)
            # What counts is the first: if that is not what the type is in the end, it has changed since.
            self._seen.setdefault(slot.name, self.types[slot.name])
            return self.types[slot.name]

        return note

    def _note(self, slot: Slot, item: Any, span: Span) -> None:
        before = None if slot.name in self._unreached else self.types.get(slot.name)
        self._unreached.discard(slot.name)
        try:
            self.types[slot.name] = item if before is None else join(before, item)
        except NumberError as error:
            raise KernelTypeError(
                f"a kernel scalar is {plain(before)} on one line and {item} on another: {error}",
                span,
                also=(("the other value is here", self._spans[slot.name]),),
                hint="convert one of them, or use another name",
            ) from error
        self._spans.setdefault(slot.name, span)


def _unknown(slot: Slot) -> bool:
    return not slot.dtype


def _dtype(item: Any) -> str:
    name = "bool" if str(item) == "boolean" else str(item)
    assert name in SCALAR_DTYPES, name
    return name

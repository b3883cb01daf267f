"""The words of ``kernel.check``: each access tells shadow memory about itself, and raises where its index is out of bounds."""

from __future__ import annotations

import ast
import functools
from dataclasses import replace
from typing import Any

from qgraph import language
from qgraph.ir.functions import Function, TypedFunction
from qgraph.ir.program import Axis, Program, Task
from qgraph.ir.rewrite import with_tasks
from qgraph.lowering.codegen.generated_names import generated, place_at
from qgraph.lowering.codegen.task_codegen import affine, product
from qgraph.lowering.instrumentation import shadow_memory as shadow
from qgraph.lowering.instrumentation.accesses import Access
from qgraph.lowering.instrumentation.check_functions import is_element, word_function
from qgraph.lowering.number_types.number_llvm import types
from qgraph.operations.combinations import BY_ATOMIC, COMBINATIONS
from qgraph.source import nodes_of

_STATE = ", ".join(shadow.STATE)
_GLOBALS: dict[str, object] = {
    "inside": shadow.INSIDE,
    "read": shadow.READ,
    "write": shadow.WRITE,
    "update": shadow.UPDATE,
    "forget": shadow.FORGET,
    "same_bits": shadow.SAME_BITS,
    "address_of": shadow.ADDRESS_OF,
}


class CheckerWords:
    """One function a kind of access and type; all instances share them, so that kernels of one meaning are compiled once."""

    state: tuple[str, ...] = shadow.STATE

    def word(self, access: Access) -> object:
        """The function for an access."""
        if access.kind == "atomic":
            return _atomic(access.operation, generated=access.generated)
        if access.kind == "reduce":
            return _reduction(access.reduction)
        return _WORDS[access.kind]


def _function(name: str, parameters: str, lines: list[str], **names: object) -> Function:
    return word_function(f"{name}({parameters}, site, {_STATE})", "\n".join(lines), {**_GLOBALS, **names})


def _places(ndim: int, index: Any) -> list[str]:
    """Lines that set ``at`` to the indices counted from the start, each inside its axis."""
    single = not isinstance(index, types.BaseTuple)
    lines = []
    for axis in range(ndim):
        part = "index" if single else f"index[{axis}]"
        lines.append(f"p{axis} = inside({part}, array.shape[{axis}], {axis}, site, _check)")
    places = "".join(f"p{axis}, " for axis in range(ndim))
    return [*lines, f"at = ({places})"]


def _load(array: Any, index: Any, *_: Any) -> Function:
    if is_element(array, index):
        touch = f"read(address_of(array, at), array.itemsize, site, {_STATE})"
        return _load_of(
            array.ndim, isinstance(index, types.BaseTuple), (*_places(array.ndim, index), touch, "return array[at]")
        )
    return _load_of(-1, False, ("return array[index]",))


@functools.cache
def _load_of(_ndim: int, _tuple: bool, lines: tuple[str, ...]) -> Function:
    return _function("load", "array, index", list(lines))


def _store(_value: Any, array: Any, index: Any, *_: Any) -> Function:
    if not is_element(array, index):
        return _store_of(("array[index] = value",))
    return _store_of(
        (
            *_places(array.ndim, index),
            "old = array[at]",
            "array[at] = value",
            f"write(address_of(array, at), array.itemsize, same_bits(old, array[at]), site, {_STATE})",
        )
    )


@functools.cache
def _store_of(lines: tuple[str, ...]) -> Function:
    return _function("store", "value, array, index", list(lines))


@functools.cache
def _index(*_: Any) -> Function:
    return _INDEX


_INDEX = _function("index", "index, extent", ["return inside(index, extent, 0, site, _check)"])


def _every(array: Any, lines: list[str]) -> tuple[str, ...]:
    """Lines for each element ``at`` of ``array``."""
    result = [f"{'    ' * axis}for p{axis} in range(array.shape[{axis}]):" for axis in range(array.ndim)]
    places = "".join(f"p{axis}, " for axis in range(array.ndim))
    return (*result, *(f"{'    ' * array.ndim}{line}" for line in (f"at = ({places})", *lines)))


def _whole(array: Any, *_: Any) -> Function:
    if not isinstance(array, types.Array):
        return _array_of("whole", ("return array",))
    touch = f"read(address_of(array, at), array.itemsize, site, {_STATE})"
    return _array_of("whole", (*_every(array, [touch]), "return array"))


def _forget(array: Any, *_: Any) -> Function:
    if not isinstance(array, types.Array):
        return _array_of("forget", ("return array",))
    touch = "forget(address_of(array, at), array.itemsize, _check)"
    return _array_of("forget", (*_every(array, [touch]), "return array"))


@functools.cache
def _array_of(name: str, lines: tuple[str, ...]) -> Function:
    return _function(name, "array", list(lines), range=range)


def _fill(_value: Any, array: Any, *_: Any) -> Function:
    touch = f"write(address_of(array, at), array.itemsize, same_bits(old[at], array[at]), site, {_STATE})"
    return _fill_of(("old = array.copy()", "array[...,] = value", *_every(array, [touch])))


@functools.cache
def _fill_of(lines: tuple[str, ...]) -> Function:
    return _function("fill", "value, array", list(lines), range=range)


_WORDS = {
    "load": TypedFunction("load", lambda operands: _load(*operands)),
    "store": TypedFunction("store", lambda operands: _store(*operands)),
    "index": TypedFunction("index", lambda operands: _index()),
    "whole": TypedFunction("whole", lambda operands: _whole(*operands)),
    "forget": TypedFunction("forget", lambda operands: _forget(*operands)),
    "fill": TypedFunction("fill", lambda operands: _fill(*operands)),
}


def group_of(operation: object, *, generated: bool) -> int:
    """The number of a group of atomics: updates that commute are one."""
    combination = BY_ATOMIC[operation][0] if operation in BY_ATOMIC else None
    known = [each is combination for each in COMBINATIONS]
    number = 1 + known.index(True) if combination is not None else 100 + language.ATOMICS.index(operation)
    return number if generated else number | shadow.AUTHORS


# Reductions have the numbers from here on.
_FIRST_REDUCTION = 1000


@functools.cache
def _atomic(operation: Any, *, generated: bool) -> TypedFunction:
    values = "value, other" if operation is language.atomic_cas else "value"
    group = group_of(operation, generated=generated)
    made: dict[object, Function] = {}

    def choose(operands: tuple[Any, ...]) -> Function:
        array, index = operands[:2]
        key = array.ndim, isinstance(index, types.BaseTuple)
        if key not in made:
            lines = [
                *_places(array.ndim, index),
                f"update(address_of(array, at), array.itemsize, {group}, site, {_STATE})",
                f"return atomic(array, at, {values})",
            ]
            made[key] = _function("atomic", f"array, index, {values}", lines, atomic=operation)
        return made[key]

    return TypedFunction("atomic", choose)


@functools.cache
def _reduction(number: int) -> TypedFunction:
    made: dict[object, Function] = {}

    def choose(operands: tuple[Any, ...]) -> Function:
        array, index = operands[:2]
        key = array.ndim, isinstance(index, types.BaseTuple)
        if key not in made:
            touch = f"update(address_of(array, at), array.itemsize, {_FIRST_REDUCTION + number}, site, {_STATE})"
            made[key] = _function("reduce", "array, index", [*_places(array.ndim, index), touch])
        return made[key]

    return TypedFunction("reduce", choose)


# --- the order of iterations ------------------------------------------------------------------------------------------


def in_chosen_order(task: Task, number: int) -> Task:
    """A task of an instrumented program; loop ``number`` runs its iterations in the order that ``check`` says."""
    if not task.axes:
        outside = generated(f"{shadow.CHECK}[{shadow.ITERATION}] = 0")
        return replace(task, body=(*_placed(outside, task), *task.body))
    axes = tuple(
        replace(axis, variable=f"_check_q{position}", start=ast.Constant(0), step=ast.Constant(1))
        for position, axis in enumerate(task.axes)
    )
    lines = [f"_check_at = _check_begin({_linear(axes)}, {product(task.axes)}, {number}, {shadow.CHECK})"]
    if task.reductions:
        # Any order is right, and sums of floats would differ. The body itself says which of equal values wins, and counts on
        # its iterations to be in order, as they are in a chunk.
        lines.append(f"_check_at = {_linear(axes)}")
    told = []
    for position, axis in enumerate(task.axes[: shadow.MOST_AXES]):
        for part, value in enumerate((axis.start, axis.step, axis.count)):
            told.append(f"    {shadow.CHECK}[{shadow.AXES + 3 * position + part}] = {ast.unparse(value)}")
    lines += [f"if {' and '.join(f'{axis.variable} == 0' for axis in axes)}:", *told]
    for position, axis in enumerate(task.axes):
        inner = task.axes[position + 1 :]
        at = f"_check_at // ({product(inner)})" if inner else "_check_at"
        if position:
            at = f"({at}) % ({ast.unparse(axis.count)})"
        lines.append(f"{axis.variable} = {affine(axis, at)}")
    if task.index_tuple:
        lines.append(f"{task.index_tuple} = ({', '.join(axis.variable for axis in task.axes)},)")
    head = _placed(generated(*lines), task)
    return replace(
        task,
        axes=axes,
        index_tuple="",
        body=(*head, *task.body),
        names={**task.names, "_check_begin": shadow.BEGIN},
        inner_length="",
        plain=task,
    )


def _linear(axes: tuple[Axis, ...]) -> str:
    text = axes[0].variable
    for axis in axes[1:]:
        text = f"({text}) * ({ast.unparse(axis.count)}) + {axis.variable}"
    return text


def _placed(statements: list[ast.stmt], task: Task) -> list[ast.stmt]:
    for statement in statements:
        for node in nodes_of(statement):
            place_at(node, task.span)
    return statements


def with_chosen_order(program: Program) -> tuple[Program, tuple[Task, ...]]:
    """An instrumented program whose loops run as ``in_chosen_order`` says, and these loops by number."""
    loops: list[Task] = []

    def changed(task: Task) -> Task:
        made = in_chosen_order(task, len(loops))
        if task.axes:
            loops.append(task)
        return replace(made, verdict=None)

    return with_tasks(program, changed), tuple(loops)

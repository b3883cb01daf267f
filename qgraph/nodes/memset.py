"""Memset nodes: loops that only fill a box of an array with one literal."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from qgraph.ir.plan import Node
from qgraph.ir.program import Program, Task
from qgraph.nodes.kind import GraphNode, Owner
from qgraph.nodes.memory_region import MemRegion, MemRegionNode, Rows, Store, store_of, whole_axes
from qgraph.records import dataclass

# The widest element that a memset writes, in bytes.
_WIDEST = 4


@dataclass(frozen=True, slots=True)
class Memset(MemRegion):
    """Repeat ``value``, of ``size`` bytes, in the box."""

    name = "memset"

    value: int
    size: int

    @classmethod
    def of_loop(cls, program: Program, task: Task) -> Memset | None:
        """A loop whose literal is a pattern of 1, 2 or 4 bytes, in rows of one length that are one distance apart."""
        store = store_of(program, task)
        if store is None:
            return None
        pattern = _pattern(task, store.value, store.type.dtype)
        if pattern is None or not _is_rows(program, store):
            return None
        size = min(_WIDEST, len(pattern))
        if pattern != pattern[:size] * (len(pattern) // size):
            return None
        value = int.from_bytes(pattern[:size], "little")
        return cls(store.target, store.places.starts, store.places.counts, value, size)

    def in_graph(self, node: Node, owner: Owner) -> GraphNode | None:
        """A memset node, which fills two words of nobody until a call tells."""
        return MemsetNode(node, owner, self) if owner.in_graphs else None


def _is_rows(program: Program, store: Store) -> bool:
    """Whether the box is rows of one length, one distance apart, whatever the arguments.

    The whole axes at the end and the one before them are one stretch of memory; of the others, one may have several places.
    """
    whole = whole_axes(program, store.target, store.places)
    partial = [axis for axis, covered in enumerate(whole) if not covered]
    return sum(count != 1 for count in store.places.counts[: partial[-1]]) <= 1 if partial else True


def _pattern(task: Task, value: ast.expr, dtype: str) -> bytes | None:
    """The bytes of one element that holds the literal ``value``; None where it is none, or the kernel must convert it."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and len(value.args) == 1:
        kind = task.names.get(value.func.id)
        if kind is not np.float32 and kind is not np.complex64:
            return None
        (value,) = value.args
    try:
        number: object = ast.literal_eval(value)
    except ValueError:
        return None
    if not isinstance(number, (bool, int, float, complex)):
        return None
    return _converted(number, np.dtype(dtype))


def _converted(number: bool | int | float | complex, dtype: np.dtype) -> bytes | None:
    """``number`` in the bytes of ``dtype``, where there is no doubt what they are."""
    if dtype.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        whole = number.real
        if number.imag != 0 or not float(whole).is_integer() or not low <= whole <= high:
            return None
        return np.array(int(whole)).astype(dtype).tobytes()
    if type(number) is complex and dtype.kind != "c":
        return None
    with np.errstate(over="ignore"):
        element = np.array(number).astype(dtype)
    # What is rounded twice on the way may differ in the last bit.
    rounded_once = type(number) is float and dtype.name in ("float32", "float64")
    return element.tobytes() if rounded_once or complex(element) == complex(number) else None


class MemsetNode(MemRegionNode):
    """Fills a box with a pattern of 1, 2 or 4 bytes."""

    def __init__(self, node: Node, owner: Owner, box: Memset) -> None:
        super().__init__(node, owner, box)
        self._box = box
        self._parameters = self.driver.CUDA_MEMSET_NODE_PARAMS()
        self._parameters.value, self._parameters.elementSize = box.value, box.size
        self.forget()

    def forget(self) -> None:
        """Fill the placeholder."""
        self._known = ()
        self._set((Rows(self._placeholder, self._box.size),))

    def add(self, graph: Any) -> Any:
        """Add a memset node."""
        self.handle = self.call(
            self.driver.cuGraphAddMemsetNode, graph, None, 0, self._parameters, self.call(self.driver.cuCtxGetCurrent)
        )
        return self.handle

    def define(self) -> None:
        """Give the definition the parameters."""
        self.call(self.driver.cuGraphMemsetNodeSetParams, self.handle, self._parameters)

    def _set(self, rows: tuple[Rows, ...]) -> None:
        (part,) = rows
        self._parameters.dst, self._parameters.pitch = part.pointer, part.pitch
        self._parameters.width, self._parameters.height = part.width // self._box.size, part.height

    def _patch(self) -> int:
        context = self.call(self.driver.cuCtxGetCurrent)
        return int(self.driver.cuGraphExecMemsetNodeSetParams(self.executable, self.handle, self._parameters, context)[0])

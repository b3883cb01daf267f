"""Arrays of host callbacks: on CUDA page-locked copies, which memcpy nodes fill before the callback and copy back after it."""

from __future__ import annotations

import ast
import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError, KernelSyntaxError, KernelTypeError
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.plan import Node
from qgraph.ir.program import Effects
from qgraph.nodes.kind import GraphNode, Owner, Planned, StatementKind, WrittenCall
from qgraph.nodes.memcpy import MemcpyNode
from qgraph.nodes.memory_region import Rows
from qgraph.records import dataclass
from qgraph.source import as_written


@dataclass(frozen=True, slots=True)
class HostArray:
    """A whole array that a host callback gets, by its leaf, written ``path``; it may write it only if it is ``written``.

    ``block`` is the leaf whose page-locked copy it is: another one where both are the same memory.
    """

    leaf: str
    block: str
    written: bool
    path: str

    def of(self, array: np.ndarray) -> np.ndarray:
        """What the function gets."""
        return array if self.written else read_only(array)


def read_only(array: np.ndarray) -> np.ndarray:
    """The same elements, which nobody writes through what this gives."""
    view = array.view()
    view.flags.writeable = False
    return view


def passed_arrays(call: WrittenCall) -> Sequence[HostArray | None]:
    """For each argument behind the function: the array that it is, None for a number. ``writes`` names those that it writes."""
    found = [_array(call, node) for node in call.node.args[1:]]
    leaves = {leaf.name: leaf for leaf in found if leaf is not None}
    named = [_named(call, node, leaves) for word in call.node.keywords for node in _parts(word.value)]
    written = named if call.node.keywords else [leaf for leaf in leaves.values() if _is_writable(leaf)]
    for first, second in itertools.combinations(leaves.values(), 2):
        if call.shares(first, second) == "overlap" and (first in written or second in written):
            raise ArgumentError(
                f"`{first.path}` and `{second.path}` share memory, and a host callback gets both and writes one of them",
                call.span(call.node),
                hint="pass arrays that are apart, or say which ones it writes: writes=(...), or writes=() for none",
            )
    made = {}
    for leaf in leaves.values():
        block = next(first for first in leaves.values() if call.shares(first, leaf) == "same")
        is_written = any(call.shares(each, leaf) == "same" for each in written)
        made[leaf.name] = HostArray(leaf.name, block.name, is_written, leaf.path)
    return [None if leaf is None else made[leaf.name] for leaf in found]


def _array(call: WrittenCall, node: ast.expr) -> Leaf | None:
    """The whole array that ``node`` names, if it is one."""
    found = call.meaning(node)
    if isinstance(found, KernelSyntaxError):
        raise found
    if not isinstance(found, Leaf) or not isinstance(found.type, ArrayType):
        return None
    if found.type.layout == "A":
        raise KernelTypeError(
            f"the elements of `{found.path}` have gaps between them, or another order than C's and Fortran's",
            call.span(node),
            hint="a host callback gets whole stretches of memory: t = qgraph.empty_like(x), t[:] = x, and pass t",
        )
    return found


def _is_writable(leaf: Leaf) -> bool:
    assert isinstance(leaf.type, ArrayType)
    return not leaf.type.readonly


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _named(call: WrittenCall, node: ast.expr, leaves: Mapping[str, Leaf]) -> Leaf:
    found = call.meaning(node)
    if isinstance(found, KernelSyntaxError):
        raise found
    if isinstance(found, Leaf) and found.name in leaves:
        return found
    raise KernelSyntaxError(
        f"`{as_written(node)}` is none of the arrays that the host callback gets",
        call.span(node),
        hint="name some of them, as they are passed: host_callback(fn, x, y, writes=(y,))",
    )


@dataclass(frozen=True, slots=True)
class HostCopy(StatementKind):
    """Copy an array to page-locked memory for the host call ``call``; or, where it goes ``back``, from there."""

    call: str
    array: HostArray
    back: bool

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> HostCopy:
        """Never: it is part of a host call."""
        raise AssertionError("a copy has no word of its own")

    @property
    def arrays(self) -> tuple[str, ...]:
        """The leaf."""
        return (self.array.leaf,)

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """All of it, whatever its shape."""
        return ((),)

    @property
    def counts(self) -> tuple[str | int, ...]:
        """As ``places``."""
        return ()

    def planned(self) -> Sequence[Planned]:
        """One node."""
        block = frozenset({block_of(self.call, self.array)})
        around = Effects(reads=block) if self.back else Effects(writes=block)
        return (Planned("memcpy", self.label, self.effects | around),)

    @property
    def not_in_block(self) -> str:
        """As the call."""
        return "it calls the host"

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """A memcpy node between the array and its page-locked copy."""
        return HostCopyNode(node, owner, self, copies_of(self.call, owner))


def block_of(call: str, array: HostArray) -> str:
    """What stands for the page-locked copy of an array in effects."""
    return f"{call} {array.block}"


# --- in a graph --------------------------------------------------------------------------------------------------------


class HostCopies:
    """The page-locked copies of the arrays of one host call, and what its function gets in each launch.

    The host node holds the number under which the function finds its arrays, since a launch in flight may have other sizes
    than the next one. Launches follow each other, so when one calls the function, those with smaller numbers are over.

    Args:
        take: gives page-locked bytes that live as long as somebody holds them.
    """

    def __init__(self, take: Callable[[int], Any]) -> None:
        self._take = take
        self._blocks: dict[str, Any] = {}
        self._given: dict[int, Mapping[str, np.ndarray]] = {}
        self._number = 0

    def pointer(self, block: str, nbytes: int) -> int:
        """The address of a copy with room for ``nbytes`` bytes."""
        found = self._blocks.get(block)
        if found is None or len(found) < nbytes:
            # The old one is held by the arrays of launches in flight.
            found = self._blocks[block] = self._take(max(nbytes, 8))
        return ctypes.addressof(found)

    def give(self, views: Mapping[HostArray, Any]) -> int:
        """The number of arrays of these shapes, whose copies have room."""
        self._number += 1
        self._given[self._number] = {
            array.leaf: np.ndarray(view.shape, view.dtype, self._blocks[array.block], order="F" if view.layout == "F" else "C")
            for array, view in views.items()
        }
        return self._number

    def given(self, number: int) -> Mapping[str, np.ndarray]:
        """The arrays with that number, by leaf."""
        for each in list(self._given):
            if each < number:
                self._given.pop(each, None)
        return self._given[number]


def copies_of(call: str, owner: Owner) -> HostCopies:
    """The copies that all nodes of a host call share."""
    return owner.once(f"{call} arrays", lambda: HostCopies(owner.page_locked))


class HostCopyNode(MemcpyNode):
    """Copies a whole array to its page-locked copy, or back."""

    def __init__(self, node: Node, owner: Owner, copy: HostCopy, copies: HostCopies) -> None:
        self._copies, self._block, self._back = copies, copy.array.block, copy.back
        self._copy_in, self._copy_out = owner.copy_in, owner.copy_out
        super().__init__(node, owner, copy)

    def forget(self) -> None:
        """Copy a placeholder, so that no array is held."""
        self._known = ()
        self._set((Rows(self._placeholder, 8), Rows(self._copies.pointer(self._block, 8), 8)))

    def run(self, stream: int) -> None:
        """Copy, without waiting."""
        array, copy = self._known
        if self._back:
            self._copy_in(array.pointer, copy.pointer, array.width, stream)
        else:
            self._copy_out(array.pointer, copy.pointer, array.width, stream)

    def _rows(self, views: Sequence[Any], counts: Sequence[int]) -> tuple[Rows, ...]:
        (view,) = views
        return Rows(view.pointer, view.nbytes), Rows(self._copies.pointer(self._block, view.nbytes), view.nbytes)

    def _set(self, rows: tuple[Rows, ...]) -> None:
        array, copy = rows
        parameters, host = self._parameters, self.driver.CUmemorytype.CU_MEMORYTYPE_HOST
        if self._back:
            parameters.dstDevice, parameters.srcHost, parameters.srcMemoryType = array.pointer, copy.pointer, host
        else:
            parameters.srcDevice, parameters.dstHost, parameters.dstMemoryType = array.pointer, copy.pointer, host
        parameters.WidthInBytes, parameters.Height = array.width, 1

"""The parameters of kernels, in the layout of numba-cuda's entry points.

Every argument of a call is stored once, in one block of 8-byte words that stays at its address; each kernel has an array of
pointers to the words it takes. So a changed argument is written once, whatever the number of kernels that read it.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Set
from typing import Any, Protocol

from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import ArrayType, Leaf, ScalarType
from qgraph.ir.artifacts import TRIGGERS_FIRST, TRIGGERS_LATER, WAITS_LAST, CudaPlan, Parameter, TaskCode, slots_dtype
from qgraph.ir.faults import FAULT_WORDS, FAULTS
from qgraph.ir.program import TURNS
from qgraph.ir.slots import itemsize
from qgraph.ir.unrolling import UNROLLED, Form, Unrolling
from qgraph.operations.intrinsics import U32_LIMIT
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import NeedsIndex64, NeedsOwnExtents
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.struct_formats import FORMATS

_WORD = 8
# One kernel in so many lets those behind it start only when it has waited itself: else all of a long chain would soon be on the
# device, and on an H200 a node of 100 then took 0.66 us in place of 0.58.
_AHEAD = 8
# Grids of so many blocks may be on the device beside others, and then look before they wait whether they have anything to do.
_PEEKS = 1024
# The parameters that tell a kernel in an unrolled body which copy it is in.
_GUARDING = ("guard", "next", "copy", "peeks")

# Elements from which on an array of several dimensions is far (``CudaPlan``).
_INDEX64_FROM = U32_LIMIT

# Words of an array before its shape: meminfo and parent (always 0), number of elements, itemsize, address.
_SIZE = 2
_DATA = 4
_SHAPE = 5


def scalar_dtype(kind: ScalarType, float_type: str) -> str:
    """The dtype a scalar is passed as: a Python float or complex takes the kernel's float type."""
    if kind.weak and float_type == "float32":
        return {"float64": "float32", "complex128": "complex64"}.get(kind.dtype, kind.dtype)
    return kind.dtype


@dataclass(frozen=True, slots=True)
class _Place:
    # Where one argument lies: its first word, and (byte offset, size) of each kernel parameter it becomes.
    word: int
    parts: tuple[tuple[int, int], ...]


def _array_place(word: int, ndim: int) -> _Place:
    return _Place(word, tuple(((word + k) * _WORD, _WORD) for k in range(_SHAPE + 2 * ndim)))


def _word_place(word: int) -> _Place:
    return _Place(word, ((word * _WORD, _WORD),))


def _half_place(word: int) -> _Place:
    # A number of 32 bits.
    return _Place(word, ((word * _WORD, _WORD // 2),))


def _scalar_place(word: int, dtype: str) -> _Place:
    # A complex number is two parameters.
    form = FORMATS[dtype]
    size = struct.calcsize(form[0])
    return _Place(word, tuple((word * _WORD + k * size, size) for k in range(len(form))))


class _ArrayLeaf:
    # What the block holds of one array: plain ints, so that nothing of the caller's stays alive.
    __slots__ = ("data", "index", "layout", "offset", "path", "pointer", "shape", "strides", "users")

    def __init__(self, index: int, word: int, ndim: int, path: str) -> None:
        self.index = index
        self.path = path
        self.offset = word * _WORD
        self.data = word + _DATA
        self.layout = struct.Struct(f"={_SHAPE + 2 * ndim}q")
        self.users = 0
        self.pointer = -1
        # None until an array is written.
        self.shape: tuple[int, ...] | None = None
        self.strides: tuple[int, ...] | None = None


class _ScalarLeaf:
    __slots__ = ("encode", "index", "last", "leaf", "offset", "users", "value")

    def __init__(self, index: int, word: int, leaf: Leaf, dtype: str) -> None:
        self.index = index
        self.leaf = leaf
        self.offset = word * _WORD
        self.encode = _encoder(dtype)
        self.users = 0
        # What the block holds: numbers never change, so the very same object needs no second look.
        self.value: object = self
        self.last = b""


def _encoder(dtype: str) -> Callable[[Any], bytes]:
    form = FORMATS[dtype]
    pack = struct.Struct("=" + form).pack
    if len(form) == 2:
        return lambda value: _pack_complex(pack, value)
    if form not in "ef":
        return pack

    def rounded(value: Any) -> bytes:
        try:
            return pack(value)
        except OverflowError:  # struct refuses what rounds to infinity
            return pack(math.copysign(math.inf, value))

    return rounded


def _pack_complex(pack: Callable[..., bytes], value: Any) -> bytes:
    real, imag = float(value.real), float(value.imag)
    try:
        return pack(real, imag)
    except OverflowError:
        limit = 3.4028235677973366e38  # from here on float32 rounds to infinity
        return pack(*(math.copysign(math.inf, part) if abs(part) >= limit else part for part in (real, imag)))


class FollowedKernel(Protocol):
    """A kernel that others wait for: its place in ``Parameters.changed``, its node, the graph in which it is, and its code."""

    bit: int
    index: int
    form: Form
    code: TaskCode


class Parameters:
    """The arguments of all kernels of one executable, at fixed addresses.

    ``changed`` is a bit mask of the kernels (bit ``k`` for the ``k``-th that ``bind`` was called for) whose arguments were
    written since the owner last cleared it; it survives an ``update`` that raises half-way. ``host`` are the host values that
    the block holds.

    Args:
        plan: whose leaves, host values and slots the kernels take.
        slots_pointer: device address of the int64 scratch array.
        faults_pointer: address of the words that the host reads too, where tasks note faults.
        turns_pointer: address of those where unrolled loops tell how many iterations they had.
    """

    def __init__(self, plan: CudaPlan, slots_pointer: int, faults_pointer: int = 0, turns_pointer: int = 0) -> None:
        program = plan.plan.program
        self._index64 = plan.extents.index64
        self._float_type = program.float_type
        self._places: dict[tuple[str, str], _Place] = {}
        self._arrays: list[_ArrayLeaf] = []
        self._scalars: list[_ScalarLeaf] = []
        self._used = 0
        leaves = program.arrays_and_scalars
        # Groups of arrays with one shape, and whether one took another shape since that was seen.
        index_of = {leaf.name: index for index, leaf in enumerate(leaves)}
        self._equal = [[index_of[name] for name in group] for group in plan.extents.equal]
        self._reshaped = False
        for index, leaf in enumerate(leaves):
            self._place_leaf(index, leaf)
        self._host_words = [self._place_word("host", value.name) for value in program.host_values]
        self._host_users = [0] * len(self._host_words)
        self._host_index = {value.name: index for index, value in enumerate(program.host_values)}
        self.host: tuple[int, ...] = ()
        views = {
            parameter.name: parameter
            for code in plan.codes.values()
            for parameter in code.parameters
            if parameter.kind == "slots"
        }
        slots_words = {name: self._take(_SHAPE + 2) for name in views}
        self._places.update({("slots", name): _array_place(word, 1) for name, word in slots_words.items()})
        faults_word = self._take(_SHAPE + 2)
        self._places["faults", FAULTS] = _array_place(faults_word, 1)
        turns_word = self._take(_SHAPE + 2)
        self._places["turns", TURNS] = _array_place(turns_word, 1)
        # For the handle of no loop.
        self._zero = _word_place(self._take(1))
        # The plain graph and the unrolled one differ in these; in the latter, all copies of a node have the same. Those that
        # the host launches ahead are twice as many.
        unrolled = plan.plan.unrolled
        self._kept = plan.kept
        self._guards = plan.plan.guards
        forms: tuple[Form, ...] = ("plain", *UNROLLED, "whole") if unrolled else ("plain",)
        # One more: a kernel that is no node of the plan may be all of it.
        self._early_words = {form: [self._take(1) for _ in range(len(plan.plan.nodes) + 1)] for form in forms}
        controls = [node.index for node in plan.plan.nodes if node.control is not None]
        self._handle_words = {(form, index): self._take(1) for form in forms for index in controls}
        # Of each copy, in this order: what guards it, what its condition sets, its place in a turn, and who may look early.
        self._guard_words = {(each.node, number): self._take(4) for each in unrolled for number in (None, *each.numbers)}
        # Of each kernel that hands its results on, how many blocks it has, and the kernels that combine these.
        self._parts_words = {index: self._take(1) for each in unrolled if each.handed for index in each.handed.nodes}
        self._parts_users = dict.fromkeys(self._parts_words, 0)
        self._words = (ctypes.c_int64 * self._used)()
        self._base = ctypes.addressof(self._words)
        self._bytes = memoryview(self._words).cast("B")
        self._integers = self._bytes.cast("q")
        self._leaf_users: dict[str, _ArrayLeaf | _ScalarLeaf] = {}
        self._leaf_users.update({leaves[array.index].name: array for array in self._arrays})
        self._leaf_users.update({scalar.leaf.name: scalar for scalar in self._scalars})
        self.changed = 0
        # The kernels that wait at their ends.
        self._behind: Set[int] = frozenset()
        for name, word in slots_words.items():
            size = itemsize(slots_dtype(views[name]))
            count = plan.plan.scratch_words * _WORD // size
            self._write_words(word, slots_pointer, count, size)
        self._write_words(faults_word, faults_pointer, FAULT_WORDS, _WORD)
        self._write_words(turns_word, turns_pointer, len(unrolled), _WORD)
        for each in unrolled:
            self._set_guard(each, None, 0, 0)
            for number in each.numbers:
                self._set_guard(each, number, *each.words(number))

    def _set_guard(self, unrolling: Unrolling, number: int | None, guard: int, then: int) -> None:
        place = 0 if number is None else unrolling.place(number)
        peeks = 0 if number is None or unrolling.form(number) is None else _PEEKS
        word = self._guard_words[unrolling.node, number]
        self._integers[word : word + 4] = memoryview(struct.pack("=4q", guard, then, place, peeks)).cast("q")

    def guard_what_follows(self, unrolling: Unrolling) -> None:
        """Let an iteration of the plain form tell copy 0 whether there is one more; before its kernels are added."""
        self._set_guard(unrolling, None, 0, unrolling.words(0)[0])

    def _write_words(self, word: int, pointer: int, count: int, size: int) -> None:
        struct.pack_into("=7q", self._bytes, word * _WORD, 0, 0, count, size, pointer, count, size)

    def _take(self, words: int) -> int:
        start = self._used
        self._used += words
        return start

    def _place_word(self, kind: str, name: str) -> int:
        word = self._take(1)
        self._places[kind, name] = _word_place(word)
        return word

    def _place_leaf(self, index: int, leaf: Leaf) -> None:
        if isinstance(leaf.type, ArrayType):
            word = self._take(_SHAPE + 2 * leaf.type.ndim)
            self._places["leaf", leaf.name] = _array_place(word, leaf.type.ndim)
            self._arrays.append(_ArrayLeaf(index, word, leaf.type.ndim, leaf.path))
            return
        dtype = scalar_dtype(leaf.type, self._float_type)
        word = self._take(2 if dtype == "complex128" else 1)
        self._places["leaf", leaf.name] = _scalar_place(word, dtype)
        self._scalars.append(_ScalarLeaf(index, word, leaf, dtype))

    def set_handle(self, loop: int, handle: int, form: Form = "plain") -> None:
        """The handle of conditional node ``loop`` in one of the graphs; before its kernels are added."""
        struct.pack_into("=Q", self._bytes, self._handle_words[form, loop] * _WORD, handle)

    def set_early(self, kernel: FollowedKernel, early: bool) -> None:
        """Whether the kernels behind ``kernel`` may start beside it."""
        self.changed |= kernel.bit
        if kernel.form != "plain" and kernel.index in self._guards:
            # Those behind a leader look at the guard before they wait, so it must have waited for whoever writes it. In a chain
            # of all copies of a counted loop only the next kernel shall take room. Where copies have arrays of their own, some
            # are loaded as constants, by a cache that perhaps only the start of a kernel clears: it comes behind their writer.
            # So it does where results are handed on.
            unrolling = self._guards[kernel.index]
            arrays = unrolling.arrays if unrolling.handed is None else unrolling.handed.arrays
            own = unrolling.counted is not None or bool(arrays) or bool(kernel.code.handed)
            late = own or kernel.index in unrolling.leaders
        else:
            late = kernel.index % _AHEAD == 0 and kernel.index not in self._behind
        what = (TRIGGERS_LATER if late else TRIGGERS_FIRST) if early else 0
        what |= WAITS_LAST if kernel.index in self._behind else 0
        self._integers[self._early_words[kernel.form][kernel.index]] = what

    def set_parts(self, index: int, blocks: int) -> None:
        """How many blocks kernel ``index`` has, which hands its results on."""
        word = self._parts_words[index]
        if self._integers[word] != blocks:
            self.changed |= self._parts_users[index]
            self._integers[word] = blocks

    def set_row(self, behind: Set[int]) -> None:
        """The kernels ``behind``, by their indices, wait when they are done, and no others; none lets others start, for now."""
        self._behind = behind
        for index, word in enumerate(self._early_words["plain"]):
            self._integers[word] = WAITS_LAST if index in behind else 0

    def bind(
        self, index: int, bit: int, code: TaskCode, loop: int | None, copy: int | None = None, form: Form = "plain"
    ) -> tuple[Any, list[int]]:
        """The parameters of node ``index``, the kernel with mask ``bit``: an array of pointers to them, and their sizes.

        ``loop`` is the conditional node whose handle the task gets, None for handle 0. ``copy`` is the number of the copy, if
        it is one, in the graph ``form``. The pointers are valid as long as this object and the array live.
        """
        unrolling = self._guards.get(index)
        place = 0 if copy is None or unrolling is None else copy if unrolling.counted is None else unrolling.place(copy)
        parts = [
            part
            for parameter in code.parameters
            for part in (
                self._leaf(bit, code.leaf_of(parameter.name, place))
                if parameter.kind == "leaf"
                else self._parts(index, bit, parameter, loop, copy, form)
            )
        ]
        kept = self._kept.get(code.entry)
        parts = parts if kept is None else [parts[number] for number in kept]
        pointers = (ctypes.c_void_p * max(1, len(parts)))(*(self._base + offset for offset, _size in parts))
        return pointers, [size for _offset, size in parts]

    def _parts(
        self, index: int, bit: int, parameter: Parameter, loop: int | None, copy: int | None, form: Form
    ) -> tuple[tuple[int, int], ...]:
        if parameter.kind == "early":
            return _half_place(self._early_words[form][index]).parts
        if parameter.kind == "handle":
            return (self._zero if loop is None else _word_place(self._handle_words[form, loop])).parts
        if parameter.kind == "whole":
            whole = loop if form == "large" else None
            return (self._zero if whole is None else _word_place(self._handle_words["whole", whole])).parts
        if parameter.kind == "parts":
            handed = self._guards[index].handed
            assert handed is not None
            # The kernel behind all copies combines what the last one left, and goes by the number of the deciding one.
            ending = copy == self._guards[index].copies
            before = handed.nodes[-1 if ending else handed.nodes.index(index) - 1]
            self._parts_users[before] |= bit
            return _half_place(self._parts_words[before]).parts
        if parameter.kind in _GUARDING:
            word = self._guard_words[self._guards[index].node, copy] + _GUARDING.index(parameter.kind)
            return (_word_place(word) if parameter.kind == "next" else _half_place(word)).parts
        if parameter.kind in ("slots", "faults", "turns"):
            return self._places[parameter.kind, parameter.name].parts
        assert parameter.kind == "host"
        self._host_users[self._host_index[parameter.name]] |= bit
        return self._places["host", parameter.name].parts

    def _leaf(self, bit: int, name: str) -> tuple[tuple[int, int], ...]:
        self._leaf_users[name].users |= bit
        return self._places["leaf", name].parts

    def update_host(self, host: tuple[int, ...]) -> None:
        """Write the host values that changed."""
        # Until all are written, they are unknown: an interrupt must not leave a new one where the old one is believed to be.
        old, self.host = self.host or (None,) * len(host), ()
        for index, value in enumerate(host):
            if value != old[index]:
                self._integers[self._host_words[index]] = value
                self.changed |= self._host_users[index]
        self.host = host

    def update(self, values: tuple[Any, ...]) -> None:
        """Write the leaves that changed.

        Raises:
            ArgumentError: a number or a shape does not fit.
            NeedsIndex64: an array is too large for this code.
            NeedsOwnExtents: the shapes of arrays differ that are one to this code.
        """
        for array in self._arrays:
            view = values[array.index]
            if view.shape != array.shape or view.strides != array.strides:
                self._write_array(array, view)
            elif view.pointer != array.pointer:
                self.changed |= array.users
                self._integers[array.data] = array.pointer = view.pointer
        if self._reshaped:
            if any(len({values[index].shape for index in group}) > 1 for group in self._equal):
                raise NeedsOwnExtents("arrays have different shapes that had the same one in the first call")
            self._reshaped = False
        for scalar in self._scalars:
            value = values[scalar.index]
            if value is not scalar.value:
                self._write_scalar(scalar, value)

    def _write_scalar(self, scalar: _ScalarLeaf, value: Any) -> None:
        try:
            packed = scalar.encode(value)
        except struct.error as error:
            found = f"{scalar.leaf.path} is {value!r}, which does not fit {scalar.leaf.type}"
            raise ArgumentError(found) from error
        # Bytes, not values: -0.0 equals 0.0, and NaN equals nothing.
        if packed != scalar.last:
            self.changed |= scalar.users
            self._bytes[scalar.offset : scalar.offset + len(packed)] = packed
            scalar.last = packed
        scalar.value = value

    def _write_array(self, array: _ArrayLeaf, view: ArrayView) -> None:
        # The mask first, here and everywhere: should anything interrupt, the next launch patches the kernels.
        self.changed |= array.users
        shape, strides, pointer = view.shape, view.strides, view.pointer
        if len(shape) > 1 and max(shape) >= U32_LIMIT:
            found = f"{array.path} has the shape {shape}, and on cuda extents of several dimensions are below {U32_LIMIT}"
            raise ArgumentError(found, hint="pass an array of one dimension, or parts of it")
        head = (0, 0, math.prod(shape), view.dtype.itemsize, pointer)
        # Unknown, should an interrupt come before they are noted.
        array.shape = None
        self._reshaped = True
        if len(shape) > 1 and head[2] >= _INDEX64_FROM and not self._index64:
            raise NeedsIndex64(f"{array.path} has {head[2]} elements")
        array.layout.pack_into(self._bytes, array.offset, *head, *shape, *strides)
        array.pointer, array.shape, array.strides = pointer, shape, strides

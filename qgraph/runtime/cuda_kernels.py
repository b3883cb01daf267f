"""Compiled code on the device, and the parameters of its kernels in the layout of numba-cuda's entry points.

Every argument of a call is stored once, in one block of 8-byte words that stays at its address; each kernel has an array of
pointers to the words it takes. So a changed argument is written once, whatever the number of kernels that read it.
"""

from __future__ import annotations

import copy
import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qgraph.compiled import REDUCTION_BLOCK, SEVERAL, WARP, CudaPlan, Parameter, TaskCode, slots_dtype
from qgraph.errors import ArgumentError, CudaError
from qgraph.language import SHORT_LIMIT
from qgraph.plan import UNROLLED, Form, Unrolling
from qgraph.program import FAULT_WORDS, FAULTS, MAX_PARTIALS, TURNS, ArrayType, Leaf, ScalarType, itemsize
from qgraph.runtime.array_view import ArrayView
from qgraph.runtime.cuda_driver import DeviceContext, FarArrays, call, driver, outside_captures
from qgraph.runtime.formats import FORMATS
from qgraph.runtime.launch_shapes import MAX_GRID, MAX_GRID_DOWN, Shape, by_lanes, by_rows, in_tiles

DEFAULT_BLOCK_SIZE = 256
_WORD = 8
# One kernel in so many lets those behind it start only when it has waited itself: else all of a long chain would soon be on the
# device, and on an H200 a node of 100 then took 0.66 us in place of 0.58.
_AHEAD = 8
# The parameters that tell a kernel in an unrolled body which copy it is in.
_GUARDING = ("guard", "next", "copy", "peeks")
# Grids of so many blocks may be on the device beside others, and then look before they wait whether they have anything to do.
_PEEKS = 1024
_RESIDENT_THREADS = 2048  # of one multiprocessor, at most
_MAX_THREADS_PER_BLOCK = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

# Elements from which on an array of several dimensions is far (``CudaPlan``).
_FAR = SHORT_LIMIT

# Words of an array before its shape: meminfo and parent (always 0), number of elements, itemsize, address.
_SIZE = 2
_DATA = 4
_SHAPE = 5


# --- code --------------------------------------------------------------------------------------------------------------


class LoadedCode:
    """A cubin in the device's context. The context must be current for every method."""

    __slots__ = ("_library",)

    def __init__(self, cubin: bytes) -> None:
        with outside_captures():
            self._library = call(driver.cuLibraryLoadData, cubin, [], [], 0, [], [], 0)

    def function(self, entry: str) -> Any:
        """The function (CUfunction) that runs ``entry`` in the current context."""
        kernel = call(driver.cuLibraryGetKernel, self._library, entry.encode())
        return call(driver.cuKernelGetFunction, kernel)

    def unload(self) -> None:
        """Take the code off the device. No kernel of it may be running."""
        with outside_captures():
            call(driver.cuLibraryUnload, self._library)


def occupancy_grid(function: Any, block: int, device: DeviceContext) -> int:
    """How many blocks of ``block`` threads fit on the device at once; at least 1."""
    blocks = call(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, function, block, 0)
    return max(1, int(blocks) * device.multiprocessors)


def verify_layout(function: Any, entry: str, sizes: Sequence[int]) -> None:
    """Compare the parameters we pass with those the code was compiled for, where the driver (12.4 or newer) can tell.

    Raises:
        CudaError: number or sizes differ, so that a launch would read wrong memory.
    """
    found = []
    try:
        for index in range(len(sizes) + 1):
            code, _offset, size = driver.cuFuncGetParamInfo(function, index)
            if int(code) != 0:
                break
            found.append(int(size))
    except RuntimeError:  # an older driver lacks the function
        return
    if found != list(sizes):
        raise CudaError(
            f"the kernel {entry} takes parameters of {found} bytes, but would be passed {list(sizes)}",
            hint="this numba-cuda has another calling convention than the one qgraph knows; report the versions",
        )


# --- parameters --------------------------------------------------------------------------------------------------------


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
        self._far = plan.far
        self._float_type = program.float_type
        self._places: dict[tuple[str, str], _Place] = {}
        self._arrays: list[_ArrayLeaf] = []
        self._scalars: list[_ScalarLeaf] = []
        self._used = 0
        leaves = program.arrays_and_scalars
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
        self._words = (ctypes.c_int64 * self._used)()
        self._base = ctypes.addressof(self._words)
        self._bytes = memoryview(self._words).cast("B")
        self._integers = self._bytes.cast("q")
        self._leaf_users: dict[str, _ArrayLeaf | _ScalarLeaf] = {}
        self._leaf_users.update({leaves[array.index].name: array for array in self._arrays})
        self._leaf_users.update({scalar.leaf.name: scalar for scalar in self._scalars})
        self.changed = 0
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

    def set_early(self, kernel: KernelNode, early: bool) -> None:
        """Whether the kernels that wait for ``kernel`` may start beside it."""
        self.changed |= kernel.bit
        if kernel.form != "plain" and kernel.index in self._guards:
            # Those behind a leader look at the guard before they wait, so it must have waited for whoever writes it. In a chain
            # of all copies of a counted loop only the next kernel shall take room.
            unrolling = self._guards[kernel.index]
            late = unrolling.counted is not None or kernel.index in unrolling.leaders
        else:
            late = kernel.index % _AHEAD == 0
        self._integers[self._early_words[kernel.form][kernel.index]] = (2 if late else 1) if early else 0

    def bind(
        self, index: int, bit: int, code: TaskCode, loop: int | None, copy: int | None = None, form: Form = "plain"
    ) -> tuple[Any, list[int]]:
        """The parameters of node ``index``, the kernel with mask ``bit``: an array of pointers to them, and their sizes.

        ``loop`` is the conditional node whose handle the task gets, None for handle 0. ``copy`` is the number of the copy, if
        it is one, in the graph ``form``. The pointers are valid as long as this object and the array live.
        """
        place = 0 if copy is None or index not in self._guards else self._guards[index].place(copy)
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
            FarArrays: an array is too large for this code.
        """
        for array in self._arrays:
            view = values[array.index]
            if view.shape != array.shape or view.strides != array.strides:
                self._write_array(array, view)
            elif view.pointer != array.pointer:
                self.changed |= array.users
                self._integers[array.data] = array.pointer = view.pointer
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
        if len(shape) > 1 and max(shape) >= SHORT_LIMIT:
            found = f"{array.path} has the shape {shape}, and on cuda extents of several dimensions are below {SHORT_LIMIT}"
            raise ArgumentError(found, hint="pass an array of one dimension, or parts of it")
        head = (0, 0, math.prod(shape), view.dtype.itemsize, pointer)
        # Unknown, should an interrupt come before they are noted.
        array.shape = None
        if len(shape) > 1 and head[2] >= _FAR and not self._far:
            raise FarArrays(f"{array.path} has {head[2]} elements")
        array.layout.pack_into(self._bytes, array.offset, *head, *shape, *strides)
        array.pointer, array.shape, array.strides = pointer, shape, strides


# --- kernels -----------------------------------------------------------------------------------------------------------


class KernelNode:
    """One kernel of an executable: its function, launch shape and parameters, and where it lives once it is in a graph.

    ``bit`` is its place in ``Parameters.changed``. ``executable`` and ``handle`` are the CUgraphExec it can be patched in
    and its CUgraphNode; both None for a kernel that is launched on a stream. ``copy`` is the number of the copy that it is,
    None for a node itself, and ``form`` the graph in which it is.
    """

    __slots__ = (
        *("_counts", "_inside", "_loop", "_many", "_most", "_resident", "bit", "block", "code", "copy", "early", "executable"),
        *("form", "function", "handle", "index", "launch", "pointers", "shape"),
    )

    def __init__(self, index: int, code: TaskCode, bit: int, loop: int | None, setting: KernelSetting) -> None:
        self.index = index
        self.code = code
        self.bit = bit
        self.copy: int | None = None
        self.form: Form = "plain"
        self._loop = loop
        self.function = setting.code.function(code.entry)
        self.pointers, sizes = setting.parameters.bind(index, bit, code, loop)
        verify_layout(self.function, code.entry, sizes)
        self.block = 1 if code.single else setting.block(self.function)
        self.block = min(self.block, REDUCTION_BLOCK) if code.reduces else self.block
        # As many blocks as run at once: the grid of loops that stride over what only the device can count, and of reductions.
        self._resident = occupancy_grid(self.function, self.block, setting.device)
        self._most = 1 if code.single else self._resident
        self._most = min(self._most, MAX_PARTIALS) if code.reduces else self._most
        self.shape = Shape(self._most if code.on_device else 1, self.block)
        # For each loop of the kernel, the host values that make its extent.
        self._counts = tuple(tuple(setting.host_index[name] for name in names) for names in code.counts)
        self._inside = setting.host_index[code.lanes] if code.lanes else None
        # From here on each thread of a light loop has several iterations: the device stays full.
        self._many = setting.device.multiprocessors * _RESIDENT_THREADS * SEVERAL
        # What the parameter of this meaning is.
        self.early = False
        self.executable: Any = None
        self.handle: Any = None
        self._make_launch()

    def _make_launch(self) -> None:
        self.launch = driver.CUDA_KERNEL_NODE_PARAMS()
        self.launch.func = self.function
        self.launch.blockDimZ = 1
        self.take_shape(self.shape)
        self.launch.kernelParams = ctypes.addressof(self.pointers)

    def copied(self, number: int, parameters: Parameters, form: Form = "many") -> KernelNode:
        """The same kernel as copy ``number`` of the body of a loop: with the handle, the guard and the arrays of that copy."""
        made = copy.copy(self)
        made.copy, made.form, made.early, made.executable, made.handle = number, form, False, None, None
        made.pointers, _sizes = parameters.bind(self.index, self.bit, self.code, self._loop, number, form)
        made._make_launch()
        return made

    @property
    def share(self) -> float:
        """How much of the device its blocks fill, if all are to run at once."""
        return self.shape.all_blocks / self._resident

    @property
    def sized(self) -> bool:
        """Whether the grid depends on host values."""
        return bool(self._counts)

    def shape_for(self, host: tuple[int, ...]) -> Shape:
        """The blocks that cover all threads: at least 1, since an empty loop's kernel still runs, and returns at once.

        Raises:
            ArgumentError: there are more than CUDA can launch.
        """
        extents = [math.prod(host[index] for index in counts) for counts in self._counts]
        threads = extents[0] if len(extents) == 1 else sum(-(-extent // WARP) * WARP for extent in extents)
        # Fewer blocks have fewer partial results to combine.
        several = self.code.several and (self.code.reduces or threads >= self._many)
        if self.code.plane:
            return self._over_plane([host[index] for index in self._counts[0]], SEVERAL if several else 1)
        if self._inside is not None:
            return self._checked(by_lanes(max(threads, 1), host[self._inside], self.block), threads)
        share = self.block * SEVERAL if several else self.block
        grid = -(-threads // share) if threads > 0 else 1
        if self.code.reduces:
            return Shape(min(grid, self._most), self.block)
        return self._checked(Shape(grid, self.block), threads)

    def _checked(self, shape: Shape, threads: int) -> Shape:
        if shape.blocks > MAX_GRID:
            raise self._too_long(f"this loop has {threads} iterations, and a launch holds {MAX_GRID * self.block}")
        return shape

    def _over_plane(self, extents: Sequence[int], share: int) -> Shape:
        shape = in_tiles(extents, self.block) if self.code.plane == "tiles" else by_rows(extents, self.block, share)
        if max(extents) >= SHORT_LIMIT:
            raise self._too_long(f"an axis of this loop has {max(extents)} iterations, and may have {SHORT_LIMIT - 1}")
        if shape.blocks > MAX_GRID or shape.times > MAX_GRID_DOWN:
            raise self._too_long(f"this loop has {math.prod(extents)} iterations, more than a launch holds")
        return shape

    def _too_long(self, found: str) -> ArgumentError:
        return ArgumentError(found, self.code.task.span, hint="split the loop, or raise block_size")

    def take_shape(self, shape: Shape) -> None:
        """Take a shape from ``shape_for``."""
        self.launch.gridDimX, self.launch.gridDimY, self.launch.gridDimZ = shape.blocks, shape.blocks_down, shape.times
        self.launch.blockDimX, self.launch.blockDimY = shape.threads, shape.threads_down
        self.shape = shape


@dataclass(frozen=True, slots=True)
class KernelSetting:
    """What the kernels of one executable share: their code, their parameters, and how launch shapes are chosen."""

    code: LoadedCode
    parameters: Parameters
    device: DeviceContext
    block_size: int | None
    host_index: Mapping[str, int]

    def block(self, function: Any) -> int:
        """Threads in a block: what was asked for, else 256; fewer if the kernel's registers do not allow it."""
        attribute = driver.CUfunction_attribute(_MAX_THREADS_PER_BLOCK)
        most = int(call(driver.cuFuncGetAttribute, attribute, function))
        return min(self.block_size or DEFAULT_BLOCK_SIZE, most)

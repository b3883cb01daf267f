"""Compiled code on the device, and its kernels: functions, launch shapes, and where they lie in graphs."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

from qgraph.errors import ArgumentError, CudaError
from qgraph.ir.artifacts import COARSENING, REDUCTION_BLOCK, WARP, TaskCode
from qgraph.ir.program import MAX_PARTIALS
from qgraph.ir.unrolling import Form
from qgraph.operations.intrinsics import U32_LIMIT
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import DeviceContext, call, driver, failure, outside_captures
from qgraph.runtime.graph.kernel_parameters import Parameters
from qgraph.runtime.graph.launch_shapes import (
    MAX_GRID,
    MAX_GRID_DOWN,
    Shape,
    by_rows,
    in_tiles,
    one_block_each,
    resident,
    resident_rows,
    threads_per_row,
)

DEFAULT_BLOCK_SIZE = 256
_RESIDENT_THREADS = 2048  # of one multiprocessor, at most
_INVALID_VALUE = 1  # CUDA_ERROR_INVALID_VALUE
_MAX_THREADS_PER_BLOCK = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


# --- code --------------------------------------------------------------------------------------------------------------


class LoadedCode:
    """A cubin in the device's context. The context must be current for every method."""

    __slots__ = ("_library",)

    def __init__(self, cubin: bytes) -> None:
        self._library: Any = None
        try:
            with outside_captures():
                self._library = call(driver.cuLibraryLoadData, cubin, [], [], 0, [], [], 0)
        except BaseException:
            # It was loaded, and the end of `with` failed: nobody else will ever know of it.
            if self._library is not None:
                self.unload()
            raise

    def function(self, entry: str) -> Any:
        """The function (CUfunction) that runs ``entry`` in the current context."""
        kernel = call(driver.cuLibraryGetKernel, self._library, entry.encode())
        return call(driver.cuKernelGetFunction, kernel)

    def unload(self) -> None:
        """Take the code off the device. No kernel of it may be running."""
        with outside_captures():
            call(driver.cuLibraryUnload, self._library)


def occupancy_grid(function: Any, block: int, device: DeviceContext, shared: int = 0) -> int:
    """How many blocks of ``block`` threads, which ask for ``shared`` bytes, fit on the device at once; at least 1."""
    blocks = call(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, function, block, shared)
    return max(1, int(blocks) * device.multiprocessors)


def verify_layout(function: Any, entry: str, sizes: Sequence[int]) -> None:
    """Compare the parameters we pass with those the code was compiled for, where the driver (12.4 or newer) can tell.

    Raises:
        CudaError: number or sizes differ, so that a launch would read wrong memory; or the driver refused to tell.
    """
    found = []
    try:
        for index in range(len(sizes) + 1):
            code, _offset, size = driver.cuFuncGetParamInfo(function, index)
            if int(code) == _INVALID_VALUE:  # there are no more
                break
            if int(code) != 0:
                raise failure(code, "cuFuncGetParamInfo")
            found.append(int(size))
    except RuntimeError:  # an older driver lacks the function
        return
    if found != list(sizes):
        raise CudaError(
            f"the kernel {entry} takes parameters of {found} bytes, but would be passed {list(sizes)}",
            hint="this numba-cuda has another calling convention than the one qgraph knows; report the versions",
        )


# --- kernels -----------------------------------------------------------------------------------------------------------


class KernelNode:
    """One kernel of an executable: its function, launch shape and parameters, and where it lives once it is in a graph.

    ``bit`` is its place in ``Parameters.changed``, ``loop`` the conditional node whose handle it gets. ``executable`` and
    ``handle`` are the CUgraphExec it can be patched in and its CUgraphNode; both None for a kernel that is launched on a
    stream. ``copy`` is the number of the copy that it is, None for a node itself, and ``form`` the graph in which it is.
    """

    __slots__ = (
        *("_counts", "_inside", "_many", "_most", "_multiprocessors", "_resident", "_widest", "bit", "block", "code"),
        *("copy", "early", "executable", "form", "function", "handle", "index", "launch", "loop", "pointers", "shape"),
    )

    def __init__(self, index: int, code: TaskCode, bit: int, loop: int | None, setting: KernelContext) -> None:
        self.index = index
        self.code = code
        self.bit = bit
        self.copy: int | None = None
        self.form: Form = "plain"
        self.loop = loop
        self.function = setting.code.function(code.entry)
        self.pointers, sizes = setting.parameters.bind(index, bit, code, loop)
        verify_layout(self.function, code.entry, sizes)
        self.block = 1 if code.single else setting.block(self.function)
        if code.task.block is not None:
            self.block = math.prod(code.task.block.threads)
        if code.shared:
            attribute = driver.CUfunction_attribute(_MAX_DYNAMIC_SHARED)
            call(driver.cuFuncSetAttribute, self.function, attribute, code.shared)
        self.block = min(self.block, REDUCTION_BLOCK) if code.reduces else self.block
        # Shuffles ask all threads of a warp.
        self.block = max(self.block // WARP, 1) * WARP if code.reduces and (code.task.reductions or code.handed) else self.block
        # As many blocks as run at once: the grid of loops that stride over what only the device can count, and of reductions.
        self._resident = occupancy_grid(self.function, self.block, setting.device, code.shared)
        self._most = 1 if code.single else self._resident
        self._most = min(self._most, MAX_PARTIALS) if code.reduces else self._most
        self.shape = Shape(self._most if code.on_device else 1, self.block)
        # For each loop of the kernel, the host values that make its extent.
        self._counts = tuple(tuple(setting.host_index[name] for name in names) for names in code.counts)
        self._inside = setting.host_index[code.lanes] if code.lanes else None
        # A user's size of blocks is meant.
        self._widest = (self.block if setting.block_size else setting.most_threads(self.function)) if code.lanes else 0
        # From here on each thread of a light loop has several iterations: the device stays full.
        self._multiprocessors = setting.device.multiprocessors
        self._many = self._multiprocessors * _RESIDENT_THREADS * COARSENING
        # What the parameter of this meaning is.
        self.early = False
        self.executable: Any = None
        self.handle: Any = None
        self._make_launch()

    def _make_launch(self) -> None:
        self.launch = driver.CUDA_KERNEL_NODE_PARAMS()
        self.launch.func = self.function
        self.launch.blockDimZ = 1
        self.launch.sharedMemBytes = self.code.shared
        self.take_shape(self.shape)
        self.launch.kernelParams = ctypes.addressof(self.pointers)

    def copied(self, number: int, parameters: Parameters, form: Form = "many") -> KernelNode:
        """The same kernel as copy ``number`` of the body of a loop: with the handle, the guard and the arrays of that copy."""
        made = copy.copy(self)
        made.copy, made.form, made.early, made.executable, made.handle = number, form, False, None, None
        made.pointers, _sizes = parameters.bind(self.index, self.bit, self.code, self.loop, number, form)
        made._make_launch()
        return made

    @property
    def share(self) -> float:
        """How much of the device its blocks fill, if all are to run at once."""
        return self.shape.all_blocks / self._resident

    @property
    def sized(self) -> bool:
        """Whether the grid depends on host values."""
        return bool(self._counts) or self._inside is not None

    def shape_for(self, host: tuple[int, ...]) -> Shape:
        """The blocks that cover all threads: at least 1, since an empty loop's kernel still runs, and returns at once.

        Raises:
            ArgumentError: there are more than CUDA can launch.
        """
        if self.code.on_device:
            assert self._inside is not None
            # As many lanes as the loop inside has use for.
            return threads_per_row(1, host[self._inside], self.block)._replace(blocks=self._most)
        extents = [math.prod(host[index] for index in counts) for counts in self._counts]
        threads = extents[0] if len(extents) == 1 else sum(-(-extent // WARP) * WARP for extent in extents)
        if self.code.reduces:
            return self._reducing(threads, host)
        several = self.code.several and threads >= (self._many // 2 if self.code.jammed else self._many)
        if self.code.plane:
            return self._over_plane([host[index] for index in self._counts[0]], several=several)
        if self._inside is not None:
            enough = self._resident * self.block
            few = self.code.broadcast and threads * WARP <= enough // 2
            lanes = WARP if few else self.code.most_lanes or WARP
            most = enough if self.code.broadcast else None
            inside = host[self._inside]
            shape = threads_per_row(max(threads, 1), inside, self.block, lanes, most, enough, self._widest)
            return self._checked(shape, threads)
        share = self.block * COARSENING if several else self.block
        grid = -(-threads // share) if threads > 0 else 1
        return self._checked(Shape(grid, self.block), threads)

    def _reducing(self, threads: int, host: tuple[int, ...]) -> Shape:
        """Blocks that all run at once, and stride."""
        most = min(self._most_blocks(threads), self._most)
        together = COARSENING if self.code.several else 1
        if not self.code.plane:
            blocks = max(-(-threads // self.block), 1)
            most = resident(blocks, most, together, self._multiprocessors) if self.code.several else min(blocks, most)
            return Shape(most, self.block)
        extents = [host[index] for index in self._counts[0]]
        self._check_axes(extents)
        return resident_rows(extents, self.block, most, together, self._multiprocessors, stores=self.code.stores)

    def _most_blocks(self, threads: int) -> int:
        """The most blocks of a loop that combines values: while it is short, half of those that there is room for.

        The next kernel can start beside them, and there are fewer results to combine, as long as a thread needs no more
        iterations than it loads at once.
        """
        if not self.code.several:
            return self._most
        if threads <= self.block * COARSENING:
            return 1
        half = max(self._resident // 2, 1)
        return half if threads <= half * self.block * COARSENING else self._most

    def _checked(self, shape: Shape, threads: int) -> Shape:
        if shape.blocks > MAX_GRID:
            raise self._too_long(f"this loop has {threads} iterations, and a launch holds {MAX_GRID * self.block}")
        return shape

    def _over_plane(self, extents: Sequence[int], *, several: bool) -> Shape:
        if self.code.plane == "blocks":
            assert self.code.task.block is not None
            shape = one_block_each(extents, self.code.task.block.threads)
        elif self.code.plane == "tiles":
            shape = in_tiles(extents, self.block)
        else:
            shape = by_rows(extents, self.block, *self.code.share(several=several))
        self._check_axes(extents)
        if shape.blocks > MAX_GRID or shape.times > MAX_GRID_DOWN:
            raise self._too_long(f"this loop has {math.prod(extents)} iterations, more than a launch holds")
        return shape

    def _check_axes(self, extents: Sequence[int]) -> None:
        if max(extents) >= U32_LIMIT:
            raise self._too_long(f"an axis of this loop has {max(extents)} iterations, and may have {U32_LIMIT - 1}")

    def _too_long(self, found: str) -> ArgumentError:
        return ArgumentError(found, self.code.task.span, hint="split the loop, or raise block_size")

    def take_shape(self, shape: Shape) -> None:
        """Take a shape from ``shape_for``."""
        self.launch.gridDimX, self.launch.gridDimY, self.launch.gridDimZ = shape.blocks, shape.blocks_down, shape.times
        self.launch.blockDimX, self.launch.blockDimY = shape.threads, shape.threads_down
        self.shape = shape


@dataclass(frozen=True, slots=True)
class KernelContext:
    """What the kernels of one executable share: their code, their parameters, and how launch shapes are chosen."""

    code: LoadedCode
    parameters: Parameters
    device: DeviceContext
    block_size: int | None
    host_index: Mapping[str, int]

    def block(self, function: Any) -> int:
        """Threads in a block: what was asked for, else 256; fewer if the kernel's registers do not allow it."""
        return min(self.block_size or DEFAULT_BLOCK_SIZE, self.most_threads(function))

    def most_threads(self, function: Any) -> int:
        """The most threads that a block of this kernel can have."""
        return int(call(driver.cuFuncGetAttribute, driver.CUfunction_attribute(_MAX_THREADS_PER_BLOCK), function))

"""SIMT interpreter of a simulated kernel: each thread of a block runs to its next barrier, then the next thread does.

Numba's simulator has a Python thread for each, and asks all of them again and again whether they wait. That is slower.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from qgraph.ir.artifacts import WARP
from qgraph.ir.trees import call_of
from qgraph.operations import intrinsics
from qgraph.records import dataclass

# Along x, or along x, y and z.
Extents = int | tuple[int, ...]
# A block of the simulator is one warp.
_BARRIERS = ("syncthreads", "syncthreads_or", "syncwarp")


@dataclass(frozen=True, slots=True)
class _Index:
    x: int
    y: int = 1
    z: int = 1


class _Local:
    """What each thread has alone."""

    array = staticmethod(np.empty)


class Threads:
    """What a kernel finds as ``cuda``: the place of the thread that runs now, and the shared memory of its block.

    The barriers are not here: ``Barriers`` has made them places where the kernel, a generator, pauses.
    """

    def __init__(self) -> None:
        self.gridDim, self.blockDim, self.blockIdx, self.threadIdx = _Index(1), _Index(1), _Index(0, 0, 0), _Index(0, 0, 0)
        self._shared: list[np.ndarray] = []
        # How many shared arrays each thread of the block has asked for: all ask in one order.
        self._asked: Counter[_Index] = Counter()

    @property
    def shared(self) -> Threads:
        """As ``numba.cuda.shared``."""
        return self

    def array(self, shape: int, dtype: Any, _alignment: int = 0) -> np.ndarray:
        """As ``numba.cuda.shared.array``: the same for every thread of the block."""
        number = self._asked[self.threadIdx]
        self._asked[self.threadIdx] += 1
        if number == len(self._shared):
            self._shared.append(np.empty(shape, dtype))
        return self._shared[number]

    @property
    def local(self) -> type[_Local]:
        """As ``numba.cuda.local``."""
        return _Local

    def grid(self, axes: int) -> int | tuple[int, int]:
        """As ``numba.cuda.grid``."""
        x = self.blockIdx.x * self.blockDim.x + self.threadIdx.x
        return x if axes == 1 else (x, self.blockIdx.y * self.blockDim.y + self.threadIdx.y)

    def gridsize(self, axes: int) -> int | tuple[int, int]:
        """As ``numba.cuda.gridsize``."""
        x = self.gridDim.x * self.blockDim.x
        return x if axes == 1 else (x, self.gridDim.y * self.blockDim.y)

    def threadfence(self) -> None:
        """As ``numba.cuda.threadfence``: one thread runs at a time."""

    def run(self, function: Callable[..., Any], grid: Extents, block: Extents, arguments: Sequence[Any]) -> None:
        """All blocks of a kernel, one after another."""
        self.gridDim, self.blockDim = _index(grid), _index(block)
        lanes = _places(self.blockDim)
        # The caller's way with floating-point errors is not the kernel's.
        with np.errstate(all="ignore"):
            for block_index in _places(self.gridDim):
                self.blockIdx, self._shared, self._asked = block_index, [], Counter()
                if inspect.isgeneratorfunction(function):
                    self._take_turns({lane: function(*arguments) for lane in lanes})
                    continue
                for lane in lanes:
                    self.threadIdx = lane
                    function(*arguments)

    def _take_turns(self, waiting: dict[_Index, Generator[tuple[int, Any], Any, None]]) -> None:
        answers: dict[_Index, Any] = dict.fromkeys(waiting)
        while waiting:
            said: dict[_Index, tuple[int, Any]] = {}
            for lane, thread in waiting.items():
                self.threadIdx = lane
                try:
                    said[lane] = thread.send(answers[lane])
                except StopIteration:
                    continue
            assert len({barrier for barrier, _ in said.values()}) <= 1, "threads of one block wait at different barriers"
            waiting = {lane: waiting[lane] for lane in said}
            answers = self._answers({lane: told for lane, (_, told) in said.items()})

    def _answers(self, said: Mapping[_Index, Any]) -> dict[_Index, Any]:
        """What each thread is told at a barrier: how all have voted, or what another one has."""
        if not any(isinstance(told, _Shuffled) for told in said.values()):
            return dict.fromkeys(said, int(any(said.values())))
        numbers = {lane.x + lane.y * self.blockDim.x: told for lane, told in said.items()}
        # A shuffle asks all threads of a warp, which a block of the simulator stands for.
        assert len(numbers) == self.blockDim.x * self.blockDim.y, "a thread has left before a shuffle"
        return {lane: numbers[told.wanted(lane.x + lane.y * self.blockDim.x)].value for lane, told in said.items()}


@dataclass(frozen=True, slots=True)
class _Shuffled:
    """What a thread shows in a shuffle, and how far away the one is whose value it wants."""

    value: Any
    offset: int

    def wanted(self, thread: int) -> int:
        """The number of that thread, for the one with the number ``thread``."""
        return thread ^ self.offset


@dataclass(frozen=True, slots=True)
class _OfWarp(_Shuffled):
    """The same where it wants that of the first thread of a warp."""

    def wanted(self, thread: int) -> int:
        """The number of that thread."""
        return self.offset * WARP


@dataclass(frozen=True, slots=True)
class _OfLane(_Shuffled):
    """The same where it wants that of a lane of its warp."""

    def wanted(self, thread: int) -> int:
        """The number of that thread."""
        return thread // WARP * WARP + int(self.offset) % WARP


def _index(extents: Extents) -> _Index:
    return _Index(extents) if isinstance(extents, int) else _Index(*extents)


def _places(extents: _Index) -> list[_Index]:
    return [_Index(x, y, z) for z in range(extents.z) for y in range(extents.y) for x in range(extents.x)]


class Barriers(ast.NodeTransformer):
    """Calls of the barriers of ``cuda``, by whatever name, to ``yield barrier, vote``: what that gives is what all voted.

    Those of ``intrinsics.across``, ``of_lane`` and ``across_warps`` to ``yield barrier, shown``, which gives what the other one
    has shown.
    """

    NAMES: ClassVar[dict[str, object]] = {
        "_qgraph_shown": _Shuffled,
        "_qgraph_shown_to_warps": _OfWarp,
        "_qgraph_shown_to_lanes": _OfLane,
    }
    _WORDS = (intrinsics.across, intrinsics.across_warps, intrinsics.of_lane)

    def __init__(self, cuda: object, names: Mapping[str, object]) -> None:
        self._modules = {name for name, value in names.items() if value is cuda}
        words = list(zip(self._WORDS, self.NAMES, strict=True))
        self._shown = {name: shown for name, value in names.items() for word, shown in words if value is word}
        self._count = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A barrier to a pause; anything else as it is."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(ast.Name(module), name) if module in self._modules and name in _BARRIERS:
                return self._pause(node, node.args[0] if node.args else ast.Constant(0))
            case ast.Name(name) if name in self._shown:
                value, *_, other = node.args
                return self._pause(node, call_of(self._shown[name], value, other))
        return node

    def _pause(self, node: ast.Call, told: ast.expr) -> ast.expr:
        self._count += 1
        said = ast.Tuple([ast.Constant(self._count), told], ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Yield(said), node))

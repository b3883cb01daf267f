"""Runs a SimulatorPlan: the CUDA kernels in plain Python, one simulated thread at a time, driven by the host."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from qgraph import forks
from qgraph.ir.artifacts import COARSENING, WARP, Parameter, SimulatorPlan, TaskCode, slots_dtype
from qgraph.ir.program import Branch, Loop
from qgraph.nodes.kind import Readers, kind_of
from qgraph.records import dataclass
from qgraph.runtime.graph.launch_shapes import Shape, by_rows, in_tiles, one_block_each, resident_rows, threads_per_row
from qgraph.runtime.values.array_view import ArrayView, view_of_host
from qgraph.runtime.values.deferred_errors import FaultReader
from qgraph.runtime.values.prepared_call import Call
from qgraph.runtime.values.results import ResultReader, reader_of
from qgraph.runtime.values.temporaries import Temporaries
from qgraph.runtime.values.watchdog import PolledLoop, limit

# Idle threads cost time too: small blocks waste few. Grid-stride loops get fewer threads than iterations, so that the stride is
# really taken.
_BLOCK = 8
_STRIDED_GRID = 2
# The block that runs a whole kernel: a barrier costs more with every thread. It has the limits of so many threads, so that
# small arrays lie below them and above.
_WHOLE_BLOCK = 3
_STANDS_FOR = 32
_REASON = "the CUDA kernels run on Numba's simulator"
_ONE_BLOCK = f"{_REASON}, the whole kernel as one block"
# A kernel has one place where it finds which of its threads runs. A host call may launch another kernel in between.
_LOCK = forks.rlock()


@dataclass(frozen=True, slots=True)
class _Scratch:
    """What the tasks of one launch share: the slots, and the words in which they tell what is wrong and how long loops ran."""

    slots: np.ndarray
    noted: np.ndarray
    turns: np.ndarray


@dataclass(frozen=True, slots=True)
class _HostRun:
    """What a node that is no kernel may look at (``HostRun``)."""

    slots: np.ndarray
    reader: Readers
    _leaves: Mapping[str, int]
    _call: Call

    def leaf(self, name: str) -> Any:
        value = self._call.values[self._leaves[name]]
        return value.host if isinstance(value, ArrayView) else value


class SimulatorExecutable:
    """A kernel on Numba's CUDA simulator."""

    path = "sim"
    reason = _REASON

    def __init__(self, plan: SimulatorPlan) -> None:
        self._plan = plan
        program = plan.plan.program
        self._leaves = {leaf.name: index for index, leaf in enumerate(program.arrays_and_scalars)}
        self._temporaries = Temporaries(program)
        self._hosts = {value.name: index for index, value in enumerate(program.host_values)}
        self._faults = FaultReader(program.faults, program.tasks())
        self._results = None if program.numbers is None else ResultReader(program.numbers, plan.dtypes)
        limit()
        # By the slot that decides.
        self._loops: dict[int, PolledLoop] = {}
        self.nodes = len(plan.plan.nodes)
        self.replays = 0
        self.argument_updates = 0
        self.rebuilds = 0

    def launch(self, call: Call) -> tuple[Any, ...] | None:
        """Run the kernel; when this returns it has run. Gives the numbers that it returns, None if it returns nothing."""
        slots = np.zeros(self._plan.plan.scratch_words, np.int64)
        noted = self._faults.words()
        turns = np.zeros(len(self._plan.plan.unrolled), np.int64)
        temporaries = (view_of_host(array, array) for array in self._temporaries.on_host(call.host))
        call = Call((*call.values, *temporaries), call.host)
        with _LOCK, warnings.catch_warnings():
            # Division by zero and overflow give inf, nan and wrapped integers; NumPy would warn of each.
            warnings.simplefilter("ignore", RuntimeWarning)
            self._run(call, _Scratch(slots, noted, turns))
        self.replays += 1
        self._faults.tell(noted)
        return None if self._results is None else self._results.read(slots)

    def _run(self, call: Call, scratch: _Scratch) -> None:
        plan = self._plan.plan
        host = {name: call.host[index] for name, index in self._hosts.items()}
        whole = plan.one_block is None or not plan.one_block.fits(host, _STANDS_FOR)
        self.reason, self.nodes = (_REASON, len(plan.nodes)) if whole else (_ONE_BLOCK, 1)
        if whole:
            self._region(0, call, scratch)
            return
        code = self._plan.codes[self._plan.block]
        self._plan.kernels[self._plan.block][1, _WHOLE_BLOCK](*self._arguments(code, call, scratch))

    def _region(self, region: int, call: Call, scratch: _Scratch) -> None:
        plan = self._plan.plan
        for index in plan.regions[region].nodes:
            node = plan.nodes[index]
            match node.control:
                case Loop() as loop:
                    decided = loop.condition_slot
                    again = bool(scratch.slots[decided.index]) if loop.test_first else True
                    polled, entered = self._loops.setdefault(decided.index, PolledLoop(loop.span)), time.monotonic_ns()
                    while again:
                        self._region(node.bodies[0], call, scratch)
                        again = bool(scratch.slots[decided.index])
                        polled(entered)
                case Branch() as branch:
                    chosen = branch.region(int(scratch.slots[branch.condition_slot.index]))
                    if chosen is not None:
                        self._region(node.bodies[chosen], call, scratch)
                case None if node.task is not None:
                    self._task(node.task.name, call, scratch)
                case None if node.what is not None:
                    run = _HostRun(scratch.slots, reader_of(self._plan.dtypes), self._leaves, call)
                    kind_of(node.what).run_on_host(node, run)
                case None:
                    pass

    def _task(self, name: str, call: Call, scratch: _Scratch) -> None:
        code = self._plan.codes[name]
        shape = self._shape(code, call)
        # As on a GPU, the kernel of an empty loop runs, and returns at once.
        grid, block = (max(shape.blocks, 1), shape.blocks_down, shape.times), (shape.threads, shape.threads_down)
        self._plan.kernels[name][grid, block](*self._arguments(code, call, scratch))

    def _shape(self, code: TaskCode, call: Call) -> Shape:
        if code.single:
            return Shape(1, 1)
        if code.on_device:
            each = threads_per_row(1, call.host[self._hosts[code.lanes]], _BLOCK, _BLOCK) if code.lanes else Shape(1, _BLOCK)
            return each._replace(blocks=_STRIDED_GRID)
        extents = [math.prod(call.host[self._hosts[name]] for name in names) for names in code.counts]
        if len(extents) > 1:
            return Shape(-(-sum(-(-extent // WARP) * WARP for extent in extents) // _BLOCK), _BLOCK)
        (count,) = extents
        if code.reduces and code.plane:
            return resident_rows([call.host[self._hosts[name]] for name in code.counts[0]], _BLOCK, _STRIDED_GRID, warp=_BLOCK)
        if code.reduces:
            return Shape(min(max(1, -(-count // (_BLOCK * (COARSENING if code.several else 1)))), _STRIDED_GRID), _BLOCK)
        if code.lanes:
            most = _BLOCK * WARP if code.broadcast else None
            lanes = min(_BLOCK, code.most_lanes or _BLOCK)
            return threads_per_row(max(count, 1), call.host[self._hosts[code.lanes]], _BLOCK, lanes, most)
        several = code.several and count > _BLOCK * COARSENING
        if code.plane and count:
            axes = [call.host[self._hosts[name]] for name in code.counts[0]]
            if code.task.block is not None:
                shape = one_block_each(axes, code.task.block.threads)
            elif code.plane == "tiles":
                shape = in_tiles(axes, _BLOCK)
            else:
                shape = by_rows(axes, _BLOCK, *code.share(several=several))
            down = -(-shape.blocks_down // _STRIDED_GRID)
            return shape if down == 1 else shape._replace(blocks_down=down, times=_STRIDED_GRID)
        return Shape(-(-count // (_BLOCK * COARSENING if several else _BLOCK)), _BLOCK)

    def _arguments(self, code: TaskCode, call: Call, scratch: _Scratch) -> list[object]:
        arguments: list[object] = []
        for parameter in code.parameters:
            if parameter.kind == "leaf":
                value = call.values[self._leaves[parameter.name]]
                # Already on the simulated device, so that the simulator copies nothing: views may share memory.
                arguments.append(self._plan.array(value.host) if isinstance(value, ArrayView) else value)
            elif parameter.kind == "host":
                arguments.append(call.host[self._hosts[parameter.name]])
            else:
                arguments.append(self._scratch(parameter, scratch))
        return arguments

    def _scratch(self, parameter: Parameter, scratch: _Scratch) -> object:
        if parameter.kind == "slots":
            return self._plan.array(scratch.slots.view(slots_dtype(parameter)))
        if parameter.kind in ("faults", "turns"):
            return self._plan.array(scratch.noted if parameter.kind == "faults" else scratch.turns)
        # No loop has a handle here, and none is unrolled.
        return 0

    def close(self) -> None:
        """Nothing to free."""

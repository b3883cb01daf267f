"""Runs a CpuPlan: one compiled call a kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.compiled import CpuPlan, slots_dtype
from qgraph.program import HostCall
from qgraph.runtime.array_view import ArrayView
from qgraph.runtime.call import Call
from qgraph.runtime.faults import FaultReader
from qgraph.runtime.host_calls import CheckedFunction
from qgraph.runtime.results import ResultReader
from qgraph.runtime.temporaries import Temporaries


class CpuExecutable:
    """A compiled kernel on the CPU; holds no memory of any call, so threads need no lock here."""

    path = "cpu"
    reason = "compiled for the CPU by Numba, loops in chunks on all threads"

    def __init__(self, plan: CpuPlan) -> None:
        self._call = plan.call
        program = plan.plan.program
        self._words = program.scratch_words
        leaves = {leaf.name: index for index, leaf in enumerate(program.arrays_and_scalars)}
        self._temporaries = Temporaries(program)
        hosts = {value.name: index for index, value in enumerate(program.host_values)}
        self._leaves = tuple(leaves[p.name] for p in plan.parameters if p.kind == "leaf")
        self._hosts = tuple(hosts[p.name] for p in plan.parameters if p.kind == "host")
        self._views = tuple(slots_dtype(p) for p in plan.parameters if p.kind == "slots")
        self._faults = FaultReader(program.faults) if program.faults else None
        self._results = None if program.result is None else ResultReader(program.result, plan.dtypes)
        calls = {call.name: CheckedFunction(call, plan.dtypes) for call in program.body if isinstance(call, HostCall)}
        self._host_calls = tuple(calls.values())
        self._addresses = tuple(
            calls[p.name].address if p.name in calls else calls[p.name.removesuffix("_data")].data
            for p in plan.parameters
            if p.kind == "callback"
        )
        self.nodes = len(plan.plan.nodes)
        self.replays = 0
        self.argument_updates = 0
        self.rebuilds = 0

    def launch(self, call: Call) -> tuple[Any, ...] | None:
        """Run the kernel; when this returns it has run. Gives the numbers that it returns, None if it returns nothing."""
        host = call.host
        values = (*call.values, *self._temporaries.on_host(host))
        arguments = [value.host if isinstance(value, ArrayView) else value for value in (values[k] for k in self._leaves)]
        # Scratch is made for each call: two threads may run the same kernel.
        scratch = np.zeros(self._words, np.int64)
        views = (scratch.view(dtype) for dtype in self._views)
        noted = () if self._faults is None else (self._faults.words(),)
        self._call(*arguments, *(host[k] for k in self._hosts), *views, *noted, *self._addresses)
        self.replays += 1
        if self._faults is not None:
            self._faults.tell(*noted)
        for function in self._host_calls:
            function.tell()
        return None if self._results is None else self._results.read(scratch)

    def again(self, call: Call) -> Callable[[], tuple[Any, ...] | None] | None:
        """A function that runs ``call`` once more while its arrays live, holding them weakly; None where it cannot."""
        if self._host_calls or self._faults is not None:
            return None
        getters: list[Callable[[], Any]] = []
        if not self._temporaries.empty:
            return None
        for value in (call.values[k] for k in self._leaves):
            if not isinstance(value, ArrayView):
                getters.append(_constant(value))
            elif value.host is value.owner and value.host is not None:
                getters.append(weakref.ref(value.host))
            else:
                return None
        tail = tuple(call.host[k] for k in self._hosts)
        compiled, words, views, results = self._call, self._words, self._views, self._results
        nothing = (np.zeros(0, np.int64),)

        def run() -> tuple[Any, ...] | None:
            if not words:
                compiled(*[get() for get in getters], *tail, *nothing)
                self.replays += 1
                return None
            scratch = np.zeros(words, np.int64)
            compiled(*[get() for get in getters], *tail, *(scratch.view(dtype) for dtype in views))
            self.replays += 1
            return None if results is None else results.read(scratch)

        return run

    def close(self) -> None:
        """Nothing to free: the code lives as long as its plan."""


def _constant(value: object) -> Callable[[], object]:
    return lambda: value

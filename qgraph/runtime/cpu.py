"""Runs a CpuPlan: one compiled call a kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
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
        leaves = {leaf.name: index for index, leaf in enumerate(program.arrays_and_scalars)}
        self._temporaries = Temporaries(program)
        hosts = {value.name: index for index, value in enumerate(program.host_values)}
        self._leaves = tuple(leaves[p.name] for p in plan.parameters if p.kind == "leaf")
        self._hosts = tuple(hosts[p.name] for p in plan.parameters if p.kind == "host")
        self._scratch = _Scratch(program.scratch_words, [slots_dtype(p) for p in plan.parameters if p.kind == "slots"])
        # Nobody may note what the host has found already.
        notes = any(parameter.kind == "faults" for parameter in plan.parameters)
        self._faults = FaultReader(program.faults) if notes else None
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
        views = self._scratch.take()
        noted = () if self._faults is None else (self._faults.words(),)
        self._call(*arguments, *(host[k] for k in self._hosts), *views[1:], *noted, *self._addresses)
        self.replays += 1
        if self._faults is not None:
            self._faults.tell(*noted)
        for function in self._host_calls:
            function.tell()
        numbers = None if self._results is None else self._results.read(views[0])
        self._scratch.give(views)
        return numbers

    def again(self, call: Call) -> Callable[[], tuple[Any, ...] | None] | None:
        """A function that runs ``call`` once more while its arrays live, holding them weakly; None where it cannot."""
        if self._host_calls or not self._temporaries.empty:
            return None
        # Straight-line code: in a short call every look-up counts.
        names: dict[str, Any] = {"owner": self, "compiled": self._call, "scratch": self._scratch, "results": self._results}
        arguments = []
        for number, value in enumerate(call.values[k] for k in self._leaves):
            name = f"leaf{number}"
            if not isinstance(value, ArrayView):
                names[name] = value
                arguments.append(name)
            elif value.host is value.owner and value.host is not None:
                names[name] = weakref.ref(value.host)
                arguments.append(f"{name}()")
            else:
                return None
        views = self._scratch.take()
        scratch = [f"view{number}" for number in range(len(views))]
        arguments += [*(str(int(call.host[k])) for k in self._hosts), *scratch[1:]]
        before, after = [], []
        if self._faults is not None:
            names["faults"] = self._faults
            arguments.append("noted")
            before, after = ["noted = faults.words()"], ["faults.tell(noted)"]
        lines = [*before, f"compiled({', '.join(arguments)})", "owner.replays += 1", *after]
        lines.append(f"numbers = {'None' if self._results is None else 'results.read(view0)'}")
        if self._scratch.empty:
            names.update(zip(scratch, views, strict=True))
        else:
            self._scratch.give(views)
            lines = ["views = scratch.take()", f"{', '.join(scratch)}, = views", *lines, "scratch.give(views)"]
        exec("\n    ".join(["def run():", *lines, "return numbers"]), names)
        run: Callable[[], tuple[Any, ...] | None] = names["run"]
        return run

    def close(self) -> None:
        """Nothing to free: the code lives as long as its plan."""


class _Scratch:
    """Scratch memory between calls: each call has its own, since several threads may run the same kernel.

    What is in it at first is anything: programs write before they read.
    """

    __slots__ = ("_dtypes", "_free", "_words")

    def __init__(self, words: int, dtypes: Sequence[str]) -> None:
        self._words = words
        self._dtypes = tuple(dtypes)
        self._free: list[tuple[np.ndarray, ...]] = []

    @property
    def empty(self) -> bool:
        """Whether there is none: then all calls share it."""
        return self._words == 0

    def take(self) -> tuple[np.ndarray, ...]:
        """Memory that nobody else uses, and the same memory seen as each of the dtypes."""
        try:
            return self._free.pop()
        except IndexError:
            memory = np.zeros(self._words, np.int64)
            return (memory, *(memory.view(dtype) for dtype in self._dtypes))

    def give(self, views: tuple[np.ndarray, ...]) -> None:
        """What ``take`` gave, when nobody reads it any more."""
        self._free.append(views)

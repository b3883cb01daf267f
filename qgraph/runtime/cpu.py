"""Runs a CpuPlan: one compiled call a kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.compiled import CpuPlan
from qgraph.program import ArrayType
from qgraph.runtime.array_view import ArrayView
from qgraph.runtime.call import Call


class CpuExecutable:
    """A compiled kernel on the CPU; holds no memory of any call, so threads need no lock here."""

    path = "cpu"
    reason = "compiled for the CPU by Numba, loops in chunks on all threads"

    def __init__(self, plan: CpuPlan) -> None:
        self._call = plan.call
        program = plan.plan.program
        self._slots = program.scratch_words
        self._views = tuple(
            p.type.dtype if isinstance(p.type, ArrayType) else "int64" for p in plan.parameters if p.kind == "slots"
        )
        leaves = {leaf.name: index for index, leaf in enumerate(program.leaves)}
        hosts = {value.name: index for index, value in enumerate(program.host_values)}
        self._leaves = tuple(leaves[p.name] for p in plan.parameters if p.kind == "leaf")
        self._hosts = tuple(hosts[p.name] for p in plan.parameters if p.kind == "host")
        self.nodes = len(plan.plan.nodes)
        self.replays = 0
        self.argument_updates = 0

    def launch(self, call: Call) -> None:
        """Run the kernel; when this returns it has run."""
        values, host = call.values, call.host
        arguments = [value.host if isinstance(value, ArrayView) else value for value in (values[k] for k in self._leaves)]
        # Scratch is made for each call: two threads may run the same kernel.
        self._call(*arguments, *(host[k] for k in self._hosts), *self._scratch())
        self.replays += 1

    def _scratch(self) -> list[Any]:
        """Scratch as the function takes it: once for each type that it is seen as."""
        words = np.zeros(self._slots + self._slots % 2, np.int64)
        return [words.view(dtype) for dtype in self._views]

    def again(self, call: Call) -> Callable[[], None] | None:
        """A function that runs ``call`` once more while its arrays live, holding them weakly; None where it cannot."""
        getters: list[Callable[[], Any]] = []
        for value in (call.values[k] for k in self._leaves):
            if not isinstance(value, ArrayView):
                getters.append(_constant(value))
            elif value.host is value.owner and value.host is not None:
                getters.append(weakref.ref(value.host))
            else:
                return None
        tail = tuple(call.host[k] for k in self._hosts)
        compiled = self._call

        def run() -> None:
            compiled(*[get() for get in getters], *tail, *self._scratch())
            self.replays += 1

        return run

    def close(self) -> None:
        """Nothing to free: the code lives as long as its plan."""


def _constant(value: object) -> Callable[[], object]:
    return lambda: value

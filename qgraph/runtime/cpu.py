"""Runs a CpuPlan: one compiled call a kernel."""

from __future__ import annotations

import numpy as np

from qgraph.compiled import CpuPlan
from qgraph.runtime.array_view import ArrayView
from qgraph.runtime.call import Call


class CpuExecutable:
    """A compiled kernel on the CPU; holds no memory of any call, so threads need no lock here."""

    path = "cpu"
    reason = "compiled for the CPU by Numba, loops in chunks on all threads"

    def __init__(self, plan: CpuPlan) -> None:
        self._call = plan.call
        program = plan.plan.program
        self._slots = len(program.slots)
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
        self._call(*arguments, *(host[k] for k in self._hosts), np.zeros(self._slots, np.int64))
        self.replays += 1

    def close(self) -> None:
        """Nothing to free: the code lives as long as its plan."""

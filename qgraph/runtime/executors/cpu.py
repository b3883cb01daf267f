"""Runs a CpuPlan: one compiled call a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qgraph.compat.numpy import host_pointer
from qgraph.forks import FORKS
from qgraph.ir.artifacts import CpuPlan, Parameter, slots_dtype
from qgraph.ir.program import node_statements
from qgraph.nodes.kind import HostFunction, statement_kind
from qgraph.operations.intrinsics import Left
from qgraph.runtime.values.array_view import ArrayView, changed_in_place
from qgraph.runtime.values.deferred_errors import FaultReader
from qgraph.runtime.values.prepared_call import CHANGED, Call, ReplayCode
from qgraph.runtime.values.results import ResultReader, reader_of
from qgraph.runtime.values.temporaries import Temporaries
from qgraph.runtime.values.watchdog import PolledLoop, limit

# Whoever passes this as an address has looked at the arrays of a call.
NOWHERE = 0
_ON_ALL_THREADS = "compiled for the CPU by Numba, loops in chunks on all threads"
_ALONE = (
    "compiled for the CPU by Numba, loops in chunks on one thread: this process was forked from one that has those for loops"
)


class CpuExecutable:
    """A compiled kernel on the CPU; holds no memory of any call, so threads need no lock here."""

    path = "cpu"

    def __init__(self, plan: CpuPlan) -> None:
        self._call, self._places = plan.call, plan.places
        program = plan.plan.program
        leaves = self._names = {leaf.name: index for index, leaf in enumerate(program.arrays_and_scalars)}
        self._temporaries = Temporaries(program)
        # Behind them are the arrays of one call: those that it returns, and temporaries.
        self._arguments = len(program.leaves)
        hosts = {value.name: index for index, value in enumerate(program.host_values)}
        self._leaves = tuple(leaves[p.name] for p in plan.parameters if p.kind == "leaf")
        self._hosts = tuple(hosts[p.name] for p in plan.parameters if p.kind == "host")
        self._scratch = _Scratch(program.scratch_words, [slots_dtype(p) for p in plan.parameters if p.kind == "slots"])
        # Nobody may note what the host has found already.
        notes = any(parameter.kind == "faults" for parameter in plan.parameters)
        self._faults = FaultReader(program.faults, program.tasks()) if notes else None
        self._results = None if program.numbers is None else ResultReader(program.numbers, plan.dtypes)
        statements = map(statement_kind, node_statements(program.body))
        calls = dict(filter(None, (each.on_cpu(reader_of(plan.dtypes)) for each in statements)))
        self._host_calls = tuple(calls.values())
        self._loops = {name: PolledLoop(span) for name, span in plan.loops.items()}
        if self._loops:
            # What is wrong with the setting is told before anything runs.
            limit()
        self._addresses = tuple(self._address(p, calls) for p in plan.parameters if p.kind in ("callback", "loop"))
        self.nodes = len(plan.plan.nodes)
        self.replays = 0
        self.argument_updates = 0
        self.rebuilds = 0

    @property
    def reason(self) -> str:
        """On how many threads loops run."""
        return _ALONE if FORKS.alone.value else _ON_ALL_THREADS

    def _address(self, parameter: Parameter, calls: Mapping[str, HostFunction]) -> int:
        """What compiled code calls, or what it gives that."""
        name = parameter.name
        if parameter.kind == "loop":
            return id(self._loops[name])
        return calls[name].address if name in calls else calls[name.removesuffix("_data")].data

    def launch(self, call: Call) -> tuple[Any, ...] | None:
        """Run the kernel; when this returns it has run. Gives the numbers that it returns, None if it returns nothing."""
        host = call.host
        values = (*call.values, *self._temporaries.on_host(host, *map(_on_host, call.values[self._arguments :])))
        arguments = [_on_host(values[k]) for k in self._leaves]
        views = self._scratch.take()
        noted = () if self._faults is None else (self._faults.words(),)
        for function in self._host_calls:
            function.begin(lambda name: _on_host(values[self._names[name]]))
        try:
            self._call(*arguments, *(host[k] for k in self._hosts), *views[1:], *noted, *self._addresses, NOWHERE)
        except Left:
            # In a kernel that is checked a fault ends everything.
            pass
        finally:
            for function in self._host_calls:
                function.end()
        self.replays += 1
        if self._faults is not None:
            self._faults.tell(*noted)
        for function in self._host_calls:
            function.tell()
        numbers = None if self._results is None else self._results.read(views[0])
        self._scratch.give(views)
        return numbers

    def again(self, call: Call, *, held: bool) -> ReplayCode | None:
        """How to run ``call`` once more; None where it cannot. ``made`` are then the arrays that it returns.

        The compiled code looks whether the arrays that it is given are those of ``call`` in type, layout, writeability,
        address, shape and strides. Where they are ``held``, its names hold them: then they can only have been changed in place,
        which is an ``ArgumentError``.
        """
        arrays = self._plain_arrays(call)
        if arrays is None:
            return None
        words, about = self._places(arrays)
        found = self._straight(call, arrays, host_pointer(words), "raise changed()" if held else "return CHANGED")
        # The address is a number to the compiled code: who has the names has the words, and what they are about.
        names = {**found.names, "words": words, "about": about}
        if not held:
            return ReplayCode(arrays, names, found.statements)
        mine = {f"array{number}": array for number, array in enumerate(arrays)}
        return ReplayCode((), {**names, **mine, "changed": changed_in_place}, lambda _arrays: found.statements(list(mine)))

    def _plain_arrays(self, call: Call) -> list[np.ndarray] | None:
        """The arguments that the compiled code takes, in order; None where a call needs more than arrays of NumPy's."""
        if self._host_calls:
            return None
        made = range(self._arguments, len(call.values))
        views = [value for value in (call.values[k] for k in (*self._given(), *made)) if isinstance(value, ArrayView)]
        arrays = [view.host for view in views if view.host is view.owner and type(view.host) is np.ndarray]
        return arrays[: len(arrays) - len(made)] if len(arrays) == len(views) else None

    def _given(self) -> list[int]:
        """The places of the arguments that the compiled code takes."""
        return [k for k in self._leaves if k < self._arguments]

    def _straight(self, call: Call, arrays: Sequence[np.ndarray], address: int, otherwise: str) -> ReplayCode:
        """``call`` once more, in straight-line code: in a short call every look-up counts.

        ``otherwise`` is the statement for arrays that are not as the words at ``address`` say.
        """
        names: dict[str, Any] = {"owner": self, "scratch": self._scratch, "results": self._results, "CHANGED": CHANGED}
        names |= {"compiled": self._call, "address": address}
        views = self._scratch.take()
        viewed = {f"view{number}": view for number, view in enumerate(views)}
        leaves = {f"leaf{k}": call.values[k] for k in self._given()}
        names |= {name: value for name, value in leaves.items() if not isinstance(value, ArrayView)}
        returned = [(view.shape, view.dtype) for view in call.values[self._arguments :] if isinstance(view, ArrayView)]
        shapes = {f"new{k}": found for k, found in enumerate(returned, self._arguments)}
        names |= {"empty": np.empty, **{f"shape_{name}": found for name, found in shapes.items()}}
        made = list(shapes)
        first = self._arguments + len(made)
        temporaries = [f"new{k}" for k in range(first, first + len(self._temporaries.names))]
        hosts = {f"host{number}": int(call.host[k]) for number, k in enumerate(self._hosts)}
        names |= hosts
        addresses = {f"loop{number}": address for number, address in enumerate(self._addresses)}
        names |= addresses
        noted = [] if self._faults is None else ["noted"]
        passed = [*hosts, *list(viewed)[1:], *noted, *addresses, "address"]
        before, give = [f"{name} = empty(*shape_{name})" for name in shapes], []
        makes, found = self._temporaries.statements(call.host, temporaries, shapes)
        before += makes
        names |= found
        if self._scratch.empty:
            names |= viewed
        else:
            self._scratch.give(views)
            before.append(f"views = {', '.join(viewed)}, = scratch.take()")
            give = ["scratch.give(views)"]
        told = []
        if self._faults is not None:
            names["faults"] = self._faults
            before.append("noted = faults.words()")
            told = ["faults.tell(noted)"]

        def statements(given: Sequence[str]) -> list[str]:
            array = iter(given)
            values = [next(array) if isinstance(value, ArrayView) else name for name, value in leaves.items()]
            values += [f"new{k}" for k in self._leaves if k >= self._arguments]
            return [
                *before,
                f"if not compiled({', '.join([*values, *passed])}):",
                *(f"    {line}" for line in (*give, otherwise)),
                "owner.replays += 1",
                *told,
                f"numbers = {'None' if self._results is None else 'results.read(view0)'}",
                *give,
                *([f"made = {', '.join(made)},"] if made else []),
            ]

        return ReplayCode(arrays, names, statements)

    def close(self) -> None:
        """Nothing to free: the code lives as long as its plan."""


def _on_host(value: Any) -> Any:
    return value.host if isinstance(value, ArrayView) else value


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

"""Runs a kernel on copies of its arguments with every access watched, and raises what it found."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.checking.findings import Findings
from qgraph.checking.orders import differs
from qgraph.dispatch.executables import refuse_cuda_only
from qgraph.dispatch.variant import Variant
from qgraph.errors import DataRaceError, OrderDependentWarning, QGraphError, rendered
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import HOST, Program, Task, node_statements
from qgraph.lowering.compile import compile_checked
from qgraph.lowering.instrumentation import shadow_memory as shadow
from qgraph.lowering.instrumentation.early_exits import with_keys
from qgraph.lowering.instrumentation.race_checks import CheckerWords, with_chosen_order
from qgraph.lowering.instrumentation.rewrite import instrument
from qgraph.records import dataclass
from qgraph.runtime.arguments.host_copies import Region, copied_to_host, region_of
from qgraph.runtime.executors.cpu import CpuExecutable
from qgraph.runtime.values.array_view import ArrayView, view_of_host
from qgraph.runtime.values.host_values import HostValues
from qgraph.runtime.values.prepared_call import Call
from qgraph.runtime.values.temporaries import Temporaries
from qgraph.stack import compiling, stack_level

# The orders besides that of the program: backwards, and permutations by number.
ORDERS = (shadow.REVERSED, shadow.PERMUTED, shadow.PERMUTED + 1)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``kernel.check`` looked at where it found nothing; ``str()`` tells it.

    Attributes:
        kernel: its name.
        accesses: to elements of arrays, in the run in program order.
        loops: parallel loops of the kernel, statements on arrays and fills of temporaries among them.
        orders: in how many other orders of iterations it ran, with the same answer.
        unchecked: what was run and not looked into, each with its line.
    """

    kernel: str
    accesses: int
    loops: int
    orders: int
    unchecked: tuple[str, ...]

    def __str__(self) -> str:
        loops = f"{self.loops} parallel loop{'s' * (self.loops != 1)}"
        orders = f", and the same answer in {self.orders} other orders of iterations" if self.orders else ""
        lines = [
            f"{self.kernel}: {self.accesses} accesses in {loops}: no race, no index out of bounds, no unwritten read{orders}"
        ]
        return "\n".join([*lines, *(f"not checked: {each}" for each in self.unchecked)])


def check(variant: Variant, values: tuple[Any, ...]) -> CheckReport:
    """Run the kernel with ``values``, as ``describe`` gives them; they stay as they are.

    Raises:
        DataRaceError, BoundsError, UnwrittenError: the first finding in program order; ``findings`` has all.
        QGraphError: the call is refused, or a mistake that only the device can find was found.
    """
    run = _Run(variant, values)
    errors, raised = run.in_order()
    if errors:
        raise _told(errors, run.unchecked)
    if raised is not None:
        raise raised
    orders = run.other_orders()
    return CheckReport(run.program.name, run.accesses, len(run.loops), orders, run.unchecked)


@contextmanager
def refused() -> Iterator[None]:
    """A call that is refused for a race, before anything runs, has that one finding."""
    try:
        yield
    except DataRaceError as error:
        error.findings = error.findings or (error,)
        raise


def _told(errors: tuple[QGraphError, ...], unchecked: tuple[str, ...]) -> QGraphError:
    first = errors[0]
    first.findings, first.unchecked = errors, unchecked
    for each in unchecked:
        first.add_note(f"not checked: {each}")
    return first


class _Run:
    """One kernel with copies of the arguments of one call."""

    @compiling
    def __init__(self, variant: Variant, values: tuple[Any, ...]) -> None:
        given = list(values)
        positions = [position for position, value in enumerate(values) if isinstance(value, ArrayView)]
        copies, self._regions = copied_to_host([values[position] for position in positions])
        for position, copy in zip(positions, copies, strict=True):
            given[position] = copy
        program = variant.program_for(variant.check(tuple(given)))
        # What the caller would get is a temporary of the run.
        self._returned = len(program.returned)
        program = replace(program, returned=(), temporaries=(*program.returned, *program.temporaries))
        self.program = program
        refuse_cuda_only(program, "cpu")
        made = instrument(program, CheckerWords())
        ordered, self.loops = with_chosen_order(made.program)
        ordered = with_keys(ordered)
        self._host = HostValues(ordered).of(given)
        temporaries = Temporaries(program).on_host(self._host)
        self._regions += map(region_of, temporaries)
        self._values = (*given, *temporaries)
        self._made = made
        self._executable = CpuExecutable(compile_checked(program, _with_state(ordered), variant.options))
        # What the memory held before the first run.
        self._held = [region.memory.copy() for region in self._regions]
        self._check = _state(self._regions, len(temporaries))
        self._numbers: tuple[Any, ...] | None = None
        self.accesses = 0

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What is not looked into, with its line."""
        return tuple(f"`{text}` ({span})" for text, span in self._made.unchecked)

    def _launch(self) -> tuple[Any, ...] | None:
        values: tuple[Any, ...] = (*self._values, self._check)
        return self._executable.launch(Call(values, self._host))

    def in_order(self) -> tuple[tuple[QGraphError, ...], Exception | None]:
        """Run it in program order; gives what was found, and what else was raised."""
        raised: Exception | None = None
        try:
            self._numbers = self._launch()
        except (IndexError, QGraphError) as error:
            raised = error
        self.accesses = int(self._check[shadow.ACCESSES])
        findings = Findings(self._made.sites, self.loops, self._arrays())
        return tuple(findings.errors(self._check)), raised

    def _arrays(self) -> list[tuple[str, str, ArrayView]]:
        leaves = zip(self.program.arrays_and_scalars, self._values, strict=True)
        return [(leaf.name, leaf.path, _viewed(value)) for leaf, value in leaves if isinstance(leaf.type, ArrayType)]

    # --- orders ---------------------------------------------------------------------------------------------------------

    def other_orders(self) -> int:
        """Run it in other orders, and warn of the first array that then holds something else; gives how many there were."""
        if not self.loops or _tells_the_host(self.program):
            return 0
        before = [region.memory.copy() for region in self._regions]
        numbers = self._numbers
        for order in ORDERS:
            for region, held in zip(self._regions, self._held, strict=True):
                region.memory[:] = held
            self._check[: shadow.REGIONS] = 0
            self._check[shadow.ORDER] = order
            try:
                self._numbers = self._launch()
                different = self._different(before, numbers)
            except (IndexError, QGraphError):
                different = "what can be computed at all"
            if different:
                _warn(self.program, different, self.loops)
                return 0
        return len(ORDERS)

    def _different(self, before: Sequence[np.ndarray], numbers: tuple[Any, ...] | None) -> str:
        """The first array, or number, that differs from program order; empty where there is none."""
        now = [region.memory.copy() for region in self._regions]
        seen = self._arrays()[: len(self.program.leaves) + self._returned]
        arrays = [each for each in seen if each[0] in self.program.written]
        results = []
        for memory in (now, before):
            for region, held in zip(self._regions, memory, strict=True):
                region.memory[:] = held
            results.append([view.host.copy() for _, _, view in arrays if view.host is not None])
        for (_, path, _), one, other in zip(arrays, *results, strict=True):
            if differs(one, other):
                return f"`{path}`"
        both = zip(numbers or (), self._numbers or (), strict=True)
        return "what it returns" if any(differs(one, other) for one, other in both) else ""


def _viewed(value: Any) -> ArrayView:
    return value if isinstance(value, ArrayView) else view_of_host(value, value)


def _with_state(program: Program) -> Program:
    """The program with its temporaries, and the state of the words, as leaves."""
    state = tuple(Leaf(name, name, ArrayType("int64", 1, "C")) for name in shadow.STATE)
    return replace(program, leaves=(*program.arrays_and_scalars, *state), temporaries=())


def _state(regions: Sequence[Region], temporaries: int) -> np.ndarray:
    """``check`` for these regions, the last ones temporaries that nobody has written yet."""
    size = shadow.FIRST_REGION + shadow.REGION_WORDS * max(1, len(regions))
    rows, fresh = [], 0
    for number, region in enumerate(regions):
        if number == len(regions) - temporaries:
            fresh = size
        # The largest power of two that is a part of all distances between elements.
        shift = (region.itemsize & -region.itemsize).bit_length() - 1
        rows.append((region.address, region.address + region.memory.size, shift, size))
        size += ((region.memory.size >> shift) + 1) * shadow.SHADOW_WORDS
    check = np.zeros(size, np.int64)
    check[shadow.REGIONS], check[shadow.LAST] = len(regions), shadow.FIRST_REGION
    check[shadow.FIRST_REGION :][: 4 * len(rows)] = np.array(rows, np.int64).ravel()
    if temporaries:
        check[fresh + shadow.SHADOW_WORDS - 1 :: shadow.SHADOW_WORDS] = 1
    return check


def _tells_the_host(program: Program) -> bool:
    """Whether it has effects outside of its arrays, which a second run would repeat."""
    prints = any(value is print for task in program.tasks() for value in task.names.values())
    return prints or any(HOST in statement.effects.touched for statement in node_statements(program.body))


def _warn(program: Program, different: str, loops: Sequence[Task]) -> None:
    found = f"the answer of {program.name}() depends on the order of iterations: {different} is another one in another order"
    places = tuple(("this loop runs its iterations in any order", loop.span) for loop in loops)
    hint = "run the iterations in order with `qgraph.serial(...)`, if the order matters"
    warnings.warn(rendered(found, program.span, places, hint), OrderDependentWarning, stacklevel=stack_level())

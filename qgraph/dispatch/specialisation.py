"""A variant of a kernel for one alias pattern: its plan, and the executable that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qgraph import forks
from qgraph.dispatch.executables import AGAIN, EXECUTABLES, refuse_cuda_only
from qgraph.dispatch.variant import Aliases, Variant
from qgraph.errors import CudaError
from qgraph.ir.artifacts import ANY_EXTENTS, Extents, equal_shapes
from qgraph.ir.plan import GraphPlan
from qgraph.runtime.executors.launch_records import CapturedRun, Executable, LastLaunch
from qgraph.runtime.values.host_values import HostValues
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from qgraph.runtime.values.results import assembler, with_arrays
from qgraph.runtime.values.temporaries import Temporaries, array_shapes


class Specialisation:
    """A variant for one alias pattern: its plan, and the executable, built at the first launch."""

    def __init__(self, variant: Variant, aliases: Aliases, *, tiles: bool = False) -> None:
        self.variant, self.aliases = variant, aliases
        self.plan: GraphPlan = variant.plan_for(aliases, tiles=tiles)
        # Where arrays share memory calls may be refused, and need temporaries, as loops in tiles do, with numbers of their own.
        program = self.plan.program
        self._sizes = [index for index, value in enumerate(program.host_values) if value.check == "tiles"]
        # Whether arrays of other extents may have another plan.
        self.by_size = tiles or bool(self._sizes)
        own = aliases or program.host_values != variant.program.host_values
        self.host_values = HostValues(program).of if own else variant.host_values
        self.executable: Executable | None = None
        self._launched: LastLaunch | None = None
        # What the code of the executable takes for granted.
        self._extents = ANY_EXTENTS
        # What the kernel returns, from the numbers of a launch.
        self.value: Callable[[tuple[Any, ...] | None], Any] = assembler(self.plan.program.result)
        self.lock = forks.lock()
        # The arrays that each call makes for its caller.
        self._returned = Temporaries(self.plan.program, self.plan.program.returned)

    def has_large(self, leaves: tuple[Any, ...]) -> bool:
        """Whether these arrays are large enough for tiles in some loop of this plan, which has none."""
        if not self._sizes:
            return False
        numbers = self.host_values(leaves)
        return any(numbers[index] for index in self._sizes)

    @property
    def returns_arrays(self) -> bool:
        """Whether a call gives arrays, which are new ones each time."""
        return self.plan.program.returns_arrays

    def call(self, leaves: tuple[Any, ...], stream: int) -> Call:
        """A call with these leaves; arrays that the kernel returns are made now, on the side of the first argument."""
        host = self.host_values(leaves)
        if self._returned.empty:
            return Call(leaves, host, stream)
        variant = self.variant
        side = next((leaves[index] for index in variant.arrays), None)
        # What knows all libraries' arrays is loaded by now: some argument was described.
        from qgraph.runtime.arguments import new_arrays

        new = new_arrays.maker(side, variant.device if variant.backend == "cuda" else None)
        return Call((*leaves, *(new(shape, dtype) for shape, dtype in self._returned.shapes(host))), host, stream)

    def result(self, numbers: tuple[Any, ...] | None, call: Call, given: tuple[Any, ...] | None = None) -> Any:
        """What ``call`` gives its caller; ``given`` are the leaves that were passed, where ``call`` has copies of them."""
        result = self.plan.program.result
        if result is None or not self.returns_arrays:
            return None if numbers is None else self.value(numbers)
        values: list[Any] = list(call.values)
        if given is not None:
            from qgraph.runtime.arguments import new_arrays

            side = next((given[index] for index in self.variant.arrays), None)
            made = values[len(given) :]
            values = [*given, *(new_arrays.on_host(side, each) for each in made)]
        program = self.plan.program
        leaves = (*program.leaves, *(each.leaf for each in program.returned))
        names = set(result.arrays())
        arrays = {leaf.name: value.owner for leaf, value in zip(leaves, values, strict=True) if leaf.name in names}
        return with_arrays(result, numbers, arrays)

    def with_arrays(self, numbers: tuple[Any, ...] | None, made: Sequence[Any]) -> Any:
        """What a repeated call gives its caller: ``made`` are the arrays that it returns, in the order of the program's."""
        result = self.plan.program.result
        assert result is not None
        return with_arrays(result, numbers, dict(zip(self._returned.names, made, strict=True)))

    def build(self, call: Call) -> Executable:
        """Compile, and make the executable of the path that fits ``call``, and others."""
        variant = self.variant
        if variant.backend != "cuda":
            refuse_cuda_only(self.plan.program, variant.backend)
        extents = Extents(variant.index64)
        if variant.equal_extents and variant.backend == "cuda":
            program = self.plan.program
            host = {value.name: number for value, number in zip(program.host_values, call.host, strict=True)}
            extents = Extents(variant.index64, equal_shapes(array_shapes(program, call.values, host)))
        executable = EXECUTABLES[variant.backend](self.plan, variant, extents)
        self._extents, self.executable = extents, executable
        return executable

    @property
    def outdated(self) -> bool:
        """Whether its code takes for granted what did not hold of arrays that came since."""
        variant, granted = self.variant, self._extents
        return (variant.index64 and not granted.index64) or (bool(granted.equal) and not variant.equal_extents)

    @property
    def launched(self) -> LastLaunch | None:
        """What the last launch did; None before there is an executable."""
        done, known = self.executable, self._launched
        if done is not None and (known is None or known.reason is not done.reason):
            self._launched = LastLaunch(len(self.plan.tasks), done.nodes, done.path, done.reason)
        return self._launched

    def again(self, executable: Executable, call: Call, *, held: bool) -> ReplayCode | None:
        """How ``call`` runs once more while its arrays live, for whoever looks at all those that it does not take itself.

        None where there is no such way. Where its arrays are ``held``, it takes none.
        """
        result = self.plan.program.result
        gives = set() if result is None else set(result.arrays())
        # Elsewhere new arrays are new addresses. Arguments that are returned nobody may hold.
        if gives and (self.variant.backend != "cpu" or not gives.issubset(self._returned.names)):
            return None
        return AGAIN[self.variant.backend](executable, call, self.variant, held)

    def capture(self, call: Call) -> CapturedRun:
        """Add ``call`` to the CUDA graph that is captured on its stream; the executable, which there is, stays as it is."""
        from qgraph.runtime.executors.captured import capture

        if self.variant.stepping:
            raise CudaError(
                f"the stream {call.stream:#x} is being captured into a graph, and each of its launches would have the random "
                "numbers of this call: nothing ran",
                hint="keep a step in an array that the kernel counts up: qgraph.random.normal(seed, i, step[0])",
            )
        added = capture(self.executable, call)  # type: ignore[arg-type]
        return CapturedRun(LastLaunch(len(self.plan.tasks), added.nodes, added.path, added.reason))

    def close(self) -> None:
        """Free the executable; the next launch builds another."""
        executable = self.abandon()
        if executable is not None:
            executable.close()

    def abandon(self) -> Executable | None:
        """Let go of the executable, and leave what it owns as it is: there may be nobody who could free it."""
        # What it did last is still told afterwards.
        self._launched = self.launched
        executable, self.executable = self.executable, None
        return executable

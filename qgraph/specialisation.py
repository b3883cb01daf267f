"""One kernel for one choice of argument types, backend, device and alias pattern: its program, plan, code and executable."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from qgraph import forks
from qgraph.errors import ArgumentError, BackendError, CudaError, PerformanceWarning
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType, Leaf, Type
from qgraph.ir.artifacts import ANY_EXTENTS, Extents, equal_shapes
from qgraph.ir.blocks import MOST_SHARED
from qgraph.ir.global_arrays import GlobalArray, Namespace
from qgraph.ir.plan import GraphPlan
from qgraph.ir.profile_places import Profiles
from qgraph.ir.program import Branch, Loop, Program, node_statements
from qgraph.nodes.kind import statement_kind
from qgraph.options import Options
from qgraph.runtime.executors.launch_records import CapturedRun, Executable, LastLaunch
from qgraph.runtime.values.aliasing import alias_pattern, overlaps_itself
from qgraph.runtime.values.generators import stepping_leaves
from qgraph.runtime.values.host_values import HostValues, integers_of
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from qgraph.runtime.values.results import assembler, with_arrays
from qgraph.runtime.values.temporaries import Temporaries, array_shapes

# Where many threads wait for work. On a CPU of 2 cores a front costs more than it saves where iterations are short (an edit
# distance takes 2.8 times as long, Gauss-Seidel 2.0), and saves nine tenths of Cholesky's time, whose iterations have loops.
_IN_FRONTS = ("cuda", "sim")

Aliases = tuple[tuple[int, int, str], ...]


class Variant:
    """A kernel for argument types, on a backend and device: what does not depend on which arrays share memory."""

    def __init__(
        self,
        source: SourceFunction,
        types: tuple[tuple[str, Type], ...],
        leaves: tuple[Leaf, ...],
        backend: str,
        device: int,
        options: Options,
        *,
        global_arrays: tuple[GlobalArray, ...] = (),
        runs: bool = True,
        reads_disk: bool = True,
        checks: bool = False,
        profiles: Profiles = "",
        rings: Namespace | None = None,
    ) -> None:
        self.source, self.types, self.leaves, self.global_arrays = source, types, leaves, global_arrays
        self.backend, self.device, self.options = backend, device, options
        # Whether somebody looks at its accesses: then loops are as written, and views keep their extents.
        self._checks = checks
        # What it notes of its tasks, and returns besides all else.
        self._profiles = profiles
        # Where somebody watches: what holds the array that takes what is published.
        self._rings = rings
        # Whether code that another process compiled may be used.
        self.reads_disk = reads_disk
        # Whether an array came that has more elements than the code for most arrays can tell apart (``Extents.index64``).
        self.index64 = False
        # Whether arrays of one shape in the first call were so in all calls since (``Extents.equal``).
        self.equal_extents = True
        # The module that knows the streams of calls; only the cuda backend may import it.
        self.streams: Any = importlib.import_module("qgraph.runtime.arguments.streams") if backend == "cuda" and runs else None
        if backend == "cpu":
            _refuse_half(leaves)
        from qgraph.lowering.cache.answer_cache import SavedAnswers

        # What dependence tests of this kernel said.
        self._answers = SavedAnswers()
        self.program = self._built(())
        numbers = HostValues(self.program)
        self.host_values, self.meets_ones = numbers.of, numbers.meets_ones
        self.arrays = tuple(index for index, leaf in enumerate(leaves) if isinstance(leaf.type, ArrayType))
        written = self.program.written
        # Of generators of random numbers, which take a step in each call.
        self.stepping = stepping_leaves(types)
        self.written = tuple(leaves[index].name in written for index in self.arrays)
        flags = dict(self.program.flags)
        self._flags = tuple((index, flags[leaf.name]) for index, leaf in enumerate(leaves) if leaf.name in flags)
        # What ``check`` looks at, for those who can tell at a glance that it has nothing to say.
        self.single_leaves = frozenset(index for index, _ in self._flags)
        self.written_leaves = frozenset(index for index in self.arrays if leaves[index].name in written)

    def check(self, values: tuple[Any, ...]) -> Aliases:
        """Refuse values that do not fit, and tell which arrays share memory.

        Raises:
            ArgumentError: a flag of more than one element, a written array that overlaps itself.
        """
        for index, span in self._flags:
            if values[index].size != 1:
                raise ArgumentError(
                    f"the flag `{self.leaves[index].path}` has {values[index].size} elements",
                    span,
                    hint="a flag is an array of one element",
                )
        views = [values[index] for index in self.arrays]
        if len(views) == 1 and views[0].layout != "A":
            return ()
        for index, view, written in zip(self.arrays, views, self.written, strict=True):
            if written and view.layout == "A" and overlaps_itself(view):
                raise ArgumentError(
                    f"`{self.leaves[index].path}` is written, and it overlaps itself: some elements are the same memory",
                    self.program.span,
                    hint="pass a copy: an array made by broadcasting cannot be written",
                )
        return alias_pattern(views, self.written)

    def program_for(self, aliases: Aliases) -> Program:
        """The program where arrays share memory as ``aliases`` says, by positions in ``arrays``."""
        if not aliases:
            return self.program
        names = [self.leaves[index].name for index in self.arrays]
        return self._built(tuple((names[first], names[second], how) for first, second, how in aliases))

    def plan_for(self, aliases: Aliases, *, tiles: bool = False) -> GraphPlan:
        """The graph of ``program_for(aliases)``; with ``tiles`` where arrays are large enough for some."""
        from qgraph.lowering.plan_builder import build_plan
        from qgraph.polyhedral.dependence_test import remembering

        options = self.options
        with remembering(self._answers):
            return build_plan(
                self.program_for(aliases),
                fuse=options.fuse and not self._checks,
                one_block=options.one_block,
                bounds_check=options.bounds_check,
                as_graph=self.backend != "cpu",
                shared=self._shared,
                timed=self._profiles,
                tiles=tiles,
            )

    def plan_of(self, leaves: Sequence[Any]) -> GraphPlan:
        """The graph that a call with these leaves would run, for whoever only looks."""
        aliases = self.check(tuple(leaves))
        plan = self.plan_for(aliases)
        numbers = integers_of(plan.program, leaves)
        large = any(numbers.get(value.name) for value in plan.program.host_values if value.check == "tiles")
        return self.plan_for(aliases, tiles=True) if large else plan

    @property
    def _shared(self) -> int | None:
        """Bytes of shared memory that a block may have where its shape may be chosen; where no device is asked, of most."""
        if self.backend == "cpu" or self.options.block_size is not None:
            return None
        if self.backend == "sim" or self.streams is None:
            return MOST_SHARED
        from qgraph.runtime.driver import driver

        shared: int = driver.device(self.device).shared
        return shared

    def _built(self, pairs: tuple[tuple[str, str, str], ...]) -> Program:
        # The frontend is read when there is something to look at: nothing of it is needed to mark a function.
        from qgraph.frontend.build import build_program
        from qgraph.polyhedral.dependence_test import remembering

        with remembering(self._answers):
            given = (self.source, self.types, self.leaves, pairs, self.global_arrays)
            checks = self._checks or self.options.bounds_check
            fuse = self.options.fuse and not checks
            fronts = fuse and self.backend in _IN_FRONTS
            products = fuse and (self.backend != "cuda" or find_spec("torch") is not None)
            joining = functools.partial(build_program, fuse=fuse, fronts=fronts, products=products)
            program = joining(*given, checks_indices=checks, rings=self._rings)
        if not self._profiles:
            return program
        from qgraph.lowering.instrumentation.stamps import with_words

        return with_words(program)

    @property
    def holds(self) -> Callable[[], bool]:
        """Tells whether everything that was compiled in is what it was."""
        return self.program.compiled_in.holds


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
        executable = _EXECUTABLES[variant.backend](self.plan, variant, extents)
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
        return _AGAIN[self.variant.backend](executable, call, self.variant, held)

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


def refuse_cuda_only(program: Program, backend: str) -> None:
    """Raise a ``BackendError`` where the kernel has what runs on CUDA alone."""
    for statement in node_statements(program.body):
        reason = statement_kind(statement).only_on_cuda
        if reason:
            found = f"`{statement.label}` cannot run on the {backend} backend: {reason}"
            raise BackendError(found, statement.span, hint="pass arrays on the device")


def forget_code() -> None:
    """Let go of the machine code that the process keeps for kernels to come."""
    numba_cpu = sys.modules.get("qgraph.lowering.numba_backend.cpu")
    if numba_cpu is not None:
        numba_cpu.forget()


def _cpu(plan: GraphPlan, variant: Variant, _extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_cpu
    from qgraph.runtime.executors.cpu import CpuExecutable

    return CpuExecutable(compile_cpu(plan, variant.options, read=variant.reads_disk))


def _simulator(plan: GraphPlan, variant: Variant, _extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_simulator
    from qgraph.runtime.executors.simulator import SimulatorExecutable

    return SimulatorExecutable(compile_simulator(plan))


def _cuda(plan: GraphPlan, variant: Variant, extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_cuda
    from qgraph.runtime.driver import driver
    from qgraph.runtime.executors.graph import CudaGraphExecutable
    from qgraph.runtime.executors.host_loop import CudaHostLoopExecutable
    from qgraph.runtime.executors.unrolled import CudaUnrollingExecutable

    device = driver.device(variant.device)
    options = variant.options
    compiled = compile_cuda(plan, device.capability, options, extents=extents, read=variant.reads_disk)
    block = options.block_size
    graph = functools.partial(CudaGraphExecutable, compiled, device, block_size=block)
    host = functools.partial(CudaHostLoopExecutable, compiled, device, block_size=block)
    if not options.graph:
        return host(as_graphs=False, reason="graph=False: one stream launch a task")
    if not any(isinstance(statement, (Loop, Branch)) for statement in plan.program.body):
        return graph(reason="the kernel has no device loop or branch")
    if options.conditional == "host":
        return host(as_graphs=True, reason="conditional='host': the host drives loops and branches")
    probe = loop_probe(variant.device)
    works = probe.device_branches if any(node.kind in ("if", "switch") for node in plan.nodes) else probe.device_loops
    if works and plan.unrolled:
        return CudaUnrollingExecutable(compiled, device, block_size=block, reason=probe.reason)
    if works:
        return graph(reason=probe.reason)
    if options.conditional == "device":
        raise BackendError(
            f"conditional='device', but the loops or branches of this kernel do not work here: {probe.reason}",
            hint="conditional='auto' falls back",
        )
    warnings.warn(f"the host drives loops and branches: {probe.reason}", PerformanceWarning, stacklevel=2)
    return host(as_graphs=True, reason=probe.reason)


def loop_probe(ordinal: int) -> Any:
    """Whether conditional nodes work on a device, found out once by running one."""
    from qgraph.lowering.cache.artifact_cache import linked
    from qgraph.runtime.driver import driver
    from qgraph.runtime.graph.capability_probe import probe

    device = driver.device(ordinal)

    return probe(device, lambda ptx: linked(ptx, device.capability))


_EXECUTABLES = {"cpu": _cpu, "sim": _simulator, "cuda": _cuda}


def streams_of(variant: Variant, values: tuple[Any, ...]) -> Any:
    """The ``Streams`` of a call on CUDA with these values."""
    return variant.streams.Streams(variant.device, [values[index] for index in variant.arrays])


def _again_on_cuda(executable: Any, call: Call, variant: Variant, _held: bool) -> ReplayCode:
    streams = streams_of(variant, call.values)
    found: ReplayCode = executable.again(call, streams.current)
    return found.within("streams", streams) if streams.several else found


_AGAIN: dict[str, Callable[[Any, Call, Variant, bool], ReplayCode | None]] = {
    "cpu": lambda executable, call, _variant, held: executable.again(call, held=held),
    "sim": lambda _executable, _call, _variant, _held: None,
    "cuda": _again_on_cuda,
}


def _refuse_half(leaves: tuple[Leaf, ...]) -> None:
    for leaf in leaves:
        if leaf.type.dtype == "float16":
            raise ArgumentError(
                f"argument `{leaf.path}` is float16, which Numba cannot compile for the CPU",
                hint="use float32 on the cpu backend, or backend='cuda'",
            )

"""``@qgraph.kernel``: specialise, cache, launch."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Concatenate, Self, overload

from qgraph.dispatch.bound_kernel import Bound, Method
from qgraph.dispatch.dispatch_cache import DispatchCache, LastRun, Launched, still
from qgraph.dispatch.executables import forget_code, streams_of
from qgraph.dispatch.specialisation import Specialisation
from qgraph.dispatch.specialisation_cache import ArgumentGuard, SpecialisationCache
from qgraph.dispatch.variant import Variant
from qgraph.errors import CudaError, QGraphError, StreamCaptured
from qgraph.forks import in_child
from qgraph.hosts.gradients import needs_gradient
from qgraph.hosts.traced import call_traced, for_dynamo
from qgraph.introspection import Introspection
from qgraph.ir.argument_types import LengthOfOne, TailFound, TracedArray
from qgraph.ir.global_arrays import GlobalArray, GlobalArrayFound
from qgraph.language import Parameters, Rest, Result
from qgraph.options import Options
from qgraph.pickling import ByName
from qgraph.runtime.arguments.backends import DEFAULTS, choose
from qgraph.runtime.executors.launch_records import Executable, LastLaunch, Stats
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.generators import give_back, with_steps
from qgraph.runtime.values.prepared_call import CHANGED, Call
from qgraph.stack import hide_frames, raises_to_user

_KERNELS: weakref.WeakSet[Kernel] = weakref.WeakSet()


# The values with every global array that the kernel uses, how they were read, their leaves, and whether a glance told that they
# share no memory.
_Read = tuple[tuple[Any, ...], ArgumentGuard, tuple[Any, ...], bool]


def _no_stream(leaves: tuple[Any, ...]) -> int:
    return 0


class Kernel(ByName, Introspection[Parameters, Result]):
    """A function whose kernel-level loops run as one graph. Made by ``@qgraph.kernel``.

    Calling it runs it; on CUDA the call returns before the device has finished.

    Raises:
        KernelSyntaxError, KernelTypeError, DataRaceError: at the first call with arguments of some types.
        ArgumentError: the arguments do not fit; nothing has run.
        BackendError: the backend cannot run here.
        CudaError: the driver reported a failure.
    """

    # What calls read and write, in places that take no look-up: the dictionary is for what a function has.
    __slots__ = ("_cache", "_ran", "_reads_disk", "_recent", "_vjp")

    def __init__(self, function: Callable[Parameters, Result], options: Options) -> None:
        functools.update_wrapper(self, function)
        super().__init__(function, options)
        # What ran last; it knows what it did.
        self._ran = LastRun()
        self._cache = SpecialisationCache(self._lock)
        self._recent = DispatchCache(self._ran, self._lock)
        # Until the cache is cleared.
        self._reads_disk = True
        _KERNELS.add(self)

    @property
    def last_launch(self) -> LastLaunch | None:
        """What the last call did; None before the first one."""
        ran = self._ran.specialisation
        return None if ran is None else ran.launched

    # --- calling -------------------------------------------------------------------------------------------------------

    @for_dynamo
    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run the kernel. Gives what it returns, for which the call then waits."""
        # Most calls are the one before them again.
        recent = self._recent
        last = recent.last
        try:
            if self._vjp is not None and needs_gradient((args, kwargs)):
                return call_traced("torch", self, args, kwargs)
            if last is not None and not kwargs and (known := last.next) is not None:
                # Not called as a method would be, which is slower to find.
                run = known.run
                result: Result = run(args)
                if result is not CHANGED:
                    recent.last = known
                    return result
            try:
                return self._call(args, kwargs)
            except LengthOfOne:
                self._add_ones()
                return self._call(args, kwargs)
            except TracedArray as traced:
                return call_traced(traced.library, self, args, kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
        """A call that is not the one before it again: like another one that there was, or a new one."""
        recent = self._recent
        result: Result
        if self._watched is not None and (result := self._watched.call(args, kwargs)) is not CHANGED:
            return result
        last, recent.last, key = recent.last, None, None
        complete = bool(self._global_arrays)
        if complete:
            args, kwargs = self._complete(self._bind(args, kwargs)), {}
        if not kwargs:
            try:
                key = recent.key(*args)
            except TypeError:  # another number of arguments: there are defaults, or the call is wrong
                key = None
            known = recent.find(key)
            if known is not None and (result := known.run(args)) is not CHANGED:
                # Arguments are all that a guard has to look at where there are no global arrays.
                if not complete and self._watched is None:
                    recent.last = known
                    if last is not None:
                        last.next = known
                return result
        # Only complete positional arguments have a key.
        found: Result = self._run(args if complete or key is not None else self._bind(args, kwargs), key)
        return found

    def _use_arrays(self, arrays: tuple[GlobalArray, ...]) -> None:
        super()._use_arrays(arrays)
        self._forget_calls()
        self._recent.start_anew()

    def _run(self, values: tuple[Any, ...], key: tuple[Any, ...] | None = None) -> Any:
        """Everything from values to a launch, nothing assumed. ``key`` is theirs, where it is known."""
        values, guard, leaves, simple = self._read(values)
        if not guard.variant.stepping:
            return self._start(guard, values, leaves, simple, key)
        taken, leaves = with_steps(guard.variant.stepping, values, leaves)
        try:
            return self._start(guard, values, leaves, simple, key)
        except QGraphError:
            give_back(values, taken)
            raise

    def _start(
        self,
        guard: ArgumentGuard,
        values: tuple[Any, ...],
        leaves: tuple[Any, ...],
        simple: bool,
        key: tuple[Any, ...] | None,
    ) -> Any:
        """Run with these leaves, and cache the call."""
        if guard.stream is None:
            return self._run_between_streams(guard, values, leaves, simple, key)
        launched = self._launch(guard.variant, leaves, simple, guard.stream(leaves))
        self._notice(key, values, launched, guard)
        return launched[2]

    def _notice(self, key: tuple[Any, ...] | None, values: tuple[Any, ...], launched: Launched, guard: ArgumentGuard) -> None:
        """Cache a call, unless none is like another one."""
        if not guard.variant.stepping:
            self._recent.notice(key, values, launched, guard.default)

    def _run_between_streams(
        self,
        guard: ArgumentGuard,
        values: tuple[Any, ...],
        leaves: tuple[Any, ...],
        simple: bool,
        key: tuple[Any, ...] | None,
    ) -> Any:
        """Run on CUDA where several streams may have to wait for each other, or host arrays must be copied."""
        variant = guard.variant
        streams = streams_of(variant, leaves)
        staged = variant.streams.stage_host_arrays(variant, leaves, streams)
        if staged is not None:
            variant.streams.warn_staging()
            moved, finish = staged
            with streams:
                launched = self._launch(variant, moved, False, streams.current(), leaves)
            finish()
            return launched[2]() if launched[0].returns_arrays else launched[2]
        with streams if streams.joined else nullcontext():
            launched = self._launch(variant, leaves, simple, streams.current())
        if not streams.joined:
            self._notice(key, values, launched, guard)
        return launched[2]

    def _launch(
        self,
        variant: Variant,
        leaves: tuple[Any, ...],
        simple: bool,
        stream: int,
        given: tuple[Any, ...] | None = None,
    ) -> Launched:
        """``given``: the caller's leaves where ``leaves`` are copies of them; then arrays are returned as a function."""
        aliases = () if simple else variant.check(leaves)
        specialisation = self._cache.find(variant, aliases, leaves)
        call = specialisation.call(leaves, stream)
        try:
            numbers = self.run_prepared(specialisation, call)
        except CudaError as error:
            self._recover(error, variant)
            specialisation = self._cache.find(variant, aliases, leaves)
            call = specialisation.call(leaves, stream)
            numbers = self.run_prepared(specialisation, call)
        if given is not None and specialisation.returns_arrays:
            # What is copied to the host is there only after the launch is in order with other streams.
            return specialisation, call, functools.partial(specialisation.result, numbers, call, given)
        return specialisation, call, specialisation.result(numbers, call)

    def run_prepared(self, specialisation: Specialisation, call: Call) -> tuple[Any, ...] | None:
        """Launch a call of ``specialisation``, and build it at first; under capture its nodes are added instead."""
        try:
            numbers = (specialisation.executable or self._executable(specialisation, call)).launch(call)
        except StreamCaptured:
            self._ran.specialisation = specialisation.capture(call)
            return None
        self._ran.specialisation = specialisation
        return numbers

    def _recover(self, error: CudaError, variant: Variant) -> None:
        """Make way for what is built anew: what is gone, or takes for granted what does not hold of arrays of ``variant``.

        Any other failure is the caller's to see.
        """
        from qgraph.runtime.driver.driver import ContextLost, ExecutableClosed, UnfitCode

        if isinstance(error, UnfitCode):
            setattr(variant, *error.learned)
            self._close_executables(variant)
        elif isinstance(error, ContextLost):
            self._close_executables()
        elif not isinstance(error, ExecutableClosed):
            raise error

    def _forget_calls(self) -> None:
        """No argument was seen before."""
        self._recent.forget()
        self._cache.forget_guards()

    # --- specialising --------------------------------------------------------------------------------------------------

    def _read(self, values: tuple[Any, ...]) -> _Read:
        """How these values are read, and what was read of them."""
        for guard in self._cache.guards:
            found = guard.read(values)
            if found is not None:
                return values, guard, *found
        while True:
            try:
                return self._describe(values)
            except GlobalArrayFound as found_array:
                self._add_array(found_array.array)
                values = self._complete(values[: len(self._names)])
            except TailFound as found_tail:
                self._add_tail(found_tail)

    def _describe(self, values: tuple[Any, ...]) -> _Read:
        """The same for values of types that were not seen before, or that came with other ones since.

        Raises:
            GlobalArrayFound: the kernel uses a global array that is not among them.
        """
        default = DEFAULTS.backend
        from qgraph.runtime.arguments.guards import reader

        used, arguments = self._described(values)
        arrays = [value for value in arguments.values if isinstance(value, ArrayView)]
        backend, device = choose(self.options.backend, arrays)
        key = (arguments.types, backend, device, tuple(array.place for array in used))
        with self._lock:
            variant = self._cache.variants.get(key)
            if variant is None or not variant.holds():
                if self._cache.drop(key):
                    self._forget_calls()
                what = (self._source, arguments.types, arguments.leaves, backend, device, self.options)
                reads, profiles, rings = self._reads_disk, self._profiles, self._rings
                variant = Variant(*what, global_arrays=used, reads_disk=reads, profiles=profiles, rings=rings)
                self._cache.add(key, variant)
        given = (self._parameters(used), values, arguments, variant.written_leaves, variant.single_leaves)
        conditions, names = still(variant, default)
        read = reader(*given, owned=variant.program.returns_arrays, conditions=conditions, names=names)
        stream = _no_stream if backend != "cuda" else variant.streams.one_stream(arguments.values)
        guard = ArgumentGuard(read, variant, default, stream)
        self._cache.add_guard(guard)
        if len(values) - len(self._global_arrays) == self._positional:
            self._recent.watch_numbers(values)
        return values, guard, arguments.values, False

    def _executable(self, specialisation: Specialisation, call: Call) -> Executable:
        """That of ``specialisation``, built for ``call`` at first."""
        if call.stream and specialisation.executable is None:
            specialisation.variant.streams.before_building(specialisation.variant.device, call.stream)
        with specialisation.lock:
            executable = specialisation.executable
            if executable is None:
                executable = specialisation.build(call)
                with self._lock:
                    self._cache.counts.compilations += 1
                    self._cache.counts.graph_builds += 1
            return executable

    def _close_executables(self, variant: Variant | None = None) -> None:
        """Close all, or those of ``variant`` that are outdated; they are built anew when they are called."""
        with self._lock:
            self._forget_calls()
            self._cache.close(variant)

    def _leave_graphs_behind(self) -> None:
        """In a child process: graphs are the parent's, and nothing of them may be touched."""
        if self._cache.leave_graphs_behind():
            self._forget_calls()

    # --- what it did, and what it holds --------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """What the kernel did so far, as a record of its own."""
        return self._cache.stats()

    @raises_to_user
    def bind(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Bound[Result]:
        """Check the arguments once and keep them; ``.launch()`` replays with them and nothing else."""
        values = self._bind(args, kwargs)
        watched = None if self._watched is None else self._watched.bind(values)
        return self._bound(values) if watched is None else watched

    def _bound(self, values: tuple[Any, ...]) -> Bound[Result]:
        return self._with_ones(lambda: Bound(self, values))

    def clear_cache(self) -> None:
        """Forget all graphs and compiled code; the next call compiles again.

        From now on this process compiles the kernel itself: what lies on the disk is not read, but replaced. Other kernels'
        files stay; ``python -m qgraph cache clear`` removes all.
        """
        with self._lock:
            for profiled in self._profiled.values():
                profiled.clear_cache()
            self._reads_disk = False
            self._close_executables()
            if self._cache.variants:
                forget_code()
            self._cache.clear()

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(
        self: Kernel[Concatenate[Any, Rest], Result], owner: object, cls: type | None = None
    ) -> Method[Rest, Result]: ...
    def __get__(self, owner: object, cls: type | None = None) -> Any:
        return self if owner is None else Method(self, owner)


def _leave_graphs_behind() -> None:
    for kernel_ in list(_KERNELS):
        kernel_._leave_graphs_behind()


in_child(_leave_graphs_behind)


def reset() -> None:
    """Forget every graph, module and buffer on every device; kernels and new arrays work again afterwards.

    Call it after the primary context was destroyed by somebody else, or to give all device memory back.
    """
    for kernel_ in list(_KERNELS):
        kernel_._close_executables()
    from qgraph.runtime.arguments.streams import reset_devices

    reset_devices()


@overload
def kernel(function: Callable[Parameters, Result]) -> Kernel[Parameters, Result]: ...
@overload
def kernel(
    *,
    graph: bool = ...,
    backend: str | None = ...,
    fuse: bool = ...,
    fastmath: bool = ...,
    block_size: int | None = ...,
    bounds_check: bool = ...,
    conditional: str = ...,
) -> Callable[[Callable[Parameters, Result]], Kernel[Parameters, Result]]: ...
@raises_to_user
def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a function as a kernel: its kernel-level loops run in parallel, and the whole call is one graph launch.

    Args:
        function: a plain Python function.

    Keyword Args:
        graph (bool): False launches one kernel a loop instead of a graph.
        backend (str | None): 'cuda', 'cpu' or 'sim'; None takes ``set_backend``'s, else where the arrays live.
        fuse (bool): join loops where no element crosses iterations, and run independent or small ones as one kernel or block.
        fastmath (bool): let floats be reordered and approximated.
        block_size (int | None): threads a block on CUDA, 1 to 1024; None lets qgraph choose, with ``fuse`` one block too.
        bounds_check (bool): look at every index; one that is out of bounds ends the kernel, and the call, or the next that
            waits, raises ``BoundsError``. ``QGRAPH_BOUNDS_CHECK=1`` turns it on for a process.
        conditional (str): 'auto' runs device loops on the device where it can, 'device' insists, 'host' never does.

    Raises:
        KernelSyntaxError: the function has no source, or uses syntax that kernels do not have.
        QGraphError: an option has no such value.
    """
    checked = Options(**options)
    if function is None:
        return raises_to_user(lambda inner: Kernel(inner, checked))
    return Kernel(function, checked)

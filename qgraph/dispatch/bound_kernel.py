"""``Bound``: a kernel with its arguments; ``Method``: a kernel with its first one."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol

import numpy as np

from qgraph.dispatch.specialisation import Specialisation
from qgraph.dispatch.specialisation_cache import SpecialisationCache
from qgraph.dispatch.variant import Variant
from qgraph.errors import ArgumentError, BackendError, CudaError, NothingRan, StreamCaptured
from qgraph.ir.global_arrays import GlobalArray, Place
from qgraph.language import Parameters, Result
from qgraph.pickling import not_pickled
from qgraph.runtime.executors.launch_records import Executable
from qgraph.runtime.values.array_view import ArrayView, changed_in_place
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from qgraph.stack import hide_frames, raises_to_user

if TYPE_CHECKING:
    from qgraph.checking.checker import CheckReport
    from qgraph.ir.plan import GraphPlan

_NUMBERS = (bool, int, float, complex, np.generic)
_Launch = Callable[..., Any]


class _Kernel(Protocol):
    # What binding needs of a kernel: the steps of a call, one by one.
    _ran: Any
    _cache: SpecialisationCache
    _global_arrays: tuple[GlobalArray, ...]
    _names: tuple[str, ...]

    def _complete(self, values: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def _read(self, values: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...], bool]: ...

    def _executable(self, specialisation: Specialisation, call: Call) -> Executable: ...

    def _run(self, values: tuple[Any, ...]) -> Any: ...

    def _recover(self, error: CudaError, variant: Variant) -> None: ...


class Bound(Generic[Result]):
    """A kernel with its arguments: made by ``kernel.bind(...)``. It owns the arrays, and so does its ``launch``."""

    launch: Callable[..., Result]
    """``launch()`` runs the kernel with the arguments it is bound to; gives what it returns. It raises as a call does.

    ``launch(alpha=0.1)`` takes other numbers for this launch, for arguments of the kernel that are numbers, of the types that
    they were bound with.
    """

    __reduce__ = not_pickled(
        "a bound kernel cannot be pickled or copied: it is launched by code of this process",
        "pickle the kernel and its arguments, and bind them there",
    )

    def __init__(self, kernel: _Kernel, values: tuple[Any, ...]) -> None:
        self._arguments = arguments = _Arguments(kernel, values)
        arguments.bound = weakref.ref(self)
        self.launch = arguments.launcher()

    @property
    @raises_to_user
    def graph(self) -> Any:
        """The CUDA graph itself, with these arguments: ``handle`` is the CUgraph, ``executable`` the CUgraphExec.

        They are valid while this object lives and the kernel keeps the graph: not after ``clear_cache``, ``reset``, or a call
        with sizes that need another graph. Ask again then.

        Raises:
            BackendError: the kernel does not run as one CUDA graph here.
        """
        arguments = self._arguments
        if arguments.backend != "cuda":
            found = f"there is no CUDA graph on the {arguments.backend} backend"
            raise BackendError(found, hint="bind a kernel with backend='cuda'")
        if arguments.staged:
            raise BackendError(
                "this kernel is bound to NumPy arrays, which each launch copies to the device anew",
                hint="bind it to arrays on the device: qgraph.asarray(x, backend='cuda')",
            )
        if arguments.specialisation.returns_arrays:
            raise BackendError(
                "this kernel returns arrays, which are new ones at each launch",
                hint="pass an array for the result, and write to that",
            )
        if arguments.specialisation.variant.stepping:
            raise BackendError(
                "this kernel is bound to a generator of random numbers, of which each launch takes a step",
                hint="keep a step in an array that the kernel counts up: qgraph.random.normal(seed, i, step[0])",
            )
        if arguments.specialisation.executable is not arguments.executable or not arguments.holds():
            self.launch = arguments.launcher()
        try:
            return arguments.executable.graph(arguments.call)
        except CudaError as error:
            arguments.make_good(error)
        return arguments.executable.graph(arguments.call)


class Method(Generic[Parameters, Result]):
    """A kernel found on an instance: the instance is its first argument."""

    reference: Callable[Parameters, Result]
    bind: Callable[Parameters, Bound[Result]]
    plan: Callable[Parameters, GraphPlan]
    check: Callable[Parameters, CheckReport]

    def __init__(self, kernel: Any, owner: object) -> None:
        self.kernel = kernel
        self._owner = owner

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run the kernel on the instance; gives what it returns."""
        run: Callable[..., Result] = self.kernel
        try:
            return run(self._owner, *args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    def __reduce__(self) -> tuple[type[Method], tuple[Any, object]]:
        return Method, (self.kernel, self._owner)

    # Not the kernel's.
    def __deepcopy__(self, memo: dict[int, Any]) -> Method:
        return Method(self.kernel, copy.deepcopy(self._owner, memo))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.kernel, name)
        return (
            functools.partial(value, self._owner) if name in ("bind", "reference", "plan", "ptx", "check", "profile") else value
        )


class _Arguments:
    """What is bound. The function that launches holds it, and it does not hold that function: arrays are let go of at once.

    Attributes:
        values: the arguments, global arrays included.
        backend: where the kernel runs.
        staged: whether each launch copies host arrays to the device.
        call: the arguments, taken apart.
        specialisation: of the kernel, for them.
        holds: tells whether what was compiled in is what it was.
        executable: what the function launches.
        bound: whose function it is, while that lives.
    """

    bound: Callable[[], Bound | None]

    def __init__(self, kernel: _Kernel, values: tuple[Any, ...]) -> None:
        self.bound = lambda: None
        self._kernel = kernel
        self._given = values
        # Global arrays, as they were when they were first met.
        self._owned: dict[Place, Any] = {}
        self._look()

    def _look(self) -> None:
        """Find what the kernel is for these arguments now."""
        kernel = self._kernel
        self.values, guard, leaves, simple = self._read()
        self._variant = variant = guard.variant
        self.holds = variant.holds
        self._aliases = () if simple else variant.check(leaves)
        self.backend = variant.backend
        self.staged: bool = variant.backend == "cuda" and any(leaves[index].device is None for index in variant.arrays)
        self.specialisation = kernel._cache.find(variant, self._aliases, leaves)
        self.executable: Any = None
        # The numbers are of the program for this alias pattern: another one may need other ones.
        self.call = Call(leaves, self.specialisation.host_values(leaves), 0)

    @property
    def _calls(self) -> bool:
        """Whether a launch is a call of its own: arrays are copied, or made, for each."""
        return self.staged or self.specialisation.returns_arrays or bool(self._variant.stepping)

    def _read(self) -> tuple[tuple[Any, ...], Any, tuple[Any, ...], bool]:
        kernel, given = self._kernel, self._given
        values = kernel._complete(given)
        while True:
            arrays = zip(kernel._global_arrays, values[len(given) :], strict=False)
            mine = (*given, *(self._owned.setdefault(array.place, value) for array, value in arrays))
            found = kernel._read(mine)
            values = found[0]
            if len(values) == len(mine):
                return found

    def launcher(self) -> _Launch:
        """A function that launches. What it launches is built at first, and when it is another one, or gone."""
        kernel = self._kernel
        if not self.holds():
            self._look()
        if self.staged or self._variant.stepping:
            return self._launch_anew_each_time
        self.specialisation = kernel._cache.find(self._variant, self._aliases, self.call.values)
        if self.specialisation.returns_arrays:
            return self._launch_anew_each_time
        self.executable = kernel._executable(self.specialisation, self.call)
        again = self.specialisation.again(self.executable, self.call, held=True)
        if again is None:
            run = functools.partial(_launch_as_bound, self.executable, self.call)
            again = ReplayCode((), {"run": run}, lambda _arrays: ["numbers = run()"])
        names = {
            **again.names,
            "arguments": self,
            "specialisation": self.specialisation,
            "executable": self.executable,
            "value": self.specialisation.value,
            "ran": kernel._ran,
            "CudaError": CudaError,
            "hide_frames": hide_frames,
            "holds": self.holds,
        }
        lines = [
            "def launch(**other):",
            "    try:",
            "        if other: return arguments.launch_with(other)",
            "        if specialisation.executable is not executable or not holds():",
            "            return arguments.launch_anew()",
            "        try:",
            *(f"            {line}" for line in again.statements([])),
            "        except CudaError as error:",
            "            return arguments.launch_after(error)",
            "        ran.specialisation = specialisation",
            "        return None if numbers is None else value(numbers)",
            "    except Exception as error:",
            "        hide_frames(error)",
            "        raise",
        ]
        exec(compile("\n".join(lines), "<qgraph launch>", "exec"), names)
        # The names must not hold the function.
        launch: _Launch = names.pop("launch")
        return launch

    def launch_with(self, numbers: dict[str, Any]) -> Any:
        """Launch once with other numbers, by the names of the kernel's arguments.

        Raises:
            ArgumentError: an argument does not exist, is no number, or had another type.
        """
        values = dict(zip(self._kernel._names, self._given, strict=False))
        for name, number in numbers.items():
            if name not in values:
                raise ArgumentError(
                    f"the kernel has no argument `{name}`", hint=f"its arguments are {', '.join(values) or 'none'}"
                )
            if not isinstance(values[name], _NUMBERS) or type(values[name]) is not type(number):
                bound, given = type(values[name]).__name__, type(number).__name__
                raise ArgumentError(
                    f"`{name}` was bound as {bound}, " + ("no number" if bound == given else f"and launched with {given}"),
                    hint="a launch takes other numbers, of the same types; bind other arguments anew",
                )
        return self._kernel._run((*{**values, **numbers}.values(), *self.values[len(self._given) :]))

    @raises_to_user
    def _launch_anew_each_time(self, **numbers: Any) -> Any:
        if numbers:
            return self.launch_with(numbers)
        return self._kernel._run(self.values) if self.holds() else self.launch_anew()

    def launch_anew(self) -> Any:
        """Launch what the kernel has built since, or builds now."""
        launch = self._new_launcher()
        return self._kernel._run(self.values) if self._calls else launch()

    def launch_after(self, error: CudaError) -> Any:
        """Launch after a failure, where that can be made good; raises it otherwise. Under capture, add nodes instead."""
        if isinstance(error, StreamCaptured):
            try:
                self._kernel._ran.specialisation = self.specialisation.capture(error.call)
            except NothingRan as unfit:
                # The code was built for another call.
                self._kernel._recover(unfit, self._variant)
                return self._kernel._run(self.values)
            return None
        return self.make_good(error)()

    def make_good(self, error: CudaError) -> _Launch:
        """Build anew what a failure took away, and give what launches it; raises it where nothing can be done."""
        self._kernel._recover(error, self._variant)
        return self._new_launcher()

    def _new_launcher(self) -> _Launch:
        launch = self.launcher()
        bound = self.bound()
        if bound is not None:
            bound.launch = launch
        return launch


def _launch_as_bound(executable: Executable, call: Call) -> Any:
    """Launch ``call``, unless the arrays of the host that it has were changed in place."""
    if any(isinstance(value, ArrayView) and value.is_stale() for value in call.values):
        raise changed_in_place()
    return executable.launch(call)

"""What a kernel would do with arguments: its meaning, graph, code and reasons. Nothing is kept, and no GPU is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qgraph import forks
from qgraph.dispatch.variant import Variant
from qgraph.errors import ArgumentError, CudaError, KernelSyntaxError
from qgraph.explaining.explanation import Explanation
from qgraph.frontend.syntax.parse import SourceFunction, parse
from qgraph.hosts.names import named
from qgraph.ir.argument_types import LengthOfOne, TailFound, check_annotation
from qgraph.ir.artifacts import Extents, equal_shapes
from qgraph.ir.global_arrays import GlobalArray, GlobalArrayFound, Namespace, is_array
from qgraph.ir.plan import GraphPlan
from qgraph.ir.profile_places import Profiles
from qgraph.language import Func, Parameters, Result
from qgraph.options import Options
from qgraph.runtime.values.generators import as_plain_python
from qgraph.runtime.values.host_values import integers_of
from qgraph.runtime.values.prepared_call import captures
from qgraph.runtime.values.temporaries import array_shapes
from qgraph.stack import compiling, raises_to_user

if TYPE_CHECKING:
    from qgraph.checking.checker import CheckReport
    from qgraph.profiling.profile import Profile
    from qgraph.runtime.arguments.flatten import Arguments


Found = TypeVar("Found")
Function = TypeVar("Function", bound=Callable[..., Any])


class Introspection(Generic[Parameters, Result]):
    """A function as a kernel that can be looked at: its parameters, the global arrays that it uses, and what it would do."""

    # What ran last, of the kernel that runs.
    _ran: Any

    def __init__(self, function: Callable[Parameters, Result], options: Options) -> None:
        self.options = options
        self._source: SourceFunction = parse(function, "@qgraph.kernel")
        self._func = Func(function, lambda: self._source)
        parameters = self._source.signature.parameters
        for parameter in parameters.values():
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
                raise KernelSyntaxError(
                    f"a kernel cannot take `{stars}{parameter.name}`",
                    self._source.span,
                    hint="give each argument a name, or pass a tuple",
                )
        self._names = tuple(parameters)
        # Arrays in global variables that were found to be used: passed after the arguments.
        self._global_arrays: tuple[GlobalArray, ...] = ()
        # Arrays whose last axes are taken apart, by path, and how many axes: their extents are part of the types.
        self._tails: dict[str, int] = {}
        # Whether the axes of extent 1 are, too: since a call whose arrays are repeated along such a one.
        self._ones = False
        self._positional = sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters.values())
        self._lock = forks.rlock()
        # For other libraries' compilers, and its gradients by the user's function.
        self._traced_name = named(self)
        self._vjp: Callable[..., Any] | None = None
        # What its calls note for a profile; and the kernels of this function whose calls note something, once asked for.
        self._profiles: Profiles = ""
        self._profiled: dict[Profiles, Any] = {}
        # What holds the array that takes what calls publish; and who watches calls of this kernel, where somebody does.
        self._rings: Namespace | None = None
        self._watched: Any = None
        self._watchers: Any = None

    @property
    def __qgraph_kernel__(self) -> Func:
        """What a kernel is to another kernel that calls it; of the class, so that what wraps a kernel is none."""
        return self._func

    # --- arguments ------------------------------------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The values of all parameters, defaults included."""
        if not kwargs and len(args) == len(self._names) == self._positional:
            return args
        try:
            bound = self._source.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"{self._source.name}() was called with the wrong arguments: {error}",
                self._source.span,
                hint=f"its parameters are {', '.join(self._names) or 'none'}",
            ) from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def _complete(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of all parameters, and after them the global arrays that are known to be used, as they are now."""
        arrays = self._global_arrays
        found = tuple(array.value for array in arrays)
        if all(map(is_array, found)):
            return values + found
        # One is a number now, or gone: the kernel must be looked at again.
        self._use_arrays(tuple(array for array in arrays if is_array(array.value)))
        return self._complete(values)

    def _use_arrays(self, arrays: tuple[GlobalArray, ...]) -> None:
        """From now on the global arrays that are passed are ``arrays``."""
        self._global_arrays = arrays

    def _add_array(self, array: GlobalArray) -> None:
        with self._lock:
            taken = {*self._names, *(other.path for other in self._global_arrays)}
            while array.path in taken:
                array = replace(array, path=f"global {array.path}")
            if all(other.place != array.place for other in self._global_arrays):
                self._use_arrays((*self._global_arrays, array))

    def _add_tail(self, found: TailFound) -> None:
        with self._lock:
            self._tails = {**self._tails, found.path: max(found.axes, self._tails.get(found.path, 0))}
            self._use_arrays(self._global_arrays)

    def _add_ones(self) -> None:
        with self._lock:
            self._ones = True
            self._use_arrays(self._global_arrays)

    def _with_ones(self, step: Callable[[], Found]) -> Found:
        """What ``step`` gives, once more where the kernel must be compiled for the extents that are 1."""
        try:
            return step()
        except LengthOfOne:
            self._add_ones()
            return step()

    def _parameters(self, arrays: tuple[GlobalArray, ...]) -> tuple[str, ...]:
        """How the user writes all that is passed."""
        return (*self._names, *(array.path for array in arrays))

    def _described(self, values: tuple[Any, ...]) -> tuple[tuple[GlobalArray, ...], Arguments]:
        """The global arrays among ``values``, and all of them described; no leaf takes a name of the function."""
        from qgraph.runtime.arguments.flatten import describe

        # Another thread may have found one more since.
        used = self._global_arrays[: len(values) - len(self._names)]
        code = self._source.function.__code__
        reserved = frozenset((*code.co_varnames, *code.co_names, *code.co_freevars))
        found = describe(self._parameters(used), values, reserved, self._source.static, self._tails, ones=self._ones)
        for name, type_ in found.types if self._source.arrays else ():
            annotation = self._source.arrays.get(name)
            if annotation is not None:
                check_annotation(name, annotation, type_, self._source.parameter_span(name))
        return used, found

    # --- looking --------------------------------------------------------------------------------------------------------

    @raises_to_user
    def reference(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """The specification: the function as CPython runs it, on NumPy arrays, in place."""
        from qgraph.frontend.bodies.reference import run_reference

        values = self._bind(args, kwargs)
        with as_plain_python(values):
            result: Result = run_reference(self._source, dict(zip(self._names, values, strict=True)))
            return result

    @raises_to_user
    def plan(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> GraphPlan:
        """The graph for these arguments, before it is built; needs no GPU, and runs nothing.

        It is that of CUDA, but for a kernel that was decorated with ``backend="cpu"``.
        """
        backend = "cpu" if self.options.backend == "cpu" else "cuda"
        variant, leaves = self._describe_only(self._bind(args, kwargs), backend)
        return variant.plan_of(leaves)

    @raises_to_user
    def ptx(self, *args: Any, cc: tuple[int, int] = (9, 0), **kwargs: Any) -> dict[str, str]:
        """The PTX of every task for compute capability ``cc``, by task name, as a first call compiles it; needs no GPU."""
        from qgraph.lowering.compile import compile_ptx

        variant, leaves = self._describe_only(self._bind(args, kwargs), "cuda")
        plan = variant.plan_of(leaves)
        shapes = array_shapes(plan.program, leaves, integers_of(plan.program, leaves))
        return compile_ptx(plan, cc, self.options, extents=Extents(equal=equal_shapes(shapes)))[1]

    @raises_to_user
    @compiling
    def explain(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Explanation:
        """The plan with its reasons: of edges and grids, what iterations take, what could be otherwise. Needs no GPU."""
        from qgraph.explaining.explainer import explained

        backend = "cpu" if self.options.backend == "cpu" else "cuda"
        variant, leaves = self._describe_only(self._bind(args, kwargs), backend)
        plan, fused = variant.plan_of(leaves), None
        if backend == "cuda" and not self.options.fuse:
            what = (self._source, variant.types, variant.leaves, backend, 0, replace(self.options, fuse=True))
            fused = Variant(*what, global_arrays=variant.global_arrays, runs=False, rings=self._rings).plan_of(leaves)
        return explained(plan, fused, integers_of(plan.program, leaves), self.options)

    @raises_to_user
    def check(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> CheckReport:
        """Run the kernel as plain Python means it, on copies of the arguments, and watch every access to an element.

        The parallel loops of the kernel run in order on one thread of the CPU, wherever the arrays live. Where nothing is wrong
        it runs again in other orders of iterations, with an ``OrderDependentWarning`` if the answer is another one. Of several
        findings the first in program order is raised, and ``findings`` of the error has all.

        Returns:
            What was looked at, and what was not.

        Raises:
            DataRaceError: two iterations of a parallel loop touch one element, and one of them writes; both lines.
            BoundsError: an index is out of bounds; the run ends there.
            UnwrittenError: an element of a temporary is read that nobody wrote.
            QGraphError: a call with these arguments is refused, too.
        """
        from qgraph.checking.checker import check, refused

        values = self._bind(args, kwargs)
        with refused():
            return self._with_ones(lambda: check(*self._describe_only(values, "cpu", checks=True)))

    @raises_to_user
    def profile(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Profile:
        """Call the kernel with the clock read between its tasks: the time of each, and of device loops their iterations.

        The call does what a call does, on the arguments themselves. It is compiled apart: the first one warms up.
        Tasks run one after another. On CUDA each kernel notes when it begins, behind its wait for the one before it. In a block
        that watches this kernel the profile has the rows that the call told, too.

        Raises:
            CudaError: a stream is being captured into a graph: nothing ran.
            QGraphError: a call with these arguments is refused, too.
        """
        return self._profile("times", args, kwargs)

    @raises_to_user
    def profile_gaps(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Profile:
        """A profile with the launch gaps: the last 32 blocks of each kernel note when they end.

        By that a kernel takes up to a microsecond longer; ``profile`` has the truer times. Off CUDA there are no launch gaps.

        Raises:
            CudaError: a stream is being captured into a graph: nothing ran.
            QGraphError: a call with these arguments is refused, too.
        """
        return self._profile("gaps", args, kwargs)

    def _profile(self, what: Profiles, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Profile:
        from qgraph.arrays import to_numpy
        from qgraph.explaining.explainer import loop_costs
        from qgraph.profiling.copy_bandwidth import copy_bandwidth
        from qgraph.profiling.profile import profile_of

        if captures():
            raise CudaError("a call that is captured into a graph has no profile: nothing ran", hint="profile it outside")
        kind: Any = type(self)
        with self._lock:
            profiled = self._profiled.get(what)
            if profiled is None:
                profiled = self._profiled[what] = kind(self._source.function, self.options)
                profiled._profiles = what
        watch = None if self._watched is None else self._watched.of(profiled)
        with profiled._lock:
            with watch or nullcontext():
                found = profiled(*args, **kwargs)
            ran = profiled._ran.specialisation
        result, words = found if isinstance(found, tuple) else (None, found)
        # Waits, and raises what the call left to be told.
        words = to_numpy(words)
        tree = self._source.tree
        source = self._source.file, tree.lineno, tree.end_lineno or tree.lineno
        runner = profiled if watch is None else profiled._watchers.kernel
        given = runner._described(runner._complete(self._bind(args, kwargs)))[1].values
        costs = (cost for each in loop_costs(ran.plan, integers_of(ran.plan.program, given)).values() for cost in each)
        moved = {cost.span: cost.iterations * cost.traffic.memory for cost in costs if cost.iterations and cost.traffic.memory}
        copied = copy_bandwidth(kind, ran.variant.backend, ran.variant.device) if moved else None
        told = None if watch is None else watch.history
        return profile_of(self._source.name, source, result, ran, words, moved, copied, told)

    def vjp(self, function: Function) -> Function:
        """Mark a function, or a kernel, as the gradients of this kernel: its vector-Jacobian product.

        PyTorch's autograd then records calls with tensors that require a gradient, eagerly and in ``torch.compile``, and JAX
        differentiates calls in reverse.

        Args:
            function: is called with the arguments of the call, arrays as they were before it; then with the results: the arrays
                that it changed, in the order of arguments and as new ones, and the arrays that it made; then with a cotangent
                for each result of floats or complex numbers, of its shape. It returns a gradient, or None, for each argument
                that is an array of these, in order. A kernel that fills arrays is called in a function that makes them. What
                it is given is kept until then, and of an array that is changed three copies are made.

        Returns:
            The function, as it is.
        """
        self._vjp = function
        return function

    def _describe_only(self, values: tuple[Any, ...], backend: str, *, checks: bool = False) -> tuple[Variant, tuple[Any, ...]]:
        """A variant to look at, for any backend: nothing is cached and nothing needs a device."""
        while True:
            used, found = self._described(self._complete(values))
            given = (self._source, found.types, found.leaves, backend, 0, self.options)
            try:
                profiles, rings = self._profiles, self._rings
                variant = Variant(*given, global_arrays=used, runs=False, checks=checks, profiles=profiles, rings=rings)
                if not variant.meets_ones(found.values):
                    return variant, found.values
                self._add_ones()
            except GlobalArrayFound as missing:
                self._add_array(missing.array)
            except TailFound as missing:
                self._add_tail(missing)
            except LengthOfOne:
                self._add_ones()

    def __repr__(self) -> str:
        return f"<qgraph.kernel {self._source.function.__qualname__}>"

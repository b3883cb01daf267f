"""One kernel for one choice of argument types, backend and device: its program, and the plans that come of it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from qgraph.errors import ArgumentError
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType, Leaf, Type
from qgraph.ir.blocks import MOST_SHARED
from qgraph.ir.global_arrays import GlobalArray, Namespace
from qgraph.ir.plan import GraphPlan
from qgraph.ir.profile_places import Profiles
from qgraph.ir.program import Program
from qgraph.options import Options
from qgraph.runtime.values.aliasing import alias_pattern, overlaps_itself
from qgraph.runtime.values.generators import stepping_leaves
from qgraph.runtime.values.host_values import HostValues, integers_of

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


def _refuse_half(leaves: tuple[Leaf, ...]) -> None:
    for leaf in leaves:
        if leaf.type.dtype == "float16":
            raise ArgumentError(
                f"argument `{leaf.path}` is float16, which Numba cannot compile for the CPU",
                hint="use float32 on the cpu backend, or backend='cuda'",
            )

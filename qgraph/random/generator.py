"""``qgraph.random.Generator``."""

from __future__ import annotations

import operator

from qgraph import forks
from qgraph.frontend.func_decorator import own_func
from qgraph.language import Static
from qgraph.operations.random_numbers import exponential, integers, normal, uniform
from qgraph.runtime.values.generators import TAKEN

# What each step adds to the seed: 2**64 over the golden ratio, so that the seeds of 2**64 steps differ.
_STEP = 0x9E3779B97F4A7C15


class Generator:
    """An argument of kernels that gives other numbers in each call: ``rng.normal(i)`` is ``normal(rng.key, i)``.

    Each call of a kernel, and each ``launch()`` of a bound one, takes a step of each generator among its arguments, whatever
    the kernel does with it, and so does each ``kernel.reference(...)``; what raises takes none. The function itself,
    as plain Python, takes none: ``rng.advance()`` does. Threads may share a generator: no two calls have the same step. In one
    call different counters give different numbers, at least one of which is needed.

    Args:
        seed: an integer of 64 bits.
        step: how many steps were taken before.
    """

    __qgraph_fields__ = ("key",)

    def __init__(self, seed: int, step: int = 0) -> None:
        self._seed, self._step = operator.index(seed), operator.index(step)
        self._lock = forks.lock()

    @property
    def seed(self) -> int:
        """What it was made with."""
        return self._seed

    @property
    def step(self) -> int:
        """The step that the next call takes; to assign another one goes there."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        with self._lock:
            self._step = operator.index(step)

    @property
    def key(self) -> int:
        """The seed of this step, as an integer of 64 bits; at step 0 it is ``seed``."""
        return self.key_of(TAKEN.get().get(id(self), self._step))

    def key_of(self, step: int) -> int:
        """The key of a step."""
        return (self._seed + step * _STEP + (1 << 63) & (1 << 64) - 1) - (1 << 63)

    def advance(self, steps: int = 1) -> int:
        """Take steps; gives the first one."""
        with self._lock:
            step = self._step
            self._step = step + operator.index(steps)
        return step

    def give_back(self, step: int) -> None:
        """Go back to ``step``, the last one that was taken."""
        with self._lock:
            # Unless somebody has taken one since.
            if self._step == step + 1:
                self._step = step

    def __reduce__(self) -> tuple[type[Generator], tuple[int, int]]:
        return Generator, (self._seed, self._step)

    def __repr__(self) -> str:
        return f"Generator({self._seed}, step={self._step})"

    @own_func
    def uniform(self, i, j=0, k=0, l=0, *, dtype: Static = None, size: Static = None):  # type: ignore[no-untyped-def] # noqa: E741
        """``qgraph.random.uniform`` of this step."""
        return uniform(self.key, i, j, k, l, dtype=dtype, size=size)

    @own_func
    def normal(self, i, j=0, k=0, l=0, *, dtype: Static = None, size: Static = None):  # type: ignore[no-untyped-def] # noqa: E741
        """``qgraph.random.normal`` of this step."""
        return normal(self.key, i, j, k, l, dtype=dtype, size=size)

    @own_func
    def exponential(self, i, j=0, k=0, l=0, *, dtype: Static = None, size: Static = None):  # type: ignore[no-untyped-def] # noqa: E741
        """``qgraph.random.exponential`` of this step."""
        return exponential(self.key, i, j, k, l, dtype=dtype, size=size)

    @own_func
    def integers(self, i, j=0, k=0, l=0, *, low=0, high, size: Static = None):  # type: ignore[no-untyped-def] # noqa: E741
        """``qgraph.random.integers`` of this step."""
        return integers(self.key, i, j, k, l, low=low, high=high, size=size)

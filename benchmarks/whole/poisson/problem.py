"""What is solved, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "CG, 2-D Poisson"


@dataclass(frozen=True, slots=True)
class Problem:
    """``A x = b`` on a ``side`` by ``side`` grid of float32, zeros around it, from x = 0.

    It ends when ``|r| <= tolerance * |b|``, or after ``limit`` iterations; a tolerance of 0 is never reached.
    """

    side: int
    tolerance: float
    limit: int

    @property
    def size(self) -> str:
        """As in the table."""
        until = f"to {self.tolerance:g}" if self.tolerance else f"{self.limit} iterations"
        return f"{self.side:,}^2, {until}"

    @property
    def traffic(self) -> int | None:
        """Bytes that one call must move; None where the tolerance says how many iterations there are."""
        return None if self.tolerance else self.traffic_of(self.limit)

    @property
    def operations(self) -> int | None:
        """Additions and multiplications of one call; None where the tolerance says how many iterations there are."""
        return None if self.tolerance else self.operations_of(self.limit)

    def traffic_of(self, iterations: int) -> int:
        """Bytes: each sweep reads and writes an element of a vector once, 4 of each unknown at first, then 2, 6 and 3."""
        return (4 + 11 * iterations) * self.side**2 * 4

    def operations_of(self, iterations: int) -> int:
        """Additions and multiplications, as in_qgraph.py has them, but for those of single numbers.

        They are 2 an unknown at first, then 7 (less at the edges), 6 and 2.
        """
        return 2 * self.side**2 + iterations * (15 * self.side**2 - 4 * self.side)

    @property
    def b(self) -> np.ndarray[Any, Any]:
        """The right side, (side, side)."""
        return np.random.default_rng(1).standard_normal((self.side, self.side), np.float32)

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if ``x`` or the number of iterations is wrong: against float64."""
        b, x = self.b.astype(float), np.asarray(found["x"], float)
        if not self.tolerance:
            if found["iterations"] != self.limit:
                raise AssertionError(f"{found['iterations']} iterations, not {self.limit}")
            wanted = reference(self)
            error = np.linalg.norm(x - wanted) / np.linalg.norm(wanted)
            # Sums in float32, in any order; an iteration more or less is a share of 1e-2.
            if not error <= 3e-3:
                raise AssertionError(f"x is off by a share {error:.1e} of its norm after {self.limit} iterations")
            return
        norm = np.linalg.norm(b)
        residual = np.linalg.norm(b - times(x)) / norm
        # Each update of x is rounded, which the residual that the method carries along does not see.
        rounded = np.sqrt(found["iterations"]) * 2.0**-24 * 2.0 * np.linalg.norm(x) / norm
        if not residual <= 1.1 * self.tolerance + rounded:
            raise AssertionError(
                f"|b - A x| is {residual:.1e} |b|, not {self.tolerance:.1e}, and rounding explains {rounded:.1e}"
            )
        if not 1 < found["iterations"] < self.limit:
            raise AssertionError(f"{found['iterations']} iterations")


@functools.lru_cache(maxsize=1)
def reference(problem: Problem) -> np.ndarray[Any, Any]:
    """The right ``x`` after ``limit`` iterations."""
    return conjugate_gradient(problem.b.astype(float), problem.limit)


def times(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``A @ x`` for a grid ``x``: four times each value less its neighbours'."""
    y: np.ndarray[Any, Any] = 4.0 * x
    y[1:] -= x[:-1]
    y[:-1] -= x[1:]
    y[:, 1:] -= x[:, :-1]
    y[:, :-1] -= x[:, 1:]
    return y


def conjugate_gradient(b: np.ndarray[Any, Any], limit: int) -> np.ndarray[Any, Any]:
    """``limit`` iterations from 0, in the precision of ``b``."""
    x = np.zeros_like(b)
    r, p = b.copy(), b.copy()
    rs = np.vdot(r, r)
    for _ in range(limit):
        q = times(p)
        alpha = rs / np.vdot(p, q)
        x += alpha * p
        r -= alpha * q
        previous, rs = rs, np.vdot(r, r)
        p *= rs / previous
        p += r
    return x


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return Problem(32, 0.0, 20), Problem(32, 1e-3, 10_000)
    sides = (256, 512, 1024, 2048)
    return tuple(Problem(side, *how) for side in sides for how in ((0.0, 100), (1e-3, 20_000)))

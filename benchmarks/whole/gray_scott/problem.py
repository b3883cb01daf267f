"""What is advanced, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "Gray-Scott, 2-D"
# How fast u and v diffuse, how fast u is fed and v removed; a step is a unit of time.
SPREAD_U, SPREAD_V, FEED, KILL = 0.16, 0.08, 0.035, 0.06
# Larger squares hold copies of one block of so many elements a side.
BLOCK = 512


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` (an even number) of two substances on a periodic square of ``side``^2 float32 each.

    A step adds the five-point Laplacians, what reacts (u v^2, from u to v), what is fed and what is removed.
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^2, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: each step reads and writes each element of both substances once."""
        return self.steps * self.side**2 * 2 * 2 * 4

    @property
    def operations(self) -> int:
        """Additions and multiplications of one call, as in_qgraph.py has them: 23 an element and step."""
        return self.steps * self.side**2 * 23

    @property
    def block(self) -> int:
        """Elements along a side of what is repeated."""
        return min(self.side, BLOCK)

    @property
    def beginning(self) -> np.ndarray[Any, Any]:
        """Both substances at the beginning, (2, side, side)."""
        copies = self.side // self.block
        return np.tile(seeds(self.block), (1, copies, copies)).astype(np.float32)

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if an element is wrong after the first call: against float64."""
        wanted = reference(self.block, self.steps)
        copies, n = self.side // self.block, self.block
        for name, substance in zip("uv", wanted, strict=True):
            error = np.abs(found[name].reshape(copies, n, copies, n) - substance[:, None, :]).max()
            if not error <= 1e-3:
                raise AssertionError(f"{name} is off by {error:.1e}")


def seeds(side: int) -> np.ndarray[Any, Any]:
    """Nothing but u, and some spots with v."""
    both = np.stack([np.ones((side, side)), np.zeros((side, side))])
    radius = max(side // 50, 2)
    for i, j in np.random.default_rng(7).integers(radius, side - radius, (20, 2)):
        both[:, i - radius : i + radius, j - radius : j + radius] = np.array([0.5, 0.25])[:, None, None]
    return both


def laplacian(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the four neighbours have more."""
    around: np.ndarray[Any, Any] = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)
    return around - 4.0 * x


@functools.lru_cache(maxsize=1)
def reference(side: int, steps: int) -> np.ndarray[Any, Any]:
    """Both substances as they should be."""
    u, v = seeds(side)
    for _ in range(steps):
        reacting = u * v * v
        more_u = SPREAD_U * laplacian(u) - reacting + FEED * (1.0 - u)
        more_v = SPREAD_V * laplacian(v) + reacting - (FEED + KILL) * v
        u += more_u
        v += more_v
    return np.stack([u, v])


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(48, 50),)
    return Problem(512, 1000), Problem(2048, 100), Problem(4096, 20)

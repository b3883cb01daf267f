"""What is advanced, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "lattice-Boltzmann D3Q19"
SPEED = 0.05
OMEGA = 1.2
# Vortices are no larger: larger boxes hold copies of one block of so many cells a side.
BLOCK = 64
# Directions: at rest, the six straight ones, twelve diagonal ones; each is followed by its opposite.
DIRECTIONS = np.array(
    [(0, 0, 0)]
    + [(sign * a, sign * b, sign * c) for a, b, c in ((1, 0, 0), (0, 1, 0), (0, 0, 1)) for sign in (1, -1)]
    + [
        (sign * a, sign * b, sign * c)
        for a, b, c in ((1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1))
        for sign in (1, -1)
    ]
)
WEIGHTS = (1 / 3, *[1 / 18] * 6, *[1 / 36] * 12)


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` (an even number) of decaying Taylor-Green vortices in a periodic box of ``side``^3 float32 cells.

    A step pulls what streams into a cell and relaxes it by ``OMEGA``; the nineteen populations are the first axis.
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^3, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: each step reads and writes each population of each cell once."""
        return self.steps * self.side**3 * 19 * 2 * 4

    @property
    def operations(self) -> int:
        """Additions, multiplications and divisions of one call, as in_qgraph.py has them: 167 a cell and step."""
        return self.steps * self.side**3 * 167

    @property
    def block(self) -> int:
        """Cells along a side of what is repeated."""
        return min(self.side, BLOCK)

    @property
    def vortices(self) -> np.ndarray[Any, Any]:
        """The populations at the beginning, in equilibrium, (19, side, side, side)."""
        copies = (self.side // self.block,) * 3
        return np.tile(equilibrium(*taylor_green(self.block)).astype(np.float32), (1, *copies))

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if the velocities are wrong after the first call: against float64."""
        wanted = reference(self.block, self.steps)
        copies, n = self.side // self.block, self.block
        blocks = velocities(found["f"]).reshape(3, copies, n, copies, n, copies, n)
        error = np.abs(blocks - wanted[:, None, :, None, :, None, :]).max()
        if not error <= 1e-3 * SPEED:
            raise AssertionError(f"a velocity is off by {error:.1e}, the largest was {SPEED}")


def taylor_green(side: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Density and velocities of one vortex along each side."""
    x, y, z = np.meshgrid(*[2.0 * np.pi / side * np.arange(side)] * 3, indexing="ij")
    u = np.stack([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), np.zeros_like(x)])
    return np.ones_like(x), SPEED * u


def equilibrium(rho: np.ndarray[Any, Any], u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The populations that a step tends to."""
    along = 3.0 * np.tensordot(DIRECTIONS.astype(float), u, axes=1)
    weights: np.ndarray[Any, Any] = np.float64(WEIGHTS)[:, None, None, None]
    return weights * rho * (1.0 + along + 0.5 * along**2 - 1.5 * (u * u).sum(axis=0))


def velocities(f: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Momentum over density, (3, side, side, side)."""
    return np.tensordot(DIRECTIONS.T.astype(f.dtype), f, axes=1) / f.sum(axis=0)


@functools.lru_cache(maxsize=1)
def reference(side: int, steps: int) -> np.ndarray[Any, Any]:
    """The right velocities."""
    f = equilibrium(*taylor_green(side))
    for _ in range(steps):
        f = np.stack([np.roll(f[k], tuple(way), axis=(0, 1, 2)) for k, way in enumerate(DIRECTIONS)])
        f += OMEGA * (equilibrium(f.sum(axis=0), velocities(f)) - f)
    return velocities(f)


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(12, 10),)
    return Problem(64, 100), Problem(128, 40), Problem(256, 10)

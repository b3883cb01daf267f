"""What is advanced, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "shallow water, MUSCL"
GRAVITY = 1.0
# A step of time over the width of a cell: a fifth of what the fastest wave takes to cross it, or less.
RATIO = 0.15
# Larger squares hold copies of one block of so many cells a side.
BLOCK = 512


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` steps of water on a periodic square of ``side``^2 cells; depth and momenta are float32, the first axis.

    The change of a cell is what its four faces let through: Rusanov's flux between values that slopes limited by minmod give.
    A step is Heun's method (SSP, two stages).
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^2, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: of each cell's three numbers a step reads 1 + 2 and writes 1 + 1."""
        return self.steps * self.side**2 * 3 * 5 * 4

    @property
    def operations(self) -> int:
        """Additions, multiplications, divisions and roots of one call, as in_qgraph.py has them.

        They are 492 a cell and step: each cell computes the fluxes of its four faces. Minima, maxima and signs do not count.
        """
        return self.steps * self.side**2 * 492

    @property
    def block(self) -> int:
        """Cells along a side of what is repeated."""
        return min(self.side, BLOCK)

    @property
    def beginning(self) -> np.ndarray[Any, Any]:
        """Depth and momenta along the first and second axis at the beginning, (3, side, side)."""
        copies = self.side // self.block
        return np.tile(drops(self.block), (1, copies, copies)).astype(np.float32)

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if a number is wrong after the first call: against float64."""
        copies, n = self.side // self.block, self.block
        blocks = found["q"].reshape(3, copies, n, copies, n)
        error = np.abs(blocks - reference(n, self.steps)[:, None, :, None, :]).max()
        if not error <= 1e-3:
            raise AssertionError(f"a depth or momentum is off by {error:.1e}; the water is 1 deep")


def drops(side: int) -> np.ndarray[Any, Any]:
    """Water of depth 1 that turns slowly, with a dam that breaks and some drops in it."""
    x = 2.0 * np.pi / side * np.arange(side)
    depth = np.ones((side, side))
    depth[side // 8 : side // 4, side // 8 : side // 2] = 1.3
    away = (np.arange(side) - side / 2) ** 2
    for i, j in np.random.default_rng(11).integers(0, side, (12, 2)):
        square = np.add.outer(np.roll(away, i), np.roll(away, j))
        depth += 0.1 * np.exp(-square / (side / 64 + 2.0) ** 2)
    along, across = 0.1 * np.outer(np.ones(side), np.sin(x)), 0.1 * np.outer(np.sin(x), np.ones(side))
    return np.stack([depth, depth * along, -depth * across])


@functools.lru_cache(maxsize=1)
def reference(side: int, steps: int) -> np.ndarray[Any, Any]:
    """Depth and momenta as they should be."""
    q = drops(side)
    for _ in range(steps):
        once = q + change(q)
        q = 0.5 * (q + once + change(once))
    return q


def change(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a step of Euler's method adds."""
    across = through(q[[0, 2, 1]].swapaxes(1, 2)).swapaxes(1, 2)[[0, 2, 1]]
    total: np.ndarray[Any, Any] = through(q) + across
    return total


def through(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the faces between cells that follow along the first axis let through; ``q[1]`` is the momentum along it."""
    before, after = q - np.roll(q, 1, 1), np.roll(q, -1, 1) - q
    slope = np.where(before * after > 0.0, np.where(np.abs(before) < np.abs(after), before, after), 0.0)
    left, right = q + 0.5 * slope, np.roll(q - 0.5 * slope, -1, 1)
    speed = np.maximum(*(np.abs(side[1] / side[0]) + np.sqrt(GRAVITY * side[0]) for side in (left, right)))
    flux = 0.5 * (carried(left) + carried(right) - speed * (right - left))
    return RATIO * (np.roll(flux, 1, 1) - flux)


def carried(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The flux of water in one state."""
    u = q[1] / q[0]
    return np.stack([q[1], q[1] * u + 0.5 * GRAVITY * q[0] ** 2, q[2] * u])


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(32, 20),)
    return Problem(512, 200), Problem(2048, 40)

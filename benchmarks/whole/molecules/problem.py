"""What moves, and when an answer is right."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "molecular dynamics, 3-D"
DENSITY, TEMPERATURE, CUTOFF, STEP = 0.8442, 1.44, 2.5, 0.005
# Particles for which a cell has room: it holds some 16, and 32 of the lattice at most.
CAPACITY = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` of velocity Verlet for 4 ``blocks``^3 particles, which begin on a face-centred lattice; in Lennard-Jones units.

    Positions, velocities and forces are float32, (particles, 3). In a step each particle takes a place in the cell that it is
    in, and its force is the sum over those in its cell and the 26 around it that are nearer than ``CUTOFF``.
    """

    blocks: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.particles:,} particles, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move, where a sweep reads or writes an element once.

        Of each cell a step clears, reads, writes and reads the count. Of each particle it reads position, velocity and force
        and writes position, velocity and place; then it reads position, place and velocity and writes force and velocity.
        """
        return self.steps * (4 * self.cells**3 + 11 * 3 * self.particles) * 4

    @property
    def operations(self) -> int:
        """Additions, multiplications and divisions of one call, as in_qgraph.py has them, about.

        They are counted for particles spread evenly: 8 for each that is looked at and 14 more for each that is near enough.
        """
        near = 4.0 / 3.0 * math.pi * CUTOFF**3 * DENSITY
        looked_at = 27 * self.particles / self.cells**3
        return int(self.steps * self.particles * (8 * looked_at + 14 * near))

    @property
    def particles(self) -> int:
        """How many there are."""
        return 4 * self.blocks**3

    @property
    def box(self) -> float:
        """How long a side of the box is."""
        return float((self.particles / DENSITY) ** (1 / 3))

    @property
    def cells(self) -> int:
        """Cells along a side, each no smaller than the distance of what is near."""
        return int(self.box / CUTOFF)

    @property
    def lattice(self) -> np.ndarray[Any, Any]:
        """The positions at the beginning, where no force is: (particles, 3)."""
        corners = np.array(list(itertools.product(range(self.blocks), repeat=3)))[:, None]
        faces = np.array([(0.25, 0.25, 0.25), (0.25, 0.75, 0.75), (0.75, 0.25, 0.75), (0.75, 0.75, 0.25)])
        return (self.box / self.blocks * (corners + faces).reshape(-1, 3)).astype(np.float32)

    @property
    def velocities(self) -> np.ndarray[Any, Any]:
        """The velocities at the beginning, without a common one: (particles, 3)."""
        v = math.sqrt(TEMPERATURE) * np.random.default_rng(13).standard_normal((self.particles, 3))
        return (v - v.mean(axis=0)).astype(np.float32)

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if a position or velocity is wrong after the first call: against float64.

        In so few steps the order of sums counts for little. A pair at the very cut-off may be near in one precision only, which
        changes a velocity by 2e-4.
        """
        x, v = reference(self)
        away = found["x"] - x
        away -= self.box * np.round(away / self.box)
        for name, error, limit in (("position", np.abs(away).max(), 1e-3), ("velocity", np.abs(found["v"] - v).max(), 1e-2)):
            if not error <= limit:
                raise AssertionError(f"a {name} is off by {error:.1e}")


@functools.lru_cache(maxsize=1)
def reference(problem: Problem) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Positions and velocities as they should be."""
    x, v = problem.lattice.astype(float), problem.velocities.astype(float)
    force = np.zeros_like(x)
    for _ in range(problem.steps):
        v += 0.5 * STEP * force
        x = (x + STEP * v) % problem.box
        force = forces(x, problem.box)
        v += 0.5 * STEP * force
    return x, v


def forces(x: np.ndarray[Any, Any], box: float) -> np.ndarray[Any, Any]:
    """The sum of each particle's forces: from pairs of those in cells that touch, each pair once."""
    n, m = len(x), int(box / CUTOFF)
    cell = np.minimum((x * (m / box)).astype(int), m - 1)
    cell_of = np.ravel_multi_index(tuple(cell.T), (m, m, m))
    order, counts = np.argsort(cell_of), np.bincount(cell_of, minlength=m**3)
    place = np.arange(n) - (np.cumsum(counts) - counts)[cell_of[order]]
    table = np.full((m**3, counts.max()), -1)
    table[cell_of[order], place] = order
    force = np.zeros_like(x)
    for beside in itertools.product((-1, 0, 1), repeat=3):
        there = table[np.ravel_multi_index(tuple((cell + beside).T), (m, m, m), mode="wrap")]
        i, k = np.nonzero(there > np.arange(n)[:, None])
        j = there[i, k]
        away = x[i] - x[j]
        away -= box * np.round(away / box)
        square = (away * away).sum(axis=1)
        near = square < CUTOFF**2
        i, j, away, sixth = i[near], j[near], away[near], square[near] ** -3
        push = (24.0 * sixth * (2.0 * sixth - 1.0) / square[near])[:, None] * away
        for axis in range(3):
            force[:, axis] += np.bincount(i, push[:, axis], n) - np.bincount(j, push[:, axis], n)
    return force


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(5, 10),)
    return Problem(16, 20), Problem(32, 10)

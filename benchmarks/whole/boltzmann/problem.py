"""What is advanced, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "lattice-Boltzmann D2Q9"
LID = 0.1
OMEGA = 1.2
# Directions as (across, along): at rest, four straight ones, four diagonal ones; their weights; which is opposite to which.
ACROSS = (0, 0, 1, 0, -1, 1, 1, -1, -1)
ALONG = (0, 1, 0, -1, 0, 1, -1, -1, 1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` (an even number) of a fluid at rest in a box of ``side`` by ``side`` float32 cells.

    The last row lies under a lid that moves along at speed ``LID``. A step pulls what streams into a cell, bounces at the
    walls half-way between cells, and relaxes by ``OMEGA``; the nine populations are the first axis.
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^2, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: each step reads and writes each population of each cell once."""
        return self.steps * self.side**2 * 9 * 2 * 4

    @property
    def operations(self) -> int:
        """Additions, multiplications and divisions of one call, as in_qgraph.py has them: 107 a cell and step.

        What the lid adds to its row does not count.
        """
        return self.steps * self.side**2 * 107

    @property
    def rest(self) -> np.ndarray[Any, Any]:
        """The populations of a fluid at rest, (9, side, side)."""
        return np.broadcast_to(np.float32(WEIGHTS)[:, None, None], (9, self.side, self.side)).copy()

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if the velocities are wrong after the first call: against float64."""
        wanted = reference(self)
        error = np.abs(velocities(np.asarray(found["f"], float)) - wanted).max()
        if not error <= 1e-3 * LID:
            raise AssertionError(f"a velocity is off by {error:.1e}, the lid's is {LID}")
        if not np.abs(wanted).max() > 0.1 * LID:
            raise AssertionError("nothing moves")


@functools.lru_cache(maxsize=1)
def reference(problem: Problem) -> np.ndarray[Any, Any]:
    """The right velocities."""
    return velocities(advance(problem.rest.astype(float), problem.steps))


def velocities(f: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Along and across, (2, side, side)."""
    along, across = (np.tensordot(np.float64(way), f, axes=1) for way in (ALONG, ACROSS))
    return np.stack([along, across]) / f.sum(axis=0)


def advance(f: np.ndarray[Any, Any], steps: int) -> np.ndarray[Any, Any]:
    """The populations ``steps`` later, by whole arrays."""
    pulled = np.empty_like(f)
    for _ in range(steps):
        for k in range(9):
            pulled[k] = np.roll(f[k], (ACROSS[k], ALONG[k]), axis=(0, 1))
            for edge, outside in _walls(k):
                pulled[k][edge] = f[OPPOSITE[k]][edge] + 6.0 * WEIGHTS[k] * ALONG[k] * LID * (outside == "lid")
        rho = pulled.sum(axis=0)
        u, v = (np.tensordot(np.float64(way), pulled, axes=1) / rho for way in (ALONG, ACROSS))
        square = 1.5 * (u * u + v * v)
        for k in range(9):
            c = 3.0 * (ALONG[k] * u + ACROSS[k] * v)
            f[k] = (1.0 - OMEGA) * pulled[k] + OMEGA * WEIGHTS[k] * rho * (1.0 + c + 0.5 * c * c - square)
    return f


def _walls(k: int) -> list[tuple[Any, str]]:
    """The edges that direction ``k`` enters from outside; the lid last, because the corners under it belong to it."""
    edges: list[tuple[Any, str]] = []
    if ALONG[k]:
        edges.append(((slice(None), 0 if ALONG[k] > 0 else -1), "wall"))
    if ACROSS[k] > 0:
        edges.append(((0, slice(None)), "wall"))
    if ACROSS[k] < 0:
        edges.append(((-1, slice(None)), "lid"))
    return edges


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(32, 40),)
    return Problem(128, 1000), Problem(512, 200), Problem(2048, 10)

"""What is advanced, and when an answer is right."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "FDTD, 2-D TM"
COURANT = 1 / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` steps of a pulse in a box of ``side`` by ``side`` float32; all three fields are arrays of that shape.

    ``ez`` lies at the corners of the cells and stays 0 on the walls; of ``hx`` the last column, of ``hy`` the last row, and of
    both what lies on the far walls is not used.
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^2, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: each of the two sweeps of a step reads and writes an element of a field once."""
        n = self.side
        magnetic = n * n - 1 + 4 * (n - 1) ** 2
        electric = 2 * (n - 2) ** 2 + 2 * (n - 1) * (n - 2)
        return self.steps * (magnetic + electric) * 4

    @property
    def operations(self) -> int:
        """Additions and multiplications of one call, as in_qgraph.py has them: 6 and 5 where a step writes."""
        return self.steps * (6 * (self.side - 1) ** 2 + 5 * (self.side - 2) ** 2)

    @property
    def pulse(self) -> np.ndarray[Any, Any]:
        """The electric field at the beginning, off the middle; there is no magnetic field then."""
        x = np.arange(self.side)
        along = np.exp(-(((x - self.side / 3) / 6) ** 2))
        across = np.exp(-(((x - self.side / 2) / 6) ** 2))
        field: np.ndarray[Any, Any] = np.outer(along, across).astype(np.float32)
        field[0] = field[-1] = field[:, 0] = field[:, -1] = 0.0
        return field

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if a field is wrong after the first call: against float64."""
        wanted = reference(self)
        for name, field in zip(("ez", "hx", "hy"), wanted, strict=True):
            error = np.abs(found[name] - field).max() / np.abs(field).max()
            if not error <= 1e-3:
                raise AssertionError(f"{name} is off by a share {error:.1e} of its largest value")


@functools.lru_cache(maxsize=1)
def reference(problem: Problem) -> tuple[np.ndarray[Any, Any], ...]:
    """The right fields."""
    return advance(problem.pulse.astype(float), problem.steps)


def advance(ez: np.ndarray[Any, Any], steps: int) -> tuple[np.ndarray[Any, Any], ...]:
    """The fields ``steps`` later, by whole arrays."""
    hx, hy = np.zeros_like(ez), np.zeros_like(ez)
    for _ in range(steps):
        hx[:-1, :-1] -= COURANT * (ez[:-1, 1:] - ez[:-1, :-1])
        hy[:-1, :-1] += COURANT * (ez[1:, :-1] - ez[:-1, :-1])
        curl = hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]
        ez[1:-1, 1:-1] += COURANT * curl
    return ez, hx, hy


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(64, 50),)
    return Problem(256, 1000), Problem(1024, 400), Problem(2048, 100)

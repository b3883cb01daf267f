"""What is advanced, and when an answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TITLE = "heat, 3-D, 7 points"
ALPHA = 0.1


@dataclass(frozen=True, slots=True)
class Problem:
    """``steps`` (an even number) of heat in a cube of ``side``^3 float32, 0 at its walls, which are elements too.

    A step adds ``ALPHA`` times the sum of the differences from the six neighbours.
    """

    side: int
    steps: int

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.side:,}^3, {self.steps:,} steps"

    @property
    def traffic(self) -> int:
        """Bytes that one call must move: each step writes each inner element once, and reads it and the walls' faces once."""
        inner = self.side - 2
        return self.steps * (2 * inner**3 + 6 * inner**2) * 4

    @property
    def operations(self) -> int:
        """Additions and multiplications of one call, as in_qgraph.py has them: 9 an inner element and step."""
        return self.steps * (self.side - 2) ** 3 * 9

    @property
    def beginning(self) -> np.ndarray[Any, Any]:
        """The temperatures at the beginning, (side, side, side)."""
        return waves(self.side, 0).astype(np.float32)

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if a temperature is wrong after the first call: against float64."""
        error = np.abs(found["u"] - waves(self.side, self.steps)).max()
        if not error <= 1e-4:
            raise AssertionError(f"a temperature is off by {error:.1e}; each wave begins with 1")


def waves(side: int, steps: int) -> np.ndarray[Any, Any]:
    """The sum of three standing waves, long to short, each of which a step multiplies by a number of its own."""
    total = np.zeros((side, side, side))
    for k in (1, max(side // 64, 1), max(side // 16, 1)):
        angles = np.pi / (side - 1) * np.array([k, 2 * k, 3 * k])
        along = np.sin(angles[:, None] * np.arange(side))
        along[:, -1] = 0.0
        kept = 1.0 - 4.0 * ALPHA * (np.sin(angles / 2.0) ** 2).sum()
        total += np.einsum("i,j,k->ijk", kept**steps * along[0], along[1], along[2])
    return total


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(24, 20),)
    return Problem(128, 100), Problem(256, 40), Problem(512, 10)

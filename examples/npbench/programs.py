"""Programs by name, each with arguments for it: ``linear_algebra``, ``grids`` and ``data`` register theirs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """``function``: plain NumPy, and the kernel; ``make(n)``: arguments that ``n`` scales; ``size``: that of the tests."""

    function: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    size: int


PROGRAMS: dict[str, Program] = {}


def program(make: Callable[[int], tuple[Any, ...]], size: int = 6) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, make, size)
        return function

    return register


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Floats in [0, 1), the same each time."""
    return np.random.default_rng((seed, *shape)).random(shape)


def positive_definite(n: int) -> np.ndarray:
    """A symmetric matrix whose factors are well conditioned."""
    factor = numbers(n, n)
    return factor @ factor.T / n + n * np.eye(n)

"""Runs raw_tiles.cu: what several sweeps for a pass over memory cost in CUDA C, and a copy; the source is frozen."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from benchmarks import raw_c

SOURCE = Path(__file__).resolve().with_suffix(".cu")
# What qgraph is measured against does not change beside it.
SHA256 = "c7d64f39061099a8c4ef18c3b607e51bb8c33a012767581efcf5bc58e2206aaa"


def jacobi(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain sweep over ``n`` x ``n`` float32, and the quickest of all tiles: microseconds a sweep, and the shape."""
    plain, *tiles = _answers("jacobi", n)
    return plain, min(tiles, key=lambda row: row["microseconds"])


def copy_rate(n: int) -> float:
    """Gigabytes a second, read and written, of a copy of ``n`` x ``n`` float32 on the device."""
    (row,) = _answers("copy", n)
    return 2 * 4 * n * n / row["microseconds"] / 1e3


def _answers(what: str, n: int) -> list[dict[str, Any]]:
    return raw_c.answers(SOURCE, [what, str(n)])


def unchanged() -> bool:
    """Whether the program in C is the one that results are compared with."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest() == SHA256

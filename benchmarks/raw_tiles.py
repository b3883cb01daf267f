"""Runs raw_tiles.cu, raw_converging.cu and raw_planes.cu: several sweeps for a pass over memory in CUDA C; all are frozen."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from benchmarks import raw_c

SOURCE, CONVERGING, PLANES = (
    Path(__file__).resolve().with_name(f"raw_{name}.cu") for name in ("tiles", "converging", "planes")
)
# What qgraph is measured against does not change beside it.
SHA256 = {
    SOURCE: "c7d64f39061099a8c4ef18c3b607e51bb8c33a012767581efcf5bc58e2206aaa",
    CONVERGING: "b61b31e4a5a005a0c08a4a65b5e593e123bb9f70b89cbeb6d3a71dc995eeb764",
    PLANES: "9d3067a059e11b44107107e0bb01a047cae033835436f5bca2c64e191899171d",
}


def jacobi(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain sweep over ``n`` x ``n`` float32, and the quickest of all tiles: microseconds a sweep, and the shape."""
    plain, *tiles = _answers("jacobi", n)
    return plain, min(tiles, key=lambda row: row["microseconds"])


def converging(n: int, sweeps: int) -> dict[str, Any]:
    """The same, until the most that a cell changes by says so, or for so many sweeps: of all tiles the quickest."""
    return min(raw_c.answers(CONVERGING, [str(n), str(sweeps)]), key=lambda row: row["microseconds"])


def averaged(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The quickest plain sweep over ``n`` x ``n`` x ``n`` float32, six neighbours, and the quickest of all tiles."""
    rows = sorted(raw_c.answers(PLANES, [str(n)]), key=lambda row: row["microseconds"])
    return next(row for row in rows if row["sweeps"] == 1), next(row for row in rows if row["sweeps"] > 1)


def copy_rate(n: int) -> float:
    """Gigabytes a second, read and written, of a copy of ``n`` x ``n`` float32 on the device."""
    (row,) = _answers("copy", n)
    return 2 * 4 * n * n / row["microseconds"] / 1e3


def _answers(what: str, n: int) -> list[dict[str, Any]]:
    return raw_c.answers(SOURCE, [what, str(n)])


def unchanged() -> bool:
    """Whether the programs in C are those that results are compared with."""
    return all(hashlib.sha256(source.read_bytes()).hexdigest() == known for source, known in SHA256.items())

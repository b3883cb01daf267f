"""The limit of a program on this machine: what moves its bytes at the rate of a copy, or does its operations at the peak.

After Williams, Waterman and Patterson, Roofline: an insightful visual performance model (CACM 52, 2009).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks import plots, timing
from benchmarks.results import Target

# Units for float32 of a multiprocessor, by compute capability; each multiplies and adds once a clock.
_UNITS = {(8, 0): 64}
_UNITS_ELSE = 128
# The least share of the limit, of programs whose iterations move as much as this: reading and writing 2048 x 2048 float32.
LEAST = 0.85
LARGE = 2 * 4 * 2048**2 / 1e6
COPIED = 2**29


def columns(problem: Any, iterations: int | None, microseconds: float) -> dict[str, Any]:
    """What a call must move and do, in millions, and which share of its time that takes at least.

    Nothing where the problem does not tell: its ``traffic`` is None, and it has no ``traffic_of(iterations)``.
    """
    traffic, operations = problem.traffic, problem.operations
    if traffic is None and iterations and hasattr(problem, "traffic_of"):
        traffic, operations = problem.traffic_of(iterations), problem.operations_of(iterations)
    if traffic is None:
        return {}
    turns = iterations or getattr(problem, "steps", None) or 1
    copy, peak = copy_rate(), peak_rate()
    found = {"MB": traffic / 1e6, "Mflop": operations / 1e6, "MB a turn": traffic / turns / 1e6}
    found |= {"copy MB/us": copy, "peak Mflop/us": peak, "share": max(found["MB"] / copy, found["Mflop"] / peak) / microseconds}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


@functools.cache
def copy_rate() -> float:
    """Megabytes a microsecond that a copy on the device reads and writes."""
    import qgraph
    from benchmarks.bandwidth import device_copy

    to, of = (qgraph.zeros(COPIED, "uint8", backend="cuda") for _ in range(2))
    took = timing.total(device_copy(to, of, COPIED), qgraph.synchronize, calls=20, repeats=5)
    return 2 * COPIED / took.median / 1e6


@functools.cache
def peak_rate() -> float:
    """Millions of operations on float32 a microsecond, by the number of units and the highest clock: nominal, not measured."""
    from cuda.core import Device

    device = Device(0)
    units = _UNITS.get(tuple(device.compute_capability), _UNITS_ELSE)
    return float(device.properties.multiprocessor_count * units * 2 * device.properties.clock_rate / 1e9)


def targets(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """The share that rows of qgraph with much memory reach."""
    large = (row for row in rows if row["peer"] == "qgraph" and row.get("MB a turn", 0) >= LARGE)
    return [Target(f"{row[key]}, {row['size']}: share of the limit", row["share"], ">=", LEAST) for row in large]


def draw(record: dict[str, Any], file: Path) -> None:
    """Operations a second over operations a byte, a point a row of qgraph, below the roof."""
    rows = [row for row in record["rows"] if row["peer"] == "qgraph" and "share" in row]
    figure, axes = plots.figure("Programs below the roof: operations on float32", record, width=8.5, height=5.2)
    copy, peak = (max((row[name] for row in rows), default=1.0) for name in ("copy MB/us", "peak Mflop/us"))
    low, high = 0.2, 60.0
    axes.plot([low, peak / copy, high], [low * copy, peak, peak], color=plots.INK, linewidth=1.4)
    marks = "osD^vP*XhdpH"
    for mark, program in zip(marks, dict.fromkeys(row["program"] for row in rows), strict=False):
        points = [row for row in rows if row["program"] == program]
        xs = [row["Mflop"] / row["MB"] for row in points]
        ys = [row["Mflop"] / row["us"]["median"] for row in points]
        axes.scatter(xs, ys, marker=mark, s=[16 + 14 * k for k in range(len(points))], label=program)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel("operations a byte that must be moved (points of a program: larger is a larger problem)")
    axes.set_ylabel("10^12 operations a second")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")
    plots.save(figure, file)

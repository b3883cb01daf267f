"""What does ``scalar.update`` cost? Beside the driver's own asynchronous copy, called from Python too; us of the CPU."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device
from benchmarks.results import Answer, Target
from qgraph.runtime.driver.driver import device as context

COLUMNS = ("update", "size", "peer", "us", "ratio")
DRIVER = "the driver's copy"
MOST = 1.5


def begin(device: Device) -> Answer:
    """An answer without rows."""
    return Answer("scalar_update", "An update of one value on the device: us of the CPU", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """One row a way."""
    from cuda.bindings import driver

    alpha = qgraph.scalar(part, 1, backend="cuda")
    x = qgraph.empty((), part, backend="cuda")
    element = np.zeros((), part)
    target, source, nbytes = x.__cuda_array_interface__["data"][0], element.ctypes.data, element.nbytes

    def copy() -> None:
        (code,) = driver.cuMemcpyHtoDAsync(target, source, nbytes, 0)
        assert code == 0

    measures = {
        way: functools.partial(timing.cpu, action, qgraph.synchronize)
        for way, action in {"qgraph": lambda: alpha.update(2), DRIVER: copy}.items()
    }
    with context(0).activate():
        parts.add_rows(answer, part, 1, parts.in_turns(measures, rounds=1 if quick else 5), {})
    alpha.update(3)
    assert alpha.value == 3


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """At most 1.5 times the driver's."""
    return [
        Target(f"{row[key]}: time of an update over {DRIVER}", round(1 / row["ratio"], 3), "<=", MOST, "x")
        for row in rows
        if row["peer"] == DRIVER
    ]


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: the two ways."""
    names = dict.fromkeys(row["update"] for row in record["rows"])
    rows = [{"update": each, **{r["peer"]: r["us"] for r in record["rows"] if r["update"] == each}} for each in names]
    figure, axes = plots.figure("An update of one value on the device", record)
    plots.bars(axes, {**record, "rows": rows}, "update", ("qgraph", DRIVER))
    axes.set_ylabel("microseconds of the CPU")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(
        parts.main(begin, {each: functools.partial(measure, each) for each in ("float32", "float64")}, draw, judge)
    )

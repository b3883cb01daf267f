"""Do random numbers of a loop keep up with those of libraries that fill whole arrays? float32, us for all of them.

``python -m benchmarks.random_numbers [--only "normal" ...] [--quick]``
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device, Run, require
from benchmarks.results import Answer, Target

COLUMNS = ("numbers", "size", "peer", "us", "ratio")
COUNT, QUICK = 1 << 26, 1 << 16
CURAND, PYTORCH, ALONE = "cuRAND, host API, Philox", "PyTorch", "qgraph, one number of each block"
PEERS = (CURAND, PYTORCH, ALONE)
# Of cuRAND's rate.
WANTED = 0.8
# Mean and variance.
MOMENTS = {"normal": (0.0, 1.0), "uniform": (0.5, 1 / 12)}


def _normal(x, seed):
    for i in range(x.shape[0]):
        x[i, 0], x[i, 1], x[i, 2], x[i, 3] = qgraph.random.normal(seed, i, size=4)


def _uniform(x, seed):
    for i in range(x.shape[0]):
        x[i, 0], x[i, 1], x[i, 2], x[i, 3] = qgraph.random.uniform(seed, i, size=4)


def _normal_alone(x, seed):
    for i in range(x.shape[0]):
        for j in range(4):
            x[i, j] = qgraph.random.normal(seed, i, j)


def _uniform_alone(x, seed):
    for i in range(x.shape[0]):
        for j in range(4):
            x[i, j] = qgraph.random.uniform(seed, i, j)


_LOOPS = {"normal": (_normal, _normal_alone), "uniform": (_uniform, _uniform_alone)}


def begin(device: Device) -> Answer:
    """An answer without rows."""
    where = "_cpu" if device == "cpu" else ""
    return Answer(f"random_numbers{where}", "Random numbers, float32: us for all of them", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one distribution: mean and variance of each peer's numbers are looked at, then all take turns."""
    count = QUICK if quick else COUNT
    makers: dict[str, Callable[..., Run]] = {
        "qgraph": functools.partial(_qgraph, alone=False),
        CURAND: _curand,
        PYTORCH: _torch,
        ALONE: functools.partial(_qgraph, alone=True),
    }
    measures = {}
    for peer, make in makers.items():
        run = parts.attempt(answer, part, peer, functools.partial(checked, make, part, count, device))
        if run is not None:
            measures[peer] = functools.partial(timing.total, run.action, run.wait, calls=20, repeats=3 if quick else 9)
    parts.add_rows(answer, part, count, parts.in_turns(measures, rounds=1 if quick else 5), {})


def checked(make: Callable[..., Run], part: str, count: int, device: Device) -> Run:
    """A peer's program, whose numbers have the mean and variance that they shall have."""
    run = make(part, count, device)
    run.action()
    run.wait()
    x = run.answer()["x"].astype(np.float64)
    mean, variance = MOMENTS[part]
    assert x.size == count
    assert abs(x.mean() - mean) < 6 * (variance / count) ** 0.5, x.mean()
    assert abs(x.var() - variance) < 10 * variance / count**0.5, x.var()
    return run


def _qgraph(part: str, count: int, device: Device, *, alone: bool) -> Run:
    kernel = qgraph.kernel(backend=device)(_LOOPS[part][alone])
    x = qgraph.zeros((count // 4, 4), np.float32, backend=device)
    return Run(lambda: kernel(x, 7), qgraph.synchronize, lambda: {"x": qgraph.to_numpy(x)})


def _curand(part: str, count: int, device: Device) -> Run:
    require("cupy", device)
    import cupy
    from cupy.cuda import curand

    generator = curand.createGenerator(curand.CURAND_RNG_PSEUDO_PHILOX4_32_10)
    curand.setPseudoRandomGeneratorSeed(generator, 7)
    x = cupy.zeros(count, np.float32)

    def action() -> None:
        if part == "normal":
            curand.generateNormal(generator, x.data.ptr, count, 0.0, 1.0)
        else:
            curand.generateUniform(generator, x.data.ptr, count)

    return Run(action, cupy.cuda.Device().synchronize, lambda: {"x": cupy.asnumpy(x)})


def _torch(part: str, count: int, device: Device) -> Run:
    require("torch", device)
    import torch

    x = torch.zeros(count, device="cuda")
    fill = x.normal_ if part == "normal" else x.uniform_
    return Run(fill, torch.cuda.synchronize, lambda: {"x": x.cpu().numpy()})


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """At least 0.8 of cuRAND's rate."""
    return [
        Target(f"{row[key]}: rate over that of {CURAND}", row["ratio"], ">=", WANTED, "x")
        for row in rows
        if row["peer"] == CURAND
    ]


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of all numbers, relative to that of qgraph."""
    plots.ratios(record, file, "numbers", PEERS, title="Random numbers, float32", what="all numbers")


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {part: functools.partial(measure, part) for part in _LOOPS}, draw, judge=judge))

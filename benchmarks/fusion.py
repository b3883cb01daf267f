"""What does ``fuse=True`` gain? Independent loops in one kernel, and elementwise loops joined, against one written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, raw_c, timing
from benchmarks.launch import expect
from benchmarks.raw_c import Missing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Action, Timing

BACKEND = "cuda"
INDEPENDENT = (2, 4, 8, 16)
# Elements of the large loops.
SIZE = 2**26
PEERS = ("qgraph", "qgraph, fuse=True", "by hand", "raw C")


def elementwise(x, y, a):  # noqa: C901 - it is what is measured
    """Ten loops, each over what the one before it wrote."""
    for i in range(x.shape[0]):
        y[i] = x[i] + a
    for i in range(x.shape[0]):
        y[i] = y[i] * a
    for i in range(x.shape[0]):
        y[i] = y[i] - x[i]
    for i in range(x.shape[0]):
        y[i] = y[i] * y[i]
    for i in range(x.shape[0]):
        y[i] = y[i] + a
    for i in range(x.shape[0]):
        y[i] = y[i] * a
    for i in range(x.shape[0]):
        y[i] = y[i] - x[i]
    for i in range(x.shape[0]):
        y[i] = y[i] * a
    for i in range(x.shape[0]):
        y[i] = y[i] + x[i]
    for i in range(x.shape[0]):
        y[i] = y[i] * a


def by_hand(x, y, a):
    """The same as one loop."""
    for i in range(x.shape[0]):
        t = (x[i] + a) * a - x[i]
        y[i] = (((t * t + a) * a - x[i]) * a + x[i]) * a


def measure(quick: bool) -> Answer:
    """Microseconds a call, end to end."""
    answer = Answer("fusion", f"fuse=True: independent loops of {chains.N:,} float32, and ten joined, us", ("loops", *PEERS))
    size = SIZE // 64 if quick else SIZE
    actions: dict[tuple[str, str], Action] = {}
    for count in INDEPENDENT:
        for peer in PEERS[:2]:
            actions[f"{count} independent", peer] = _independent(count, fuse=peer != "qgraph")
    joined = f"10 elementwise, {size:,} elements"
    actions |= {(joined, peer): action for peer, action in _elementwise(size).items()}
    samples: dict[tuple[str, str], list[Timing]] = {}
    for _ in range(1 if quick else 3):
        for (row, peer), action in actions.items():
            calls = 500 if row != joined else 20
            samples.setdefault((row, peer), []).append(timing.total(action, qgraph.synchronize, calls=calls, repeats=5))
        _raw(samples, answer)
    for row in dict.fromkeys(row for row, _ in samples):
        found = {peer: timing.middle(timings).as_json() for (name, peer), timings in samples.items() if name == row}
        answer.rows.append({"loops": row, **found})
    _targets(answer)
    return answer


def _independent(count: int, *, fuse: bool) -> Action:
    """A call with ``count`` loops that share no array, once its answer is right."""
    kernel = qgraph.kernel(backend=BACKEND, fuse=fuse)(chains.independent(count))
    arrays = [qgraph.asarray(np.zeros(chains.N, np.float32), backend=BACKEND) for _ in range(count)]
    kernel(*arrays, 1.0)
    qgraph.synchronize()
    for array in arrays:
        expect(qgraph.to_numpy(array), 1.0, f"{count} independent loops")
    if kernel.last_launch.nodes != (1 if fuse else count):
        raise AssertionError(f"{kernel.last_launch.nodes} nodes for {count} independent loops")
    return lambda: kernel(*arrays, 1.0)


def _elementwise(size: int) -> dict[str, Action]:
    """Calls of the ten loops, apart and joined, and of the one by hand, once they agree."""
    host = np.random.default_rng(0).random(size, np.float32)
    x, y = (qgraph.asarray(host, backend=BACKEND) for _ in range(2))
    kernels: dict[str, Callable[..., Any]] = {
        "qgraph": qgraph.kernel(backend=BACKEND)(elementwise),
        "qgraph, fuse=True": qgraph.kernel(backend=BACKEND, fuse=True)(elementwise),
        "by hand": qgraph.kernel(backend=BACKEND)(by_hand),
    }
    answers = []
    for kernel in kernels.values():
        kernel(x, y, 0.5)
        qgraph.synchronize()
        answers.append(qgraph.to_numpy(y))
    for found in answers[1:]:
        # A product and a sum may be one rounding.
        np.testing.assert_allclose(found, answers[0], rtol=1e-5, atol=1e-5)
    return {peer: lambda kernel=kernel: kernel(x, y, 0.5) for peer, kernel in kernels.items()}  # type: ignore[misc]


def _raw(samples: dict[tuple[str, str], list[Timing]], answer: Answer) -> None:
    try:
        for count, found in raw_c.measure("chain", INDEPENDENT).items():
            samples.setdefault((f"{count} independent", "raw C"), []).append(Timing.of([found["graph"]["total"]]))
    except Missing as error:
        answer.missing["raw C"] = str(error)


def _targets(answer: Answer) -> None:
    *_, sixteen, joined = answer.rows
    fused = "qgraph, fuse=True"
    name = "16 independent loops in one kernel, against raw C's chain of 16"
    if "raw C" in sixteen:
        answer.targets.append(Target(name, sixteen[fused]["median"] / sixteen["raw C"]["median"], "<=", 0.2, "x"))
    else:
        answer.missing[f"target: {name}"] = answer.missing.get("raw C", "raw C was not measured")
    ratio = joined[fused]["median"] / joined["by hand"]["median"]
    answer.targets.append(Target("ten elementwise loops joined, against one by hand", ratio, "<=", 1.1, "x"))


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of a call with independent loops."""
    figure, axes = plots.figure("Independent loops: a kernel each, and one for all", record)
    small = {**record, "rows": [row for row in record["rows"] if "independent" in row["loops"]]}
    plots.bars(axes, small, "loops", PEERS)
    axes.set_ylabel("microseconds")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))

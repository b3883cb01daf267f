"""What does a launch cost? 1, 3, 10 and 50 loops of 1,024 float32: numba-cuda launches, qgraph, raw C, PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, raw_c, timing
from benchmarks.raw_c import Missing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Action, Timing

LOOPS = (1, 3, 10, 50)
PEERS = ("numba-cuda", "qgraph, graph=False", "qgraph", "raw C", "PyTorch graph")
CPU = tuple(f"{peer} (CPU)" for peer in PEERS)
CALLS = 500


def measure(quick: bool) -> Answer:
    """End-to-end time and CPU time of a call, for each peer and number of loops."""
    answer = Answer("launch", f"Launch overhead: K loops of {chains.N:,} float32, us a call", ("loops", *PEERS, *CPU))
    loops = LOOPS[:3] if quick else LOOPS
    answer.rows = [{"loops": count} for count in loops]
    makers = {
        "numba-cuda": numba_cuda,
        "qgraph, graph=False": without_graph,
        "qgraph": with_graph,
        "PyTorch graph": torch_graph,
    }
    actions = {peer: _made(make, loops, answer, peer) for peer, make in makers.items()}
    samples: dict[tuple[int, str], list[Timing]] = {}
    # Rounds take turns, so that a clock that changes changes every peer.
    for _ in range(1 if quick else 3):
        _round(samples, actions, loops)
        _raw_round(samples, loops, answer)
    for row in answer.rows:
        for (count, column), timings in samples.items():
            if count == row["loops"]:
                row[column] = timing.middle(timings).as_json()
    answer.targets = targets(answer.rows, answer)
    return answer


Made = dict[int, tuple[Action, Action]]


def _made(make: Callable[[int], tuple[Action, Action]], loops: tuple[int, ...], answer: Answer, peer: str) -> Made:
    try:
        return {count: make(count) for count in loops}
    except (Missing, ImportError) as error:
        answer.missing[peer] = " ".join(str(error).split())
        return {}


def _round(samples: dict[tuple[int, str], list[Timing]], actions: dict[str, Made], loops: tuple[int, ...]) -> None:
    for count in loops:
        for peer, made in actions.items():
            if count in made:
                action, wait = made[count]
                calls = CALLS if peer != "numba-cuda" else max(20, CALLS // count)
                samples.setdefault((count, peer), []).append(timing.total(action, wait, calls=calls, repeats=5))
                samples.setdefault((count, f"{peer} (CPU)"), []).append(timing.cpu(action, wait))


def _raw_round(samples: dict[tuple[int, str], list[Timing]], loops: tuple[int, ...], answer: Answer) -> None:
    try:
        for count, found in raw_c.measure("chain", loops).items():
            for column, key in (("raw C", "total"), ("raw C (CPU)", "cpu")):
                samples.setdefault((count, column), []).append(Timing.of([found["graph"][key]]))
    except Missing as error:
        answer.missing["raw C"] = str(error)


def targets(rows: list[dict[str, Any]], answer: Answer) -> list[Target]:
    """Cost of a loop in a chain against raw C's, and ten loops against numba-cuda's launches."""
    found = []
    first, last = rows[0], rows[-1]
    if all("raw C" in row for row in (first, last)):
        slopes = {peer: _slope(first, last, peer) for peer in ("qgraph", "raw C")}
        name = f"chain, a loop ({first['loops']} to {last['loops']} loops), against raw C"
        found.append(Target(name, slopes["qgraph"] / slopes["raw C"], "<=", 0.7, "x"))
        found += [
            Target(
                f"{row['loops']} loops, a call, against raw C", row["qgraph"]["median"] / row["raw C"]["median"], "<=", 1.1, "x"
            )
            for row in rows
            if row["loops"] >= 10
        ]
    else:
        answer.missing["target: chain against raw C"] = answer.missing.get("raw C", "raw C was not measured")
    ten = next(row for row in rows if row["loops"] == 10)
    if "numba-cuda" in ten:
        ratio = ten["numba-cuda"]["median"] / ten["qgraph"]["median"]
        found.append(Target("10 loops, faster than numba-cuda launches", ratio, ">=", 12, "x"))
    else:
        answer.missing["target: against numba-cuda"] = "numba-cuda was not measured"
    return found


def _slope(first: dict[str, Any], last: dict[str, Any], peer: str) -> float:
    difference: float = last[peer]["median"] - first[peer]["median"]
    return difference / (last["loops"] - first["loops"])


# --- the peers ----------------------------------------------------------------------------------------------------------


def expect(found: np.ndarray, value: float, what: str) -> None:
    """Raise if some element of ``found`` is not ``value``."""
    if not (found == np.float32(value)).all():
        raise AssertionError(f"{what}: {found[:4]}..., not {value}")


def with_graph(loops: int) -> tuple[Action, Action]:
    """A qgraph kernel of ``loops`` loops."""
    return _qgraph(loops, graph=True)


def without_graph(loops: int) -> tuple[Action, Action]:
    """The same with one launch a loop."""
    return _qgraph(loops, graph=False)


def _qgraph(loops: int, *, graph: bool) -> tuple[Action, Action]:
    kernel = qgraph.kernel(backend="cuda", graph=graph)(chains.chain(loops))
    x = qgraph.asarray(np.zeros(chains.N, np.float32), backend="cuda")
    kernel(x, 1.0)
    qgraph.synchronize()
    expect(qgraph.to_numpy(x), loops, f"qgraph, graph={graph}")
    path = kernel.last_launch.path
    if path != ("cuda-graph" if graph else "cuda-stream"):
        raise AssertionError(f"graph={graph} took the path {path}: {kernel.last_launch.reason}")
    return lambda: kernel(x, 1.0), qgraph.synchronize


def numba_cuda(loops: int) -> tuple[Action, Action]:
    """``loops`` launches of a ``@cuda.jit`` kernel."""
    from qgraph.compat.numba_cuda import cuda

    @cuda.jit
    def add(x: Any, a: Any) -> None:
        i = cuda.grid(1)
        if i < x.shape[0]:
            x[i] = x[i] + a

    x = cuda.to_device(np.zeros(chains.N, np.float32))
    a = np.float32(1)
    # Configured once: the cheapest way to launch.
    configured = add[chains.N // chains.BLOCK, chains.BLOCK]

    def run() -> None:
        for _ in range(loops):
            configured(x, a)

    run()
    cuda.synchronize()
    expect(x.copy_to_host(), loops, "numba-cuda")
    return run, cuda.synchronize


def torch_graph(loops: int) -> tuple[Action, Action]:
    """``loops`` additions captured by PyTorch."""
    import torch

    if not torch.cuda.is_available():
        raise Missing("PyTorch is installed without CUDA")
    x = torch.zeros(chains.N, device="cuda")
    x.add_(1.0)
    torch.cuda.synchronize()
    x.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(loops):
            x.add_(1.0)
    graph.replay()
    torch.cuda.synchronize()
    expect(x.cpu().numpy(), loops, "PyTorch graph")
    return graph.replay, torch.cuda.synchronize


def draw(record: dict[str, Any], file: Path) -> None:
    """Time of a call over the number of loops, both logarithmic."""
    figure, axes = plots.figure("Time of one call of K loops, end to end", record)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plots.lines(axes, record, "loops", PEERS)
    ticks = [row["loops"] for row in record["rows"]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.set_xlabel(f"loops in the kernel, {chains.N:,} float32 each")
    axes.set_ylabel("microseconds")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))

"""What does a library's function cost in a device loop? Beside the recorded calls alone, and loops of PyTorch and JAX.

``python -m benchmarks.library_calls [--only matmul ...] [--quick]``

Microseconds a turn of loops over float32, each turn one call whose result is kept: 1,000 turns of short calls, 100 of others,
10 for a solution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device, require
from benchmarks.results import Answer, Target
from benchmarks.timing import Timing

COLUMNS = ("call", "size", "peer", "us", "ratio")
ALONE, COMPUTE = "recorded alone", "cuda.compute"
# How much longer a turn may take than the recorded call, and than that of cuda.compute.
WITHIN = {ALONE: 1.05, COMPUTE: 1.1}


def _matmul(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = a @ x


def _fft(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = np.fft.fft(x)


def _sort(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = np.sort(x)


def _scan(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = np.cumsum(x)


def _cholesky(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = np.linalg.cholesky(a)


def _solve(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = np.linalg.solve(a, x)


# The kernel; its call in PyTorch and in JAX; rows of the matrix, shape of the operand, turns.
_CALLS: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any], int, tuple[int, ...], int]] = {
    "matmul": (_matmul, lambda t, a, x: t.matmul(a, x), lambda j, a, x: j.numpy.matmul(a, x), 512, (512, 512), 1000),
    "matvec": (_matmul, lambda t, a, x: t.matmul(a, x), lambda j, a, x: j.numpy.matmul(a, x), 512, (512,), 1000),
    "matvec, 100 turns": (_matmul, lambda t, a, x: t.matmul(a, x), lambda j, a, x: j.numpy.matmul(a, x), 512, (512,), 100),
    "matvec, long": (_matmul, lambda t, a, x: t.matmul(a, x), lambda j, a, x: j.numpy.matmul(a, x), 2048, (2048,), 1000),
    "fft": (_fft, lambda t, a, x: t.fft.fft(x), lambda j, a, x: j.numpy.fft.fft(x), 1, (1 << 20,), 100),
    "sort": (_sort, lambda t, a, x: t.sort(x, stable=True)[0], lambda j, a, x: j.numpy.sort(x), 1, (1 << 20,), 100),
    "cumsum": (_scan, lambda t, a, x: t.cumsum(x, 0), lambda j, a, x: j.numpy.cumsum(x), 1, (1 << 20,), 1000),
    "cholesky": (
        _cholesky,
        lambda t, a, x: t.linalg.cholesky_ex(a)[0],
        lambda j, a, x: j.numpy.linalg.cholesky(a),
        512,
        (512, 512),
        100,
    ),
    "solve": (
        _solve,
        lambda t, a, x: t.linalg.solve_ex(a, x)[0],
        lambda j, a, x: j.numpy.linalg.solve(a, x),
        512,
        (512,),
        10,
    ),
}
# Where PyTorch writes the result itself, which others do by a copy.
_INTO: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "matvec", "matvec, 100 turns", "matvec, long"), lambda t, a, x, y: t.matmul(a, x, out=y)),
    "cumsum": lambda t, a, x, y: t.cumsum(x, 0, out=y),
}


def begin(device: Device) -> Answer:
    """An answer without rows."""
    return Answer("library_calls", "A library's function in a device loop: us a turn", COLUMNS)


def measure(call: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one call: each peer's answer is checked, then all take turns."""
    kernel, in_torch, in_jax, rows, shape, turns = _CALLS[call]
    require("torch", device)
    import torch

    rng = np.random.default_rng(0)
    matrix = rng.random((rows, rows)).astype(np.float32)
    a = torch.tensor(matrix @ matrix.T + rows * np.eye(rows, dtype=np.float32), device="cuda")
    x = torch.tensor(rng.random(shape).astype(np.float32), device="cuda")
    wanted = in_torch(torch, a, x)
    y = torch.zeros_like(wanted)
    once = functools.partial(_INTO.get(call, lambda t, a, x, y: y.copy_(in_torch(t, a, x))), torch, a, x, y)
    runs: dict[str, Callable[[], Any]] = {
        "qgraph": functools.partial(qgraph.kernel(kernel), a, x, y, turns),
        ALONE: _alone(torch, once, turns),
        "PyTorch": lambda: [once() for _ in range(turns)],
    }
    bare = parts.attempt(answer, call, COMPUTE, functools.partial(_compute, call, x, y)) if call in ("sort", "cumsum") else None
    if bare is not None:
        runs[COMPUTE] = _alone(torch, bare, turns)
    measures: dict[str, Callable[[], Timing]] = {}
    for peer, run in runs.items():
        checked = parts.attempt(answer, call, peer, functools.partial(_checked, torch, run, y, wanted))
        if checked is not None:
            measures[peer] = functools.partial(_time, run, torch.cuda.synchronize, turns)
    jax = parts.attempt(answer, call, "JAX", functools.partial(_in_jax, in_jax, a, x, turns, wanted))
    if jax is not None:
        measures["JAX"] = functools.partial(_time, jax, lambda: None, turns)
    parts.add_rows(answer, call, "x".join(map(str, shape)), parts.in_turns(measures, rounds=1 if quick else 5), {})


def _alone(torch: Any, once: Callable[[], Any], turns: int) -> Callable[[], Any]:
    """The same calls as one graph of PyTorch's, without a loop."""
    once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(turns):
            once()
    replay: Callable[[], Any] = graph.replay
    return replay


def _compute(call: str, x: Any, y: Any) -> Callable[[], Any]:
    """One call of cuda.compute, which has compiled its code and has memory to work in."""
    import torch
    from cuda import compute

    given: dict[str, Any]
    if call == "sort":
        given = {"d_in_keys": x, "d_out_keys": y, "d_in_values": None, "d_out_values": None}
        run: Any = compute.make_radix_sort(**given, order=compute.SortOrder.ASCENDING)
    else:
        given = {"d_in": x, "d_out": y, "op": compute.OpKind.PLUS, "init_value": None}
        run = compute.make_inclusive_scan(**given)
    memory = torch.empty(run(temp_storage=None, num_items=len(x), **given), dtype=torch.uint8, device="cuda")

    def once() -> None:
        current = torch.cuda.current_stream().cuda_stream
        stream = SimpleNamespace(__cuda_stream__=lambda: (0, current))
        run(temp_storage=memory, num_items=len(x), stream=stream, **given)

    return once


def _checked(torch: Any, run: Callable[[], Any], y: Any, wanted: Any) -> bool:
    y.zero_()
    run()
    torch.cuda.synchronize()
    if not torch.allclose(y, wanted, rtol=1e-4, atol=1e-4):
        raise AssertionError(f"{(y - wanted).abs().max().item()} off")
    return True


def _in_jax(function: Callable[..., Any], a: Any, x: Any, turns: int, wanted: Any) -> Callable[[], Any]:
    """A loop of JAX's, whose turns depend on each other so that none is left out; each adds zero to its operand."""
    require("jax", "cuda")
    import jax

    def turn(_: Any, state: Any) -> Any:
        matrix, operand, zero = state
        found = function(jax, matrix + zero, operand + zero)
        return matrix, operand, jax.numpy.real(found.ravel()[0]) * 0

    def last(matrix: Any, operand: Any) -> Any:
        zero = jax.lax.fori_loop(0, turns - 1, turn, (matrix, operand, jax.numpy.float32(0)))[2]
        return function(jax, matrix + zero, operand + zero)

    compiled = jax.jit(last)
    matrix, operand = (jax.numpy.asarray(each.cpu().numpy()) for each in (a, x))
    np.testing.assert_allclose(np.asarray(compiled(matrix, operand)), wanted.cpu().numpy(), rtol=1e-3, atol=1e-3)
    return lambda: compiled(matrix, operand).block_until_ready()


def _time(run: Callable[[], Any], wait: Callable[[], Any], turns: int) -> Timing:
    return timing.total(run, wait, calls=3, repeats=7).each(turns)


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Within 5% of the recorded calls alone, 10% of cuda.compute's, and ahead of the other libraries' loops."""
    return parts.targets(rows, key, {peer: round(1 / most, 4) for peer, most in WITHIN.items()})


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of a turn, relative to qgraph's."""
    peers = (ALONE, COMPUTE, "PyTorch", "JAX")
    plots.ratios(record, file, "call", peers, title="A library's function in a device loop", what="a turn")


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {call: functools.partial(measure, call) for call in _CALLS}, draw, judge))

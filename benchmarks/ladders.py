"""Ladders: 1 to 50 loops, device loops, changed arguments, independent branches, in qgraph, raw C and the peers.

``python -m benchmarks.ladders [--only chain ...] [--without JAX ...] [--quick] [--device cpu]``
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import panels, parts, raw_c, timing
from benchmarks.peers import Device, Run
from benchmarks.results import Answer
from benchmarks.rungs import SETS, Loop, N
from benchmarks.timing import Timing

FUSED = "qgraph, fuse=True"
BARRIERS = "JAX, barriers"
# The name of each peer, and of its library. XLA joins loops, as fuse=True does; barriers ask it to keep them apart.
PEERS = {
    "qgraph": "qgraph",
    FUSED: "qgraph",
    "numba-cuda": "numba",
    "Quadrants": "quadrants",
    "Warp": "warp",
    "PyTorch graph": "torch",
    "JAX": "jax",
    BARRIERS: "jax",
    "CuPy": "cupy",
}
# Peers whose loop is driven by the host: they have none on the device.
HOST_LOOPS = ("numba-cuda", "PyTorch graph", "CuPy")
TITLES = {
    "chain": f"loops in a row over one array of {N:,} float32, us a call",
    "loop": "a do-while of K such loops and a counter, us an iteration",
    "changed": f"the chain with another of {SETS} arrays each call, us a call",
    "branches": "independent loops, each over its own array, us a call",
}
RUNGS = {"chain": (1, 3, 10, 50), "loop": (1, 3, 10), "changed": (1, 3, 10), "branches": (1, 2, 4, 8, 16)}
# What raw C calls each ladder, and where its answer has the time.
RAW_C = {
    "chain": ("chain", "graph"),
    "loop": ("while", "combined"),
    "changed": ("change", "change"),
    "branches": ("fork", "fork"),
}
COLUMNS = ("ladder", "size", "peer", "us", "loop by", "ratio")
# Iterations of a short and a long run, by the device and by the host.
DEVICE, HOST = (100, 4100), (10, 210)


def begin(device: Device) -> Answer:
    """An answer without rows."""
    title = "Ladders: K tiny loops in each library, us; the size is K"
    return Answer("ladders" if device == "cuda" else "ladders_cpu", title, COLUMNS)


def measure(ladder: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one ladder: each peer's answer is checked, then all take turns."""
    present = parts.present(answer, PEERS, device)
    for size in RUNGS[ladder][:2] if quick else RUNGS[ladder]:
        measures: dict[str, Callable[[], Timing]] = {}
        for peer in present:
            make = functools.partial(checked, ladder, peer, size, device, quick)
            made = parts.attempt(answer, ladder, f"{peer}, {size} loops", make)
            if made is not None:
                measures[peer] = made
        times = parts.in_turns(measures, rounds=1 if quick else 3)
        raw = parts.attempt(answer, ladder, "raw C", functools.partial(_raw_c, ladder, size, device))
        if raw is not None:
            times["raw C"] = raw
        by = {peer: "host" if peer in HOST_LOOPS else "device" for peer in times} if ladder == "loop" else {}
        parts.add_rows(answer, ladder, size, times, {"loop by": by})


def checked(ladder: str, peer: str, size: int, device: Device, quick: bool) -> Callable[[], Timing]:
    """A measurement of one rung, once its answer is right."""
    options: dict[str, Any] = {FUSED: {"fuse": True}, BARRIERS: {"barriers": True}}.get(peer, {})
    make = getattr(importlib.import_module(f"benchmarks.rungs.in_{PEERS[peer]}"), ladder)
    made = make(size, device, **options)
    if isinstance(made, Loop):
        return _loop(made, size, host=peer in HOST_LOOPS or device == "cpu")
    return _call(made, calls=SETS if ladder == "changed" else 1, value=1 if ladder == "branches" else size, quick=quick)


def _call(run: Run, *, calls: int, value: int, quick: bool) -> Callable[[], Timing]:
    for _ in range(calls):
        run.action()
    run.wait()
    _expect(run.answer()["x"], value)
    seconds = 0.002 if quick else 0.02
    return lambda: timing.total(
        run.action,
        run.wait,
        calls=timing.calls_for(run.action, run.wait, seconds=seconds, most=500),
        repeats=3 if quick else 5,
    )


def _loop(made: Loop, size: int, *, host: bool) -> Callable[[], Timing]:
    made.prepare(7)
    made.run(7)
    _expect(made.values(), 7 * size)
    few, many = HOST if host else DEVICE
    return lambda: timing.per_iteration(made.run, made.prepare, few=few, many=many, repeats=3)


def _expect(found: np.ndarray[Any, Any], value: int) -> None:
    if not (np.asarray(found) == np.float32(value)).all():
        raise AssertionError(f"{np.asarray(found).ravel()[:4]}..., not {value}")


def _raw_c(ladder: str, size: int, device: Device) -> Timing:
    if device == "cpu":
        raise raw_c.Missing("it is compared on the GPU only")
    what, name = RAW_C[ladder]
    found = raw_c.measure(what, (size,))[size][name]
    return Timing.of([found["total"] if isinstance(found, dict) else found])


def draw(record: dict[str, Any], file: Path) -> None:
    """A panel a ladder: time over the number of loops, a line a peer."""
    panels.lines(record, file, "Tiny loops in each library", ("raw C", *PEERS), TITLES)


if __name__ == "__main__":
    measures = {ladder: functools.partial(measure, ladder) for ladder in RUNGS}
    raise SystemExit(parts.main(begin, measures, draw))

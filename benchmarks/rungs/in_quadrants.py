"""In Quadrants: kernels with ``graph=True``; the bound of its loops is known when they are compiled, its fast way."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import quadrants as qd

from benchmarks import chains
from benchmarks.peers import Device, Run
from benchmarks.rungs import SETS, Loop, N, zeros

HEAD = [
    "import quadrants as qd",
    "Array = qd.types.ndarray(qd.f32, ndim=1)",
    "Count = qd.types.ndarray(qd.i32, ndim=0)",
    "@qd.kernel(graph=True)",
]


def _add(x: str, depth: int) -> list[str]:
    pad = "    " * depth
    return [f"{pad}for i in range({N}):", f"{pad}    {x}[i] = {x}[i] + a"]


def _array() -> Any:
    x = qd.ndarray(qd.f32, shape=(N,))
    x.from_numpy(zeros())
    return x


def _chain(loops: int) -> Any:
    name = f"quadrants_chain_{loops}"
    return chains.load(name, [*HEAD, f"def {name}(x: Array, a: qd.f32):", *_add("x", 1) * loops])


def chain(loops: int, device: Device) -> Run:
    """Loops in a row."""
    kernel, x = _chain(loops), _array()
    return Run(lambda: kernel(x, 1.0), qd.sync, lambda: {"x": x.to_numpy()})


def loop(loops: int, device: Device) -> Loop:
    """A do-while on the device."""
    name = f"quadrants_loop_{loops}"
    body = ["    while qd.graph.do_while(counter):", *_add("x", 2) * loops, "        counter[()] -= 1"]
    kernel: Any = chains.load(name, [*HEAD, f"def {name}(x: Array, a: qd.f32, counter: Count):", *body])
    x, counter = _array(), qd.ndarray(qd.i32, shape=())

    def prepare(count: int) -> None:
        counter.fill(count)
        qd.sync()

    def run(_: int) -> None:
        kernel(x, 1.0, counter)
        qd.sync()

    return Loop(prepare, run, x.to_numpy)


def changed(loops: int, device: Device) -> Run:
    """Another array each call."""
    kernel, arrays = _chain(loops), [_array() for _ in range(SETS)]
    following = itertools.cycle(arrays).__next__
    return Run(lambda: kernel(following(), 1.0), qd.sync, lambda: {"x": np.stack([x.to_numpy() for x in arrays])})


def branches(count: int, device: Device) -> Run:
    """Sections of a parallel region."""
    name = f"quadrants_branches_{count}"
    names = [f"x{k}" for k in range(count)]
    sections = [line for x in names for line in ("        with qd.graph.parallel():", *_add(x, 3))]
    parameters = ", ".join([*(f"{x}: Array" for x in names), "a: qd.f32"])
    body = ["    with qd.graph.parallel_context():", *sections]
    kernel: Any = chains.load(name, [*HEAD, f"def {name}({parameters}):", *body])
    arrays = [_array() for _ in names]
    return Run(lambda: kernel(*arrays, 1.0), qd.sync, lambda: {"x": np.stack([x.to_numpy() for x in arrays])})

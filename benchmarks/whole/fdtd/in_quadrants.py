"""In Quadrants: one graph, the steps counted down on the device."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.fdtd.problem import COURANT, Problem

Grid = qd.types.ndarray(qd.f32, ndim=2)
Count = qd.types.ndarray(qd.i32, ndim=0)


def stepper(n: int) -> Any:
    """The kernel for fields of ``n`` by ``n``: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def fdtd(ez: Grid, hx: Grid, hy: Grid, courant: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j in qd.ndrange(n - 1, n - 1):
                hx[i, j] -= courant * (ez[i, j + 1] - ez[i, j])
                hy[i, j] += courant * (ez[i + 1, j] - ez[i, j])
            for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
                ez[i, j] += courant * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])
            counter[()] -= 1

    return fdtd


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    fdtd = stepper(n)
    ez, hx, hy = (qd.ndarray(qd.f32, shape=(n, n)) for _ in range(3))
    counter = qd.ndarray(qd.i32, shape=())
    ez.from_numpy(problem.pulse)
    hx.fill(0.0)
    hy.fill(0.0)

    def run() -> None:
        counter.fill(problem.steps)
        fdtd(ez, hx, hy, COURANT, counter)

    return Run(run, qd.sync, lambda: {"ez": ez.to_numpy(), "hx": hx.to_numpy(), "hy": hy.to_numpy()})

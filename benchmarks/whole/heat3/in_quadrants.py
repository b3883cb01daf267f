"""In Quadrants: one graph, two steps an iteration, counted down on the device."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.heat3.problem import ALPHA, Problem

Cube = qd.types.ndarray(qd.f32, ndim=3)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def step(u: qd.template(), v: qd.template(), i, j, k, alpha):
    """The temperature at ``i, j, k`` a step later, out of ``u`` into ``v``."""
    around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
    v[i, j, k] = u[i, j, k] + alpha * (around - 6.0 * u[i, j, k])


def stepper(n: int) -> Any:
    """The kernel for cubes of ``n`` elements a side: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def heat(u: Cube, v: Cube, alpha: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j, k in qd.ndrange((1, n - 1), (1, n - 1), (1, n - 1)):
                step(u, v, i, j, k, alpha)
            for i, j, k in qd.ndrange((1, n - 1), (1, n - 1), (1, n - 1)):
                step(v, u, i, j, k, alpha)
            counter[()] -= 1

    return heat


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    heat = stepper(n)
    u, v = (qd.ndarray(qd.f32, shape=(n, n, n)) for _ in range(2))
    counter = qd.ndarray(qd.i32, shape=())
    u.from_numpy(problem.beginning)
    v.fill(0.0)

    def run() -> None:
        counter.fill(problem.steps // 2)
        heat(u, v, ALPHA, counter)

    return Run(run, qd.sync, lambda: {"u": u.to_numpy()})

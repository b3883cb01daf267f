"""In Quadrants: one graph, two steps an iteration, counted down on the device."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.gray_scott.problem import FEED, KILL, SPREAD_U, SPREAD_V, Problem

Grid = qd.types.ndarray(qd.f32, ndim=2)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def step(
    u: qd.template(), v: qd.template(), new_u: qd.template(), new_v: qd.template(), i, j, n: qd.template(), su, sv, feed, kill
):
    """Both substances at ``i, j`` a step later, out of ``u`` and ``v`` into ``new_u`` and ``new_v``."""
    up = i - 1
    if i == 0:
        up = n - 1
    down = i + 1
    if i == n - 1:
        down = 0
    left = j - 1
    if j == 0:
        left = n - 1
    right = j + 1
    if j == n - 1:
        right = 0
    laplacian_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4.0 * u[i, j]
    laplacian_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4.0 * v[i, j]
    reacting = u[i, j] * v[i, j] * v[i, j]
    new_u[i, j] = u[i, j] + (su * laplacian_u - reacting + feed * (1.0 - u[i, j]))
    new_v[i, j] = v[i, j] + (sv * laplacian_v + reacting - (feed + kill) * v[i, j])


def stepper(n: int) -> Any:
    """The kernel for squares of ``n`` by ``n``: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def react(u: Grid, v: Grid, new_u: Grid, new_v: Grid, su: qd.f32, sv: qd.f32, feed: qd.f32, kill: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j in qd.ndrange(n, n):
                step(u, v, new_u, new_v, i, j, n, su, sv, feed, kill)
            for i, j in qd.ndrange(n, n):
                step(new_u, new_v, u, v, i, j, n, su, sv, feed, kill)
            counter[()] -= 1

    return react


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    react = stepper(n)
    u, v, new_u, new_v = (qd.ndarray(qd.f32, shape=(n, n)) for _ in range(4))
    counter = qd.ndarray(qd.i32, shape=())
    for grid, substance in zip((u, v), problem.beginning, strict=True):
        grid.from_numpy(substance)

    def run() -> None:
        counter.fill(problem.steps // 2)
        react(u, v, new_u, new_v, SPREAD_U, SPREAD_V, FEED, KILL, counter)

    return Run(run, qd.sync, lambda: {"u": u.to_numpy(), "v": v.to_numpy()})

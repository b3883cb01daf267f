"""In Quadrants: one graph, two steps an iteration, counted down on the device."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.boltzmann.problem import LID, OMEGA, Problem

Populations = qd.types.ndarray(qd.f32, ndim=3)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def relaxed(f, weight, rho, c, square, omega):
    """A population after a step towards its equilibrium."""
    return (1.0 - omega) * f + omega * weight * rho * (1.0 + c + 0.5 * c * c - square)


@qd.func
def collide(f: qd.template(), g: qd.template(), i, j, n: qd.template(), lid, omega):
    """What streams into cell ``i, j`` out of ``f``, relaxed, into ``g``."""
    push = 0.0
    if i == n - 1:
        push = lid / 6.0
    f0 = f[0, i, j]
    f1 = f[3, i, j]
    if j > 0:
        f1 = f[1, i, j - 1]
    f2 = f[4, i, j]
    if i > 0:
        f2 = f[2, i - 1, j]
    f3 = f[1, i, j]
    if j < n - 1:
        f3 = f[3, i, j + 1]
    f4 = f[2, i, j]
    if i < n - 1:
        f4 = f[4, i + 1, j]
    f5 = f[7, i, j]
    if i > 0 and j > 0:
        f5 = f[5, i - 1, j - 1]
    f6 = f[8, i, j]
    if i > 0 and j < n - 1:
        f6 = f[6, i - 1, j + 1]
    f7 = f[5, i, j] - push
    if i < n - 1 and j < n - 1:
        f7 = f[7, i + 1, j + 1]
    f8 = f[6, i, j] + push
    if i < n - 1 and j > 0:
        f8 = f[8, i + 1, j - 1]
    rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    u = 3.0 * (f1 - f3 + f5 - f6 - f7 + f8) / rho
    v = 3.0 * (f2 - f4 + f5 + f6 - f7 - f8) / rho
    square = (u * u + v * v) / 6.0
    g[0, i, j] = relaxed(f0, 4.0 / 9.0, rho, 0.0, square, omega)
    g[1, i, j] = relaxed(f1, 1.0 / 9.0, rho, u, square, omega)
    g[2, i, j] = relaxed(f2, 1.0 / 9.0, rho, v, square, omega)
    g[3, i, j] = relaxed(f3, 1.0 / 9.0, rho, -u, square, omega)
    g[4, i, j] = relaxed(f4, 1.0 / 9.0, rho, -v, square, omega)
    g[5, i, j] = relaxed(f5, 1.0 / 36.0, rho, u + v, square, omega)
    g[6, i, j] = relaxed(f6, 1.0 / 36.0, rho, v - u, square, omega)
    g[7, i, j] = relaxed(f7, 1.0 / 36.0, rho, -u - v, square, omega)
    g[8, i, j] = relaxed(f8, 1.0 / 36.0, rho, u - v, square, omega)


def stepper(n: int) -> Any:
    """The kernel for boxes of ``n`` by ``n``: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def cavity(f: Populations, g: Populations, lid: qd.f32, omega: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j in qd.ndrange(n, n):
                collide(f, g, i, j, n, lid, omega)
            for i, j in qd.ndrange(n, n):
                collide(g, f, i, j, n, lid, omega)
            counter[()] -= 1

    return cavity


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    cavity = stepper(n)
    f, g = (qd.ndarray(qd.f32, shape=(9, n, n)) for _ in range(2))
    counter = qd.ndarray(qd.i32, shape=())
    f.from_numpy(problem.rest)

    def run() -> None:
        counter.fill(problem.steps // 2)
        cavity(f, g, LID, OMEGA, counter)

    return Run(run, qd.sync, lambda: {"f": f.to_numpy()})

"""In Quadrants: one graph, two steps an iteration, counted down on the device."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.boltzmann3.problem import OMEGA, Problem

Populations = qd.types.ndarray(qd.f32, ndim=4)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def around(i, n: qd.template()):
    """The places before and behind ``i``, of ``n`` in a ring."""
    before = i - 1
    if i == 0:
        before = n - 1
    behind = i + 1
    if i == n - 1:
        behind = 0
    return before, behind


@qd.func
def relaxed(f, opposite, weight, c, still, omega):
    """Two opposite populations after a step towards equilibrium; ``c`` is three times the velocity along the first."""
    even = weight * (still + 0.5 * c * c)
    odd = weight * c
    return (1.0 - omega) * f + even + odd, (1.0 - omega) * opposite + even - odd


@qd.func
def collide(f: qd.template(), g: qd.template(), i, j, k, n: qd.template(), omega):
    """What streams into cell ``i, j, k`` out of ``f``, relaxed, into ``g``."""
    a, x = around(i, n)
    b, y = around(j, n)
    c, z = around(k, n)
    f0 = f[0, i, j, k]
    f1, f2 = f[1, a, j, k], f[2, x, j, k]
    f3, f4 = f[3, i, b, k], f[4, i, y, k]
    f5, f6 = f[5, i, j, c], f[6, i, j, z]
    f7, f8 = f[7, a, b, k], f[8, x, y, k]
    f9, f10 = f[9, a, y, k], f[10, x, b, k]
    f11, f12 = f[11, a, j, c], f[12, x, j, z]
    f13, f14 = f[13, a, j, z], f[14, x, j, c]
    f15, f16 = f[15, i, b, c], f[16, i, y, z]
    f17, f18 = f[17, i, b, z], f[18, i, y, c]
    rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8 + f9 + f10 + f11 + f12 + f13 + f14 + f15 + f16 + f17 + f18
    thrice = 3.0 / rho
    u = thrice * (f1 - f2 + f7 - f8 + f9 - f10 + f11 - f12 + f13 - f14)
    v = thrice * (f3 - f4 + f7 - f8 - f9 + f10 + f15 - f16 + f17 - f18)
    w = thrice * (f5 - f6 + f11 - f12 - f13 + f14 + f15 - f16 - f17 + f18)
    still = 1.0 - (u * u + v * v + w * w) / 6.0
    one, two = omega / 18.0 * rho, omega / 36.0 * rho
    g[0, i, j, k] = (1.0 - omega) * f0 + omega / 3.0 * rho * still
    g[1, i, j, k], g[2, i, j, k] = relaxed(f1, f2, one, u, still, omega)
    g[3, i, j, k], g[4, i, j, k] = relaxed(f3, f4, one, v, still, omega)
    g[5, i, j, k], g[6, i, j, k] = relaxed(f5, f6, one, w, still, omega)
    g[7, i, j, k], g[8, i, j, k] = relaxed(f7, f8, two, u + v, still, omega)
    g[9, i, j, k], g[10, i, j, k] = relaxed(f9, f10, two, u - v, still, omega)
    g[11, i, j, k], g[12, i, j, k] = relaxed(f11, f12, two, u + w, still, omega)
    g[13, i, j, k], g[14, i, j, k] = relaxed(f13, f14, two, u - w, still, omega)
    g[15, i, j, k], g[16, i, j, k] = relaxed(f15, f16, two, v + w, still, omega)
    g[17, i, j, k], g[18, i, j, k] = relaxed(f17, f18, two, v - w, still, omega)


def stepper(n: int) -> Any:
    """The kernel for boxes of ``n`` cells a side: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def vortices(f: Populations, g: Populations, omega: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j, k in qd.ndrange(n, n, n):
                collide(f, g, i, j, k, n, omega)
            for i, j, k in qd.ndrange(n, n, n):
                collide(g, f, i, j, k, n, omega)
            counter[()] -= 1

    return vortices


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    vortices = stepper(n)
    f, g = (qd.ndarray(qd.f32, shape=(19, n, n, n)) for _ in range(2))
    counter = qd.ndarray(qd.i32, shape=())
    f.from_numpy(problem.vortices)

    def run() -> None:
        counter.fill(problem.steps // 2)
        vortices(f, g, OMEGA, counter)

    return Run(run, qd.sync, lambda: {"f": f.to_numpy()})

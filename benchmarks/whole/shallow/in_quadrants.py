"""In Quadrants: one graph, the steps counted down on the device; a cell's depth and momenta are a vector."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.shallow.problem import GRAVITY, RATIO, Problem

Waters = qd.types.ndarray(qd.f32, ndim=3)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def around(i, n: qd.template()):
    """The two places before and the two behind ``i``, of ``n`` in a ring."""
    a, b, d, e = i - 2, i - 1, i + 1, i + 2
    if i < 2:
        a += n
    if i < 1:
        b += n
    if i > n - 2:
        d -= n
    if i > n - 3:
        e -= n
    return a, b, d, e


@qd.func
def half_slope(a, b, c):
    """How much the water in ``b`` changes up to its face, by its neighbours: minmod of the differences."""
    before, after = b - a, c - b
    return 0.5 * (qd.max(0.0, qd.min(before, after)) + qd.min(0.0, qd.max(before, after)))


@qd.func
def flux(a, b, gravity):
    """What goes from ``a`` to ``b`` (Rusanov): depth, momentum towards ``b``, momentum beside it."""
    u, v = a.y / a.x, b.y / b.x
    speed = qd.max(abs(u) + qd.sqrt(gravity * a.x), abs(v) + qd.sqrt(gravity * b.x))
    carried_a = qd.Vector([a.y, a.y * u + 0.5 * gravity * a.x * a.x, a.z * u])
    carried_b = qd.Vector([b.y, b.y * v + 0.5 * gravity * b.x * b.x, b.z * v])
    return 0.5 * (carried_a + carried_b - speed * (b - a))


@qd.func
def gained(a, b, c, d, e, gravity):
    """What ``c`` gets through its two faces from the others in a row."""
    slope_b, slope_c, slope_d = half_slope(a, b, c), half_slope(b, c, d), half_slope(c, d, e)
    return flux(b + slope_b, c - slope_c, gravity) - flux(c + slope_c, d - slope_d, gravity)


@qd.func
def along(q: qd.template(), i, j):
    """The water of a cell, its momentum along the first axis before that along the second."""
    return qd.Vector([q[0, i, j], q[1, i, j], q[2, i, j]])


@qd.func
def across(q: qd.template(), i, j):
    """The same, the other way round."""
    return qd.Vector([q[0, i, j], q[2, i, j], q[1, i, j]])


@qd.func
def later(q: qd.template(), i, j, n: qd.template(), ratio, gravity):
    """The water of a cell after a step of Euler's method."""
    a, b, d, e = around(i, n)
    x = gained(along(q, a, j), along(q, b, j), along(q, i, j), along(q, d, j), along(q, e, j), gravity)
    f, g, h, k = around(j, n)
    y = gained(across(q, i, f), across(q, i, g), across(q, i, j), across(q, i, h), across(q, i, k), gravity)
    return along(q, i, j) + ratio * (x + qd.Vector([y.x, y.z, y.y]))


def stepper(n: int) -> Any:
    """The kernel for squares of ``n`` by ``n``: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def shallow(q: Waters, once: Waters, ratio: qd.f32, gravity: qd.f32, counter: Count):
        while qd.graph.do_while(counter):
            for i, j in qd.ndrange(n, n):
                new = later(q, i, j, n, ratio, gravity)
                for k in qd.static(range(3)):
                    once[k, i, j] = new[k]
            for i, j in qd.ndrange(n, n):
                new = later(once, i, j, n, ratio, gravity)
                for k in qd.static(range(3)):
                    q[k, i, j] = 0.5 * (q[k, i, j] + new[k])
            counter[()] -= 1

    return shallow


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    shallow = stepper(n)
    q, once = (qd.ndarray(qd.f32, shape=(3, n, n)) for _ in range(2))
    counter = qd.ndarray(qd.i32, shape=())
    q.from_numpy(problem.beginning)

    def run() -> None:
        counter.fill(problem.steps)
        shallow(q, once, RATIO, GRAVITY, counter)

    return Run(run, qd.sync, lambda: {"q": q.to_numpy()})

"""In qgraph: all steps are one launch; a cell's depth and momenta are a vector in registers."""

from __future__ import annotations

import math

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.shallow.problem import GRAVITY, RATIO, Problem


@qgraph.func
def around(i, n):
    """The two places before and the two behind ``i``, of ``n`` in a ring."""
    a, b = i - 2 if i > 1 else i + n - 2, i - 1 if i > 0 else n - 1
    d, e = i + 1 if i < n - 1 else 0, i + 2 if i < n - 2 else i + 2 - n
    return a, b, d, e


@qgraph.func
def minmod(a, b):
    """The one that is nearer to 0, or 0 where they have different signs."""
    return max(0.0, min(a, b)) + min(0.0, max(a, b))


@qgraph.func
def half_slope(a, b, c):
    """How much the water in ``b`` changes up to its face, by its neighbours."""
    before, after = b - a, c - b
    return 0.5 * qgraph.vec(minmod(before.x, after.x), minmod(before.y, after.y), minmod(before.z, after.z))


@qgraph.func
def flux(a, b, gravity):
    """What goes from ``a`` to ``b`` (Rusanov): depth, momentum towards ``b``, momentum beside it."""
    u, v = a.y / a.x, b.y / b.x
    speed = max(abs(u) + math.sqrt(gravity * a.x), abs(v) + math.sqrt(gravity * b.x))
    carried_a = qgraph.vec(a.y, a.y * u + 0.5 * gravity * a.x * a.x, a.z * u)
    carried_b = qgraph.vec(b.y, b.y * v + 0.5 * gravity * b.x * b.x, b.z * v)
    return 0.5 * (carried_a + carried_b - speed * (b - a))


@qgraph.func
def gained(a, b, c, d, e, gravity):
    """What ``c`` gets through its two faces from the others in a row."""
    slope_b, slope_c, slope_d = half_slope(a, b, c), half_slope(b, c, d), half_slope(c, d, e)
    return flux(b + slope_b, c - slope_c, gravity) - flux(c + slope_c, d - slope_d, gravity)


@qgraph.func
def along(q, i, j):
    """The water of a cell, its momentum along the first axis before that along the second."""
    return qgraph.vec(q[0, i, j], q[1, i, j], q[2, i, j])


@qgraph.func
def across(q, i, j):
    """The same, the other way round."""
    return qgraph.vec(q[0, i, j], q[2, i, j], q[1, i, j])


@qgraph.func
def later(q, i, j, ratio, gravity):
    """The water of a cell after a step of Euler's method."""
    a, b, d, e = around(i, q.shape[1])
    x = gained(along(q, a, j), along(q, b, j), along(q, i, j), along(q, d, j), along(q, e, j), gravity)
    a, b, d, e = around(j, q.shape[2])
    y = gained(across(q, i, a), across(q, i, b), across(q, i, j), across(q, i, d), across(q, i, e), gravity)
    return along(q, i, j) + ratio * (x + qgraph.vec(y.x, y.z, y.y))


@qgraph.kernel
def shallow(q, once, ratio, gravity, steps):
    """Advance ``q``; ``once`` is room for the first stage."""
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(q.shape[1], q.shape[2]):
            once[0, i, j], once[1, i, j], once[2, i, j] = later(q, i, j, ratio, gravity)
        for i, j in qgraph.ndrange(q.shape[1], q.shape[2]):
            twice = later(once, i, j, ratio, gravity)
            q[0, i, j] = 0.5 * (q[0, i, j] + twice.x)
            q[1, i, j] = 0.5 * (q[1, i, j] + twice.y)
            q[2, i, j] = 0.5 * (q[2, i, j] + twice.z)


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(shallow, fuse=fuse)
    q = qgraph.asarray(problem.beginning, backend=device)
    once = qgraph.zeros(q.shape, q.dtype, backend=device)
    return Run(lambda: kernel(q, once, RATIO, GRAVITY, problem.steps), qgraph.synchronize, lambda: {"q": qgraph.to_numpy(q)})

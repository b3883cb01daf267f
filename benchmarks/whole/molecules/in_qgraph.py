"""In qgraph: all steps are one launch; positions and forces are vectors in registers."""

from __future__ import annotations

import numpy as np

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.molecules.problem import CAPACITY, CUTOFF, STEP, Problem


@qgraph.func
def inside(x, box):
    """The same coordinate in the box."""
    return x + box if x < 0.0 else x - box if x >= box else x


@qgraph.func
def cell(x, box, m):
    """Which of ``m`` cells along a side has the coordinate ``x``."""
    return min(int(x * (m / box)), m - 1)


@qgraph.func
def beside(a, m, box):
    """The cell that ``a`` is, where it may be one too far, and how far it is moved then."""
    return (a + m, box) if a < 0 else (a - m, -box) if a >= m else (a, 0.0)


@qgraph.kernel
def molecules(x, v, force, count, table, box, dt, cutoff, steps):
    """Advance positions and velocities; ``force`` is that at the beginning, the rest is room for the cells."""
    m, capacity = table.shape[0], table.shape[3]
    for _ in qgraph.serial(range(steps)):
        count[:] = 0
        # No two take one place.
        for i in qgraph.parallel(range(x.shape[0])):
            v[i] += 0.5 * dt * qgraph.vec(force[i])
            p = qgraph.vec(x[i]) + dt * qgraph.vec(v[i])
            p = qgraph.vec(inside(p.x, box), inside(p.y, box), inside(p.z, box))
            x[i] = p
            a, b, c = cell(p.x, box, m), cell(p.y, box, m), cell(p.z, box, m)
            place = qgraph.atomic_add(count, (a, b, c), 1)
            if place < capacity:
                table[a, b, c, place] = p
        for i in range(x.shape[0]):
            p = qgraph.vec(x[i])
            a, b, c = cell(p.x, box, m), cell(p.y, box, m), cell(p.z, box, m)
            total = qgraph.vec(0.0, 0.0, 0.0)
            for da in range(a - 1, a + 2):
                for db in range(b - 1, b + 2):
                    for dc in range(c - 1, c + 2):
                        (f, far_x), (g, far_y), (h, far_z) = beside(da, m, box), beside(db, m, box), beside(dc, m, box)
                        here = p + qgraph.vec(far_x, far_y, far_z)
                        for k in range(min(count[f, g, h], capacity)):
                            away = here - qgraph.vec(table[f, g, h, k])
                            square = away @ away
                            if 0.0 < square < cutoff * cutoff:
                                inverse = 1.0 / square
                                sixth = inverse * inverse * inverse
                                total += 24.0 * inverse * sixth * (2.0 * sixth - 1.0) * away
            force[i] = total
            v[i] += 0.5 * dt * total


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(molecules, fuse=fuse)
    x, v = (qgraph.asarray(array, backend=device) for array in (problem.lattice, problem.velocities))
    force = qgraph.zeros(x.shape, x.dtype, backend=device)
    cells = (problem.cells,) * 3
    count = qgraph.zeros(cells, np.int32, backend=device)
    table = qgraph.zeros((*cells, CAPACITY, 3), x.dtype, backend=device)
    return Run(
        lambda: kernel(x, v, force, count, table, problem.box, STEP, CUTOFF, problem.steps),
        qgraph.synchronize,
        lambda: {"x": qgraph.to_numpy(x), "v": qgraph.to_numpy(v)},
    )

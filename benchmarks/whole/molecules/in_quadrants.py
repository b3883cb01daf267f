"""In Quadrants: one graph, the steps counted down on the device; arrays of vectors."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.molecules.problem import CAPACITY, CUTOFF, STEP, Problem

Vectors = qd.types.ndarray(qd.types.vector(3, qd.f32), ndim=1)
Table = qd.types.ndarray(qd.types.vector(3, qd.f32), ndim=4)
Counts = qd.types.ndarray(qd.i32, ndim=3)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def inside(x, box):
    """The same coordinate in the box."""
    if x < 0.0:
        x += box
    elif x >= box:
        x -= box
    return x


@qd.func
def cell(x, box, m: qd.template()):
    """Which of ``m`` cells along a side has the coordinate ``x``."""
    return qd.min(qd.cast(x * (m / box), qd.i32), m - 1)


@qd.func
def beside(a, m: qd.template(), box):
    """The cell that ``a`` is, where it may be one too far, and how far it is moved then."""
    far = 0.0
    if a < 0:
        a += m
        far = box
    elif a >= m:
        a -= m
        far = -box
    return a, far


def stepper(n: int, m: int, capacity: int) -> Any:
    """The kernel for ``n`` particles in ``m`` cells a side: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def molecules(
        x: Vectors,
        v: Vectors,
        force: Vectors,
        count: Counts,
        table: Table,
        box: qd.f32,
        dt: qd.f32,
        cutoff: qd.f32,
        counter: Count,
    ):
        while qd.graph.do_while(counter):
            for a, b, c in qd.ndrange(m, m, m):
                count[a, b, c] = 0
            for i in range(n):
                w = v[i] + 0.5 * dt * force[i]
                p = x[i] + dt * w
                v[i] = w
                p = qd.Vector([inside(p.x, box), inside(p.y, box), inside(p.z, box)])
                x[i] = p
                a, b, c = cell(p.x, box, m), cell(p.y, box, m), cell(p.z, box, m)
                place = qd.atomic_add(count[a, b, c], 1)
                if place < capacity:
                    table[a, b, c, place] = p
            for i in range(n):
                p = x[i]
                a, b, c = cell(p.x, box, m), cell(p.y, box, m), cell(p.z, box, m)
                total = qd.Vector([0.0, 0.0, 0.0])
                for da in range(a - 1, a + 2):
                    for db in range(b - 1, b + 2):
                        for dc in range(c - 1, c + 2):
                            f, far_x = beside(da, m, box)
                            g, far_y = beside(db, m, box)
                            h, far_z = beside(dc, m, box)
                            here = p + qd.Vector([far_x, far_y, far_z])
                            for k in range(qd.min(count[f, g, h], capacity)):
                                away = here - table[f, g, h, k]
                                square = away.dot(away)
                                if square > 0.0 and square < cutoff * cutoff:
                                    inverse = 1.0 / square
                                    sixth = inverse * inverse * inverse
                                    total += 24.0 * inverse * sixth * (2.0 * sixth - 1.0) * away
                force[i] = total
                v[i] += 0.5 * dt * total
            counter[()] -= 1

    return molecules


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n, m = problem.particles, problem.cells
    molecules = stepper(n, m, CAPACITY)
    x, v, force = (qd.Vector.ndarray(3, qd.f32, shape=n) for _ in range(3))
    count = qd.ndarray(qd.i32, shape=(m, m, m))
    table = qd.Vector.ndarray(3, qd.f32, shape=(m, m, m, CAPACITY))
    counter = qd.ndarray(qd.i32, shape=())
    x.from_numpy(problem.lattice)
    v.from_numpy(problem.velocities)
    force.fill(0.0)

    def run() -> None:
        counter.fill(problem.steps)
        molecules(x, v, force, count, table, problem.box, STEP, CUTOFF, counter)

    return Run(run, qd.sync, lambda: {"x": x.to_numpy(), "v": v.to_numpy()})

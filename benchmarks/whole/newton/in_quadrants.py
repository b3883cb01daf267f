"""In Quadrants: one graph with a device-side loop; small matrices are local to a thread, their loops unrolled."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.newton.problem import CONTACTS, FAR, SLOPE, TRIALS, UNKNOWNS, Problem

Vectors = qd.types.ndarray(qd.f32, ndim=2)
Matrices = qd.types.ndarray(qd.f32, ndim=3)
Flags = qd.types.ndarray(qd.i32, ndim=1)
Count = qd.types.ndarray(qd.i32, ndim=0)


@qd.func
def solve(h: qd.template(), b: qd.template()):
    """``h x = b`` by Cholesky's method; ``h`` becomes its factor, with inverses on the diagonal, and ``b`` becomes x."""
    for j in qd.static(range(UNKNOWNS)):
        for k in qd.static(range(j)):
            h[j, j] -= h[j, k] * h[j, k]
        h[j, j] = 1.0 / qd.sqrt(h[j, j])
        for i in qd.static(range(j + 1, UNKNOWNS)):
            for k in qd.static(range(j)):
                h[i, j] -= h[i, k] * h[j, k]
            h[i, j] *= h[j, j]
    for j in qd.static(range(UNKNOWNS)):
        for k in qd.static(range(j)):
            b[j] -= h[j, k] * b[k]
        b[j] *= h[j, j]
    for j in qd.static(range(UNKNOWNS - 1, -1, -1)):
        for k in qd.static(range(j + 1, UNKNOWNS)):
            b[j] -= h[k, j] * b[k]
        b[j] *= h[j, j]


def solver(n: int) -> Any:
    """The kernel for ``n`` environments: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def newton(
        mass: Matrices,
        aim: Vectors,
        jacobian: Matrices,
        gap: Vectors,
        stiffness: Vectors,
        slip: Vectors,
        x: Vectors,
        active: Flags,
        gradient: Vectors,
        hessian: Matrices,
        step: Vectors,
        residual: Vectors,
        along: Vectors,
        force: Vectors,
        stiff: Vectors,
        iterations: Count,
        going: Count,
        tolerance: qd.f32,
        limit: qd.i32,
    ):
        for e in range(n):
            active[e] = 1
            for a in qd.static(range(UNKNOWNS)):
                x[a, e] = aim[a, e]
        for _ in range(1):
            iterations[()] = 0
        while qd.graph.do_while(going):
            for c, e in qd.ndrange(CONTACTS, n):
                if active[e] != 0:
                    r = gap[c, e]
                    for a in qd.static(range(UNKNOWNS)):
                        r += jacobian[c, a, e] * x[a, e]
                    residual[c, e] = r
                    if r < -slip[c, e]:
                        force[c, e] = -stiffness[c, e] * slip[c, e]
                        stiff[c, e] = 0.0
                    elif r < 0.0:
                        force[c, e] = stiffness[c, e] * r
                        stiff[c, e] = stiffness[c, e]
                    else:
                        force[c, e] = 0.0
                        stiff[c, e] = 0.0
            for a, b, e in qd.ndrange(UNKNOWNS, UNKNOWNS, n):
                if active[e] != 0 and b <= a:
                    total = mass[a, b, e]
                    for c in qd.static(range(CONTACTS)):
                        total += stiff[c, e] * jacobian[c, a, e] * jacobian[c, b, e]
                    hessian[a, b, e] = total
                    if b == 0:
                        slope = 0.0
                        for k in qd.static(range(UNKNOWNS)):
                            slope += mass[a, k, e] * (x[k, e] - aim[k, e])
                        for c in qd.static(range(CONTACTS)):
                            slope += jacobian[c, a, e] * force[c, e]
                        gradient[a, e] = slope
            left = 0
            for e in range(n):
                if active[e] != 0:
                    largest = 0.0
                    g = qd.Vector.zero(qd.f32, UNKNOWNS)
                    for a in qd.static(range(UNKNOWNS)):
                        g[a] = gradient[a, e]
                        largest = qd.max(largest, qd.abs(g[a]))
                    if largest <= tolerance:
                        active[e] = 0
                    else:
                        left += 1
                        h = qd.Matrix.zero(qd.f32, UNKNOWNS, UNKNOWNS)
                        for a in qd.static(range(UNKNOWNS)):
                            for b in qd.static(range(a + 1)):
                                h[a, b] = hessian[a, b, e]
                        solve(h, g)
                        for a in qd.static(range(UNKNOWNS)):
                            step[a, e] = -g[a]
            for e in range(n):
                if active[e] != 0:
                    smooth = 0.0
                    curve = 0.0
                    for a in qd.static(range(UNKNOWNS)):
                        smooth += gradient[a, e] * step[a, e]
                        for b in qd.static(range(UNKNOWNS)):
                            curve += step[a, e] * mass[a, b, e] * step[b, e]
                    first = smooth
                    for c in qd.static(range(CONTACTS)):
                        total = 0.0
                        for a in qd.static(range(UNKNOWNS)):
                            total += jacobian[c, a, e] * step[a, e]
                        along[c, e] = total
                        smooth -= total * force[c, e]
                    t = 1.0
                    low = 0.0
                    high = qd.cast(FAR, qd.f32)
                    for _ in range(TRIALS):
                        slope = smooth + t * curve
                        curvature = curve
                        for c in qd.static(range(CONTACTS)):
                            r = residual[c, e] + t * along[c, e]
                            if r < -slip[c, e]:
                                slope -= along[c, e] * stiffness[c, e] * slip[c, e]
                            elif r < 0.0:
                                slope += along[c, e] * stiffness[c, e] * r
                                curvature += along[c, e] * stiffness[c, e] * along[c, e]
                        if qd.abs(slope) <= SLOPE * qd.abs(first):
                            break
                        if slope < 0.0:
                            low = t
                        else:
                            high = t
                        t -= slope / curvature
                        if t <= low or t >= high:
                            t = 0.5 * (low + high)
                    for a in qd.static(range(UNKNOWNS)):
                        x[a, e] += t * step[a, e]
            for _ in range(1):
                iterations[()] += 1
                going[()] = 1
                if left == 0 or iterations[()] >= limit:
                    going[()] = 0

    return newton


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.environments
    newton = solver(n)
    bodies = []
    for part in problem.bodies:
        bodies.append(qd.ndarray(qd.f32, shape=part.shape))
        bodies[-1].from_numpy(part)
    x, gradient, step = (qd.ndarray(qd.f32, shape=(UNKNOWNS, n)) for _ in range(3))
    hessian = qd.ndarray(qd.f32, shape=(UNKNOWNS, UNKNOWNS, n))
    residual, along, force, stiff = (qd.ndarray(qd.f32, shape=(CONTACTS, n)) for _ in range(4))
    active = qd.ndarray(qd.i32, shape=(n,))
    iterations, going = (qd.ndarray(qd.i32, shape=()) for _ in range(2))
    going.fill(1)
    scratch = (active, gradient, hessian, step, residual, along, force, stiff, iterations, going)
    result = [0]

    def run() -> None:
        newton(*bodies, x, *scratch, problem.tolerance, problem.limit)
        result[0] = int(iterations[()])

    return Run(run, qd.sync, lambda: {"x": x.to_numpy(), "iterations": result[0]})

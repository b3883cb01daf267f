"""In qgraph: the whole solve is one launch, a small system solved in the registers of a thread."""

from __future__ import annotations

import math
from typing import Any

import qgraph
from benchmarks.peers import Device, Run, nothing, with_options
from benchmarks.whole.newton.problem import CONTACTS, FAR, SLOPE, TRIALS, UNKNOWNS, Bodies, Problem


@qgraph.func
def solve(h, b):
    """``h x = b`` for a symmetric positive definite ``h``, its lower triangle row by row, by Cholesky's method in registers."""
    h00, h10, h11, h20, h21, h22, h30, h31, h32, h33, h40, h41, h42, h43, h44, h50, h51, h52, h53, h54, h55 = h
    b0, b1, b2, b3, b4, b5 = b
    r0 = 1.0 / math.sqrt(h00)
    l10 = h10 * r0
    l20 = h20 * r0
    l30 = h30 * r0
    l40 = h40 * r0
    l50 = h50 * r0
    r1 = 1.0 / math.sqrt(h11 - l10 * l10)
    l21 = (h21 - l20 * l10) * r1
    l31 = (h31 - l30 * l10) * r1
    l41 = (h41 - l40 * l10) * r1
    l51 = (h51 - l50 * l10) * r1
    r2 = 1.0 / math.sqrt(h22 - l20 * l20 - l21 * l21)
    l32 = (h32 - l30 * l20 - l31 * l21) * r2
    l42 = (h42 - l40 * l20 - l41 * l21) * r2
    l52 = (h52 - l50 * l20 - l51 * l21) * r2
    r3 = 1.0 / math.sqrt(h33 - l30 * l30 - l31 * l31 - l32 * l32)
    l43 = (h43 - l40 * l30 - l41 * l31 - l42 * l32) * r3
    l53 = (h53 - l50 * l30 - l51 * l31 - l52 * l32) * r3
    r4 = 1.0 / math.sqrt(h44 - l40 * l40 - l41 * l41 - l42 * l42 - l43 * l43)
    l54 = (h54 - l50 * l40 - l51 * l41 - l52 * l42 - l53 * l43) * r4
    r5 = 1.0 / math.sqrt(h55 - l50 * l50 - l51 * l51 - l52 * l52 - l53 * l53 - l54 * l54)
    y0 = b0 * r0
    y1 = (b1 - l10 * y0) * r1
    y2 = (b2 - l20 * y0 - l21 * y1) * r2
    y3 = (b3 - l30 * y0 - l31 * y1 - l32 * y2) * r3
    y4 = (b4 - l40 * y0 - l41 * y1 - l42 * y2 - l43 * y3) * r4
    y5 = (b5 - l50 * y0 - l51 * y1 - l52 * y2 - l53 * y3 - l54 * y4) * r5
    x5 = y5 * r5
    x4 = (y4 - l54 * x5) * r4
    x3 = (y3 - l43 * x4 - l53 * x5) * r3
    x2 = (y2 - l32 * x3 - l42 * x4 - l52 * x5) * r2
    x1 = (y1 - l21 * x2 - l31 * x3 - l41 * x4 - l51 * x5) * r1
    x0 = (y0 - l10 * x1 - l20 * x2 - l30 * x3 - l40 * x4 - l50 * x5) * r0
    return x0, x1, x2, x3, x4, x5


@qgraph.kernel
def newton(bodies, x, tolerance, limit):
    """All environments into ``x``, from their aims; returns the number of iterations."""
    n = x.shape[1]
    active = qgraph.empty(n, "int32")
    gradient, step = qgraph.empty(x.shape, x.dtype), qgraph.empty(x.shape, x.dtype)
    hessian = qgraph.empty(bodies.mass.shape, x.dtype)
    residual, along = qgraph.empty(bodies.gap.shape, x.dtype), qgraph.empty(bodies.gap.shape, x.dtype)
    force, stiff = qgraph.empty(bodies.gap.shape, x.dtype), qgraph.empty(bodies.gap.shape, x.dtype)
    x[:, :] = bodies.aim
    active[:] = 1
    left = n
    iterations = 0
    while left > 0 and iterations < limit:
        for c, e in qgraph.ndrange(CONTACTS, n):
            if active[e] != 0:
                r = bodies.gap[c, e]
                for a in qgraph.static(range(UNKNOWNS)):
                    r += bodies.jacobian[c, a, e] * x[a, e]
                residual[c, e] = r
                if r < -bodies.slip[c, e]:
                    force[c, e] = -bodies.stiffness[c, e] * bodies.slip[c, e]
                    stiff[c, e] = 0.0
                elif r < 0.0:
                    force[c, e] = bodies.stiffness[c, e] * r
                    stiff[c, e] = bodies.stiffness[c, e]
                else:
                    force[c, e] = 0.0
                    stiff[c, e] = 0.0
        for a, b, e in qgraph.ndrange(UNKNOWNS, UNKNOWNS, n):
            if active[e] != 0 and b <= a:
                total = bodies.mass[a, b, e]
                for c in qgraph.static(range(CONTACTS)):
                    total += stiff[c, e] * bodies.jacobian[c, a, e] * bodies.jacobian[c, b, e]
                hessian[a, b, e] = total
                if b == 0:
                    slope = 0.0
                    for k in qgraph.static(range(UNKNOWNS)):
                        slope += bodies.mass[a, k, e] * (x[k, e] - bodies.aim[k, e])
                    for c in qgraph.static(range(CONTACTS)):
                        slope += bodies.jacobian[c, a, e] * force[c, e]
                    gradient[a, e] = slope
        left = 0
        for e in range(n):
            if active[e] != 0:
                largest = 0.0
                for a in qgraph.static(range(UNKNOWNS)):
                    largest = max(largest, abs(gradient[a, e]))
                if largest <= tolerance:
                    active[e] = 0
                else:
                    left += 1
                    h = (
                        hessian[0, 0, e],
                        hessian[1, 0, e],
                        hessian[1, 1, e],
                        hessian[2, 0, e],
                        hessian[2, 1, e],
                        hessian[2, 2, e],
                        hessian[3, 0, e],
                        hessian[3, 1, e],
                        hessian[3, 2, e],
                        hessian[3, 3, e],
                        hessian[4, 0, e],
                        hessian[4, 1, e],
                        hessian[4, 2, e],
                        hessian[4, 3, e],
                        hessian[4, 4, e],
                        hessian[5, 0, e],
                        hessian[5, 1, e],
                        hessian[5, 2, e],
                        hessian[5, 3, e],
                        hessian[5, 4, e],
                        hessian[5, 5, e],
                    )
                    g = (gradient[0, e], gradient[1, e], gradient[2, e], gradient[3, e], gradient[4, e], gradient[5, e])
                    s0, s1, s2, s3, s4, s5 = solve(h, g)
                    step[0, e] = -s0
                    step[1, e] = -s1
                    step[2, e] = -s2
                    step[3, e] = -s3
                    step[4, e] = -s4
                    step[5, e] = -s5
        for e in range(n):
            if active[e] != 0:
                # The slope along the step is `smooth + t * curve` and what the contacts add.
                smooth = 0.0
                curve = 0.0
                for a in qgraph.static(range(UNKNOWNS)):
                    smooth += gradient[a, e] * step[a, e]
                    for b in qgraph.static(range(UNKNOWNS)):
                        curve += step[a, e] * bodies.mass[a, b, e] * step[b, e]
                first = smooth
                for c in qgraph.static(range(CONTACTS)):
                    total = 0.0
                    for a in qgraph.static(range(UNKNOWNS)):
                        total += bodies.jacobian[c, a, e] * step[a, e]
                    along[c, e] = total
                    smooth -= total * force[c, e]
                t = 1.0
                low = 0.0
                high = FAR
                for _ in range(TRIALS):
                    slope = smooth + t * curve
                    curvature = curve
                    for c in qgraph.static(range(CONTACTS)):
                        r = residual[c, e] + t * along[c, e]
                        if r < -bodies.slip[c, e]:
                            slope -= along[c, e] * bodies.stiffness[c, e] * bodies.slip[c, e]
                        elif r < 0.0:
                            slope += along[c, e] * bodies.stiffness[c, e] * r
                            curvature += along[c, e] * bodies.stiffness[c, e] * along[c, e]
                    if abs(slope) <= SLOPE * abs(first):
                        break
                    if slope < 0.0:
                        low = t
                    else:
                        high = t
                    t -= slope / curvature
                    if t <= low or t >= high:
                        t = 0.5 * (low + high)
                for a in qgraph.static(range(UNKNOWNS)):
                    x[a, e] += t * step[a, e]
        iterations += 1
    return iterations


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(newton, fuse=fuse)
    bodies = Bodies(*(qgraph.asarray(part, backend=device) for part in problem.bodies))
    x = qgraph.zeros(problem.bodies.aim.shape, "float32", backend=device)
    result: list[Any] = [0]

    def solve_all() -> None:
        result[0] = kernel(bodies, x, problem.tolerance, problem.limit)

    return Run(solve_all, nothing, lambda: {"x": qgraph.to_numpy(x), "iterations": result[0]})

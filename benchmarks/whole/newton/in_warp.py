"""In Warp: ``wp.capture_while``; small matrices are local to a thread."""

from typing import Any

import warp as wp

from benchmarks.peers import Device, Run
from benchmarks.warp_graphs import captured
from benchmarks.whole.newton.problem import CONTACTS, FAR, SLOPE, TRIALS, UNKNOWNS, Problem

SIX = wp.constant(UNKNOWNS)
EIGHT = wp.constant(CONTACTS)
MOST = wp.constant(TRIALS)
FARTHEST = wp.constant(FAR)
FLAT = wp.constant(SLOPE)

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.kernel
def start(aim: wp.array2d(dtype=float), x: wp.array2d(dtype=float), active: wp.array(dtype=int)):
    """From the aims."""
    a, e = wp.tid()
    x[a, e] = aim[a, e]
    if a == 0:
        active[e] = 1


@wp.kernel
def touch(
    jacobian: wp.array3d(dtype=float),
    gap: wp.array2d(dtype=float),
    stiffness: wp.array2d(dtype=float),
    slip: wp.array2d(dtype=float),
    x: wp.array2d(dtype=float),
    active: wp.array(dtype=int),
    residual: wp.array2d(dtype=float),
    force: wp.array2d(dtype=float),
    stiff: wp.array2d(dtype=float),
):
    """Residual, force and its derivative of a contact."""
    c, e = wp.tid()
    if active[e] == 0:
        return
    r = gap[c, e]
    for a in range(SIX):
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


@wp.kernel
def assemble(
    mass: wp.array3d(dtype=float),
    aim: wp.array2d(dtype=float),
    jacobian: wp.array3d(dtype=float),
    x: wp.array2d(dtype=float),
    active: wp.array(dtype=int),
    force: wp.array2d(dtype=float),
    stiff: wp.array2d(dtype=float),
    gradient: wp.array2d(dtype=float),
    hessian: wp.array3d(dtype=float),
):
    """An element of a Hessian; the first of a row with the gradient's."""
    a, b, e = wp.tid()
    if active[e] == 0 or b > a:
        return
    total = mass[a, b, e]
    for c in range(EIGHT):
        total += stiff[c, e] * jacobian[c, a, e] * jacobian[c, b, e]
    hessian[a, b, e] = total
    if b == 0:
        slope = float(0.0)
        for k in range(SIX):
            slope += mass[a, k, e] * (x[k, e] - aim[k, e])
        for c in range(EIGHT):
            slope += jacobian[c, a, e] * force[c, e]
        gradient[a, e] = slope


@wp.func
def solve(h: wp.spatial_matrix, b: wp.spatial_vector):
    """``h x = b`` by Cholesky's method, the factor with inverses on the diagonal."""
    for j in range(6):
        s = h[j, j]
        for k in range(j):
            s -= h[j, k] * h[j, k]
        h[j, j] = 1.0 / wp.sqrt(s)
        for i in range(j + 1, 6):
            t = h[i, j]
            for k in range(j):
                t -= h[i, k] * h[j, k]
            h[i, j] = t * h[j, j]
    for j in range(6):
        s = b[j]
        for k in range(j):
            s -= h[j, k] * b[k]
        b[j] = s * h[j, j]
    for i in range(6):
        s = b[5 - i]
        for k in range(i):
            s -= h[5 - k, 5 - i] * b[5 - k]
        b[5 - i] = s * h[5 - i, 5 - i]
    return b


@wp.kernel
def direct(
    gradient: wp.array2d(dtype=float),
    hessian: wp.array3d(dtype=float),
    step: wp.array2d(dtype=float),
    active: wp.array(dtype=int),
    left: wp.array(dtype=int),
    tolerance: float,
):
    """Whether an environment has converged; else its step."""
    e = wp.tid()
    if active[e] == 0:
        return
    largest = float(0.0)
    g = wp.spatial_vector()
    for a in range(6):
        g[a] = gradient[a, e]
        largest = wp.max(largest, wp.abs(g[a]))
    if largest <= tolerance:
        active[e] = 0
        return
    # Every thread writes the same.
    left[0] = 1
    h = wp.spatial_matrix()
    for a in range(6):
        for b in range(a + 1):
            h[a, b] = hessian[a, b, e]
    s = solve(h, g)
    for a in range(6):
        step[a, e] = -s[a]


@wp.kernel
def search(
    mass: wp.array3d(dtype=float),
    jacobian: wp.array3d(dtype=float),
    stiffness: wp.array2d(dtype=float),
    slip: wp.array2d(dtype=float),
    x: wp.array2d(dtype=float),
    active: wp.array(dtype=int),
    gradient: wp.array2d(dtype=float),
    step: wp.array2d(dtype=float),
    residual: wp.array2d(dtype=float),
    along: wp.array2d(dtype=float),
    force: wp.array2d(dtype=float),
):
    """Go along the step to where the slope vanishes."""
    e = wp.tid()
    if active[e] == 0:
        return
    smooth = float(0.0)
    curve = float(0.0)
    for a in range(SIX):
        smooth += gradient[a, e] * step[a, e]
        for b in range(SIX):
            curve += step[a, e] * mass[a, b, e] * step[b, e]
    first = smooth
    for c in range(EIGHT):
        total = float(0.0)
        for a in range(SIX):
            total += jacobian[c, a, e] * step[a, e]
        along[c, e] = total
        smooth -= total * force[c, e]
    t = float(1.0)
    low = float(0.0)
    high = float(FARTHEST)
    for _trial in range(MOST):
        slope = smooth + t * curve
        curvature = float(curve)
        for c in range(EIGHT):
            r = residual[c, e] + t * along[c, e]
            if r < -slip[c, e]:
                slope -= along[c, e] * stiffness[c, e] * slip[c, e]
            elif r < 0.0:
                slope += along[c, e] * stiffness[c, e] * r
                curvature += along[c, e] * stiffness[c, e] * along[c, e]
        if wp.abs(slope) <= FLAT * wp.abs(first):
            break
        if slope < 0.0:
            low = t
        else:
            high = t
        t -= slope / curvature
        if t <= low or t >= high:
            t = 0.5 * (low + high)
    for a in range(SIX):
        x[a, e] = x[a, e] + t * step[a, e]


@wp.kernel
def decide(left: wp.array(dtype=int), iterations: wp.array(dtype=int), going: wp.array(dtype=int), limit: int):
    """Count, and say whether to go on."""
    iterations[0] = iterations[0] + 1
    going[0] = 0
    if left[0] != 0 and iterations[0] < limit:
        going[0] = 1
    left[0] = 0


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.environments
    mass, aim, jacobian, gap, stiffness, slip = (wp.array(part, dtype=float) for part in problem.bodies)
    x, gradient, step = (wp.zeros((UNKNOWNS, n), dtype=float) for _ in range(3))
    hessian = wp.zeros((UNKNOWNS, UNKNOWNS, n), dtype=float)
    residual, along, force, stiff = (wp.zeros((CONTACTS, n), dtype=float) for _ in range(4))
    active = wp.zeros(n, dtype=int)
    left, iterations, going = (wp.zeros(1, dtype=int) for _ in range(3))

    def iterate() -> None:
        bodies = [jacobian, gap, stiffness, slip]
        wp.launch(touch, dim=(CONTACTS, n), inputs=[*bodies, x, active, residual, force, stiff])
        parts = [mass, aim, jacobian, x, active, force, stiff, gradient, hessian]
        wp.launch(assemble, dim=(UNKNOWNS, UNKNOWNS, n), inputs=parts)
        wp.launch(direct, dim=n, inputs=[gradient, hessian, step, active, left, problem.tolerance])
        moving = [x, active, gradient, step, residual, along, force]
        wp.launch(search, dim=n, inputs=[mass, jacobian, stiffness, slip, *moving])
        wp.launch(decide, dim=1, inputs=[left, iterations, going, problem.limit])

    def solve_all() -> None:
        wp.launch(start, dim=(UNKNOWNS, n), inputs=[aim, x, active])
        iterations.zero_()
        going.fill_(1)
        wp.capture_while(going, iterate)

    run = captured(solve_all, device)

    result: list[Any] = [0]

    def action() -> None:
        run()
        result[0] = int(iterations.numpy()[0])

    return Run(action, wp.synchronize_device, lambda: {"x": x.numpy(), "iterations": result[0]})

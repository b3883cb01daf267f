"""In Warp: all steps captured in one graph."""

import warp as wp

from benchmarks.peers import Device, Run
from benchmarks.warp_graphs import captured
from benchmarks.whole.boltzmann.problem import LID, OMEGA, Problem

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.func
def relaxed(f: float, weight: float, rho: float, c: float, square: float, omega: float):
    """A population after a step towards its equilibrium."""
    return (1.0 - omega) * f + omega * weight * rho * (1.0 + c + 0.5 * c * c - square)


@wp.kernel
def collide(f: wp.array3d(dtype=float), g: wp.array3d(dtype=float), lid: float, omega: float):
    """What streams into a cell out of ``f``, relaxed, into ``g``."""
    i, j = wp.tid()
    top = f.shape[1] - 1
    right = f.shape[2] - 1
    push = float(0.0)
    if i == top:
        push = lid / 6.0
    f0 = f[0, i, j]
    f1 = f[3, i, j]
    if j > 0:
        f1 = f[1, i, j - 1]
    f2 = f[4, i, j]
    if i > 0:
        f2 = f[2, i - 1, j]
    f3 = f[1, i, j]
    if j < right:
        f3 = f[3, i, j + 1]
    f4 = f[2, i, j]
    if i < top:
        f4 = f[4, i + 1, j]
    f5 = f[7, i, j]
    if i > 0 and j > 0:
        f5 = f[5, i - 1, j - 1]
    f6 = f[8, i, j]
    if i > 0 and j < right:
        f6 = f[6, i - 1, j + 1]
    f7 = f[5, i, j] - push
    if i < top and j < right:
        f7 = f[7, i + 1, j + 1]
    f8 = f[6, i, j] + push
    if i < top and j > 0:
        f8 = f[8, i + 1, j - 1]
    rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    u = 3.0 * (f1 - f3 + f5 - f6 - f7 + f8) / rho
    v = 3.0 * (f2 - f4 + f5 + f6 - f7 - f8) / rho
    square = (u * u + v * v) / 6.0
    straight = 1.0 / 9.0
    diagonal = 1.0 / 36.0
    g[0, i, j] = relaxed(f0, 4.0 / 9.0, rho, 0.0, square, omega)
    g[1, i, j] = relaxed(f1, straight, rho, u, square, omega)
    g[2, i, j] = relaxed(f2, straight, rho, v, square, omega)
    g[3, i, j] = relaxed(f3, straight, rho, -u, square, omega)
    g[4, i, j] = relaxed(f4, straight, rho, -v, square, omega)
    g[5, i, j] = relaxed(f5, diagonal, rho, u + v, square, omega)
    g[6, i, j] = relaxed(f6, diagonal, rho, v - u, square, omega)
    g[7, i, j] = relaxed(f7, diagonal, rho, -u - v, square, omega)
    g[8, i, j] = relaxed(f8, diagonal, rho, u - v, square, omega)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    f = wp.array(problem.rest, dtype=float)
    g = wp.zeros_like(f)

    def steps() -> None:
        for _ in range(problem.steps // 2):
            wp.launch(collide, dim=(n, n), inputs=[f, g, LID, OMEGA])
            wp.launch(collide, dim=(n, n), inputs=[g, f, LID, OMEGA])

    run = captured(steps, device)

    return Run(run, wp.synchronize_device, lambda: {"f": f.numpy()})

"""In qgraph: all steps are one launch; the two sets of populations change names."""

from __future__ import annotations

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.boltzmann.problem import LID, OMEGA, Problem


@qgraph.func
def relaxed(f, weight, rho, c, square, omega):
    """A population after a step towards its equilibrium; ``c`` is three times the velocity along its direction."""
    return (1.0 - omega) * f + omega * weight * rho * (1.0 + c + 0.5 * c * c - square)


@qgraph.func
def collide(f, g, i, j, lid, omega):
    """What streams into cell ``i, j`` out of ``f``, relaxed, into ``g``."""
    top, right = f.shape[1] - 1, f.shape[2] - 1
    push = lid / 6.0 if i == top else 0.0
    f0 = f[0, i, j]
    f1 = f[1, i, j - 1] if j > 0 else f[3, i, j]
    f2 = f[2, i - 1, j] if i > 0 else f[4, i, j]
    f3 = f[3, i, j + 1] if j < right else f[1, i, j]
    f4 = f[4, i + 1, j] if i < top else f[2, i, j]
    f5 = f[5, i - 1, j - 1] if i > 0 and j > 0 else f[7, i, j]
    f6 = f[6, i - 1, j + 1] if i > 0 and j < right else f[8, i, j]
    f7 = f[7, i + 1, j + 1] if i < top and j < right else f[5, i, j] - push
    f8 = f[8, i + 1, j - 1] if i < top and j > 0 else f[6, i, j] + push
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


@qgraph.kernel
def cavity(f, g, lid, omega, steps):
    """Advance ``f`` by an even number of steps, with ``g`` to write to in turn."""
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(f.shape[1], f.shape[2]):
            collide(f, g, i, j, lid, omega)
        f, g = g, f


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(cavity, fuse=fuse)
    f = qgraph.asarray(problem.rest, backend=device)
    g = qgraph.zeros(f.shape, f.dtype, backend=device)
    return Run(lambda: kernel(f, g, LID, OMEGA, problem.steps), qgraph.synchronize, lambda: {"f": qgraph.to_numpy(f)})

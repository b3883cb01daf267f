"""In qgraph: all steps are one launch; the two cubes change names."""

from __future__ import annotations

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.heat3.problem import ALPHA, Problem


@qgraph.kernel
def heat(u, v, alpha, steps):
    """Advance ``u`` by an even number of steps, with ``v``, of the same walls, to write to in turn."""
    n, m, p = u.shape
    for _ in qgraph.serial(range(steps)):
        for i, j, k in qgraph.ndrange((1, n - 1), (1, m - 1), (1, p - 1)):
            around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
            v[i, j, k] = u[i, j, k] + alpha * (around - 6.0 * u[i, j, k])
        u, v = v, u


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(heat, fuse=fuse)
    u = qgraph.asarray(problem.beginning, backend=device)
    v = qgraph.zeros(u.shape, u.dtype, backend=device)
    return Run(lambda: kernel(u, v, ALPHA, problem.steps), qgraph.synchronize, lambda: {"u": qgraph.to_numpy(u)})

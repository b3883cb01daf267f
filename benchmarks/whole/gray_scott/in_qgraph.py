"""In qgraph: all steps are one launch; each substance has two arrays, which change names."""

from __future__ import annotations

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.gray_scott.problem import FEED, KILL, SPREAD_U, SPREAD_V, Problem


@qgraph.kernel
def react(u, v, new_u, new_v, spread_u, spread_v, feed, kill, steps):
    """Advance ``u`` and ``v`` by an even number of steps, with ``new_u`` and ``new_v`` to write to in turn."""
    n, m = u.shape
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n, m):
            laplacian_u = u[i - 1, j] + u[(i + 1) % n, j] + u[i, j - 1] + u[i, (j + 1) % m] - 4.0 * u[i, j]
            laplacian_v = v[i - 1, j] + v[(i + 1) % n, j] + v[i, j - 1] + v[i, (j + 1) % m] - 4.0 * v[i, j]
            reacting = u[i, j] * v[i, j] * v[i, j]
            new_u[i, j] = u[i, j] + (spread_u * laplacian_u - reacting + feed * (1.0 - u[i, j]))
            new_v[i, j] = v[i, j] + (spread_v * laplacian_v + reacting - (feed + kill) * v[i, j])
        u, new_u = new_u, u
        v, new_v = new_v, v


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(react, fuse=fuse)
    u, v = (qgraph.asarray(substance, backend=device) for substance in problem.beginning)
    others = [qgraph.zeros(u.shape, u.dtype, backend=device) for _ in range(2)]
    return Run(
        lambda: kernel(u, v, *others, SPREAD_U, SPREAD_V, FEED, KILL, problem.steps),
        qgraph.synchronize,
        lambda: {"u": qgraph.to_numpy(u), "v": qgraph.to_numpy(v)},
    )

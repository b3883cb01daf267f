"""In qgraph: all steps are one launch."""

from __future__ import annotations

import numpy as np

import qgraph
from benchmarks.peers import Device, Run, with_options
from benchmarks.whole.fdtd.problem import COURANT, Problem


@qgraph.kernel
def fdtd(ez, hx, hy, courant, steps):
    """Advance the fields by ``steps``."""
    n, m = ez.shape
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n - 1, m - 1):
            hx[i, j] -= courant * (ez[i, j + 1] - ez[i, j])
            hy[i, j] += courant * (ez[i + 1, j] - ez[i, j])
        for i, j in qgraph.ndrange((1, n - 1), (1, m - 1)):
            ez[i, j] += courant * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(fdtd, fuse=fuse)
    ez = qgraph.asarray(problem.pulse, backend=device)
    hx, hy = (qgraph.zeros(ez.shape, np.float32, backend=device) for _ in range(2))
    return Run(
        lambda: kernel(ez, hx, hy, COURANT, problem.steps),
        qgraph.synchronize,
        lambda: {name: qgraph.to_numpy(field) for name, field in (("ez", ez), ("hx", hx), ("hy", hy))},
    )

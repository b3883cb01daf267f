"""In Warp: all steps captured in one graph."""

import warp as wp

from benchmarks.peers import Device, Run
from benchmarks.warp_graphs import captured
from benchmarks.whole.fdtd.problem import COURANT, Problem

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.kernel
def magnetic(ez: wp.array2d(dtype=float), hx: wp.array2d(dtype=float), hy: wp.array2d(dtype=float), courant: float):
    """Half a step of the magnetic field."""
    i, j = wp.tid()
    hx[i, j] = hx[i, j] - courant * (ez[i, j + 1] - ez[i, j])
    hy[i, j] = hy[i, j] + courant * (ez[i + 1, j] - ez[i, j])


@wp.kernel
def electric(ez: wp.array2d(dtype=float), hx: wp.array2d(dtype=float), hy: wp.array2d(dtype=float), courant: float):
    """A step of the electric field inside the walls."""
    i, j = wp.tid()
    i += 1
    j += 1
    ez[i, j] = ez[i, j] + courant * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    ez = wp.array(problem.pulse, dtype=float)
    hx, hy = wp.zeros_like(ez), wp.zeros_like(ez)

    def steps() -> None:
        for _ in range(problem.steps):
            wp.launch(magnetic, dim=(n - 1, n - 1), inputs=[ez, hx, hy, COURANT])
            wp.launch(electric, dim=(n - 2, n - 2), inputs=[ez, hx, hy, COURANT])

    run = captured(steps, device)

    return Run(run, wp.synchronize_device, lambda: {"ez": ez.numpy(), "hx": hx.numpy(), "hy": hy.numpy()})

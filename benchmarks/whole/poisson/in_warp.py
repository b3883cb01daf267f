"""In Warp: its own solver over a matrix-free operator, captured whole, its loop on the device."""

from typing import Any

import warp as wp
from warp.optim.linear import LinearOperator, cg

from benchmarks.peers import Device, Run
from benchmarks.whole.poisson.problem import Problem

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.kernel
def laplacian(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), z: wp.array2d(dtype=float), alpha: float, beta: float):
    """``z = alpha * A x + beta * y``."""
    i, j = wp.tid()
    n = x.shape[0]
    m = x.shape[1]
    total = 4.0 * x[i, j]
    if i > 0:
        total -= x[i - 1, j]
    if i < n - 1:
        total -= x[i + 1, j]
    if j > 0:
        total -= x[i, j - 1]
    if j < m - 1:
        total -= x[i, j + 1]
    total = alpha * total
    if beta != 0.0:
        total += beta * y[i, j]
    z[i, j] = total


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    b = wp.array(problem.b.ravel(), dtype=float)
    x = wp.zeros_like(b)

    def matvec(u: Any, v: Any, w: Any, alpha: float, beta: float) -> None:
        square = (n, n)
        wp.launch(laplacian, dim=square, inputs=[u.reshape(square), v.reshape(square), w.reshape(square), alpha, beta])

    operator = LinearOperator((n * n, n * n), dtype=wp.float32, device=x.device, matvec=matvec)
    how = {"tol": problem.tolerance, "atol": 0.0, "maxiter": problem.limit, "run": False}
    result: list[Any] = [0]
    if device == "cpu":
        # No loop on the device there: the host asks after each iteration.
        solver = cg(operator, b, x, check_every=1, **how)

        def solve() -> None:
            x.zero_()
            result[0] = solver()[0]

        return Run(solve, wp.synchronize_device, lambda: {"x": x.numpy().reshape(n, n), "iterations": result[0]})

    solver = cg(operator, b, x, check_every=0, **how)
    wp.load_module(device=x.device)
    x.zero_()
    solver()  # loads the solver's modules
    with wp.ScopedCapture() as capture:
        x.zero_()
        iterations = solver()[0]

    def replay() -> None:
        wp.capture_launch(capture.graph)
        result[0] = int(iterations.numpy()[0])

    return Run(replay, wp.synchronize_device, lambda: {"x": x.numpy().reshape(n, n), "iterations": result[0]})

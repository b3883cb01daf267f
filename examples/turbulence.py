"""Two-dimensional turbulence that decays, with Fourier transforms inside the device loop.

python -m examples.turbulence [--picture FILE]

The Navier-Stokes equations for the vorticity in a periodic box, pseudo-spectral: derivatives are products of Fourier
coefficients, the nonlinear term is computed at grid points. Time steps are Adams-Bashforth's of second order, viscosity is
exact (C. Canuto et al., Spectral Methods, 1988).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import qgraph


@qgraph.kernel
def decay(w_hat, w, wave, viscosity, dt, steps):
    """``steps`` of length ``dt`` of the vorticity's Fourier coefficients, in a box of 2 pi by 2 pi.

    Args:
        w_hat: (n, n) complex, the coefficients of the vorticity; changed in place.
        w: (n, n) complex, gets the vorticity at the grid points.
        wave: (n,) the wave numbers along each axis, as ``np.fft.fftfreq(n, 1 / n)`` gives them.
        viscosity: of the fluid.
        dt: the step.
        steps: how many.

    Returns:
        the enstrophy at the end: half the mean of the squared vorticity.
    """
    n = wave.shape[0]
    u_hat, v_hat = qgraph.empty_like(w_hat), qgraph.empty_like(w_hat)
    wx_hat, wy_hat = qgraph.empty_like(w_hat), qgraph.empty_like(w_hat)
    u, v = qgraph.empty_like(w_hat), qgraph.empty_like(w_hat)
    wx, wy = qgraph.empty_like(w_hat), qgraph.empty_like(w_hat)
    advected, rate = qgraph.empty_like(w_hat), qgraph.empty_like(w_hat)
    before = qgraph.zeros_like(w_hat)
    for t in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n, n):
            square = wave[i] * wave[i] + wave[j] * wave[j]
            stream = w_hat[i, j] / max(square, 1.0)
            u_hat[i, j] = 1j * wave[j] * stream
            v_hat[i, j] = -1j * wave[i] * stream
            wx_hat[i, j] = 1j * wave[i] * w_hat[i, j]
            wy_hat[i, j] = 1j * wave[j] * w_hat[i, j]
        u[:] = np.fft.ifft2(u_hat)
        v[:] = np.fft.ifft2(v_hat)
        wx[:] = np.fft.ifft2(wx_hat)
        wy[:] = np.fft.ifft2(wy_hat)
        for i, j in qgraph.ndrange(n, n):
            advected[i, j] = -u[i, j].real * wx[i, j].real - v[i, j].real * wy[i, j].real
        rate[:] = np.fft.fft2(advected)
        for i, j in qgraph.ndrange(n, n):
            square = wave[i] * wave[i] + wave[j] * wave[j]
            # Products of two waves are only right up to two thirds of the shortest one.
            kept = 1.0 if 3 * max(abs(wave[i]), abs(wave[j])) < n else 0.0
            now = kept * rate[i, j]
            step = now if t == 0 else 1.5 * now - 0.5 * before[i, j]
            before[i, j] = now * np.exp(-viscosity * square * dt)
            w_hat[i, j] = (w_hat[i, j] + dt * step) * np.exp(-viscosity * square * dt)
    w[:] = np.fft.ifft2(w_hat)
    enstrophy = 0.0
    for i, j in qgraph.ndrange(n, n):
        enstrophy += 0.5 * w[i, j].real ** 2
    return enstrophy / (n * n)


def random_vorticity(n: int, seed: int) -> np.ndarray[Any, Any]:
    """The coefficients of a random vorticity, (n, n) complex: most of it in waves of about a tenth of the box."""
    rng = np.random.default_rng(seed)
    wave = np.fft.fftfreq(n, 1 / n)
    length = np.hypot(*np.meshgrid(wave, wave, indexing="ij"))
    coefficients = np.fft.fft2(rng.standard_normal((n, n))) * np.exp(-(((length - 8) / 3) ** 2))
    coefficients[0, 0] = 0
    spread = np.sqrt(np.mean(np.fft.ifft2(coefficients).real ** 2))
    return coefficients / spread * 5


def main(arguments: list[str] | None = None) -> None:
    """Eddies that merge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", help="draw the vorticity at the beginning and at the end to this file")
    picture = parser.parse_args([] if arguments is None else arguments).picture
    n, dt, steps = 128, 5e-3, 400
    start = random_vorticity(n, 1)
    w_hat, w = qgraph.asarray(start.copy()), qgraph.zeros((n, n), complex)
    wave = qgraph.asarray(np.fft.fftfreq(n, 1 / n))
    enstrophy = decay(w_hat, w, wave, 2e-3, dt, steps)
    path = decay.last_launch.path
    print(f"turbulence: {n} x {n}, {steps} steps, enstrophy 12.50 -> {enstrophy:.2f}, path {path}")
    if picture:
        draw([np.fft.ifft2(start).real, qgraph.to_numpy(w).real], picture, f"t = {steps * dt:g}")


def draw(fields: list[np.ndarray[Any, Any]], file: str, last: str) -> None:
    """Vorticities side by side, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    for axes, field, title in zip(figure.subplots(1, 2), fields, ("t = 0", last), strict=True):
        axes.imshow(field, cmap="RdBu_r", vmin=-12, vmax=12, origin="lower")
        axes.set_title(title)
        axes.set_axis_off()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

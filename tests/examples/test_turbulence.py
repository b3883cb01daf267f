"""Two-dimensional turbulence against vortices that only fade, and against the same scheme in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from examples.turbulence import decay, random_vorticity


def grid(n):
    x = np.arange(n) * 2 * np.pi / n
    return np.meshgrid(x, x, indexing="ij")


def test_taylors_vortices_fade_and_do_not_move(run):
    n, viscosity, dt, steps = run.size(16, 6), 0.05, 0.1, 4
    x, y = grid(n)
    start = 2 * np.cos(x) * np.cos(y)
    w_hat, w = np.fft.fft2(start), np.full((n, n), 77.0 + 0j)
    enstrophy = run(decay, w_hat, w, np.fft.fftfreq(n, 1 / n), viscosity, dt, steps)
    fades = np.exp(-2 * viscosity * dt * steps)
    np.testing.assert_allclose(w.real, start * fades, atol=1e-10)
    assert enstrophy == pytest.approx(0.5 * fades**2)


def by_numpy(w_hat, wave, viscosity, dt, steps):
    n = len(wave)
    kx, ky = np.meshgrid(wave, wave, indexing="ij")
    square = kx**2 + ky**2
    fades = np.exp(-viscosity * square * dt)
    kept = 3 * np.maximum(abs(kx), abs(ky)) < n

    def real(coefficients):
        return np.fft.ifft2(coefficients).real

    before = None
    for _ in range(steps):
        stream = w_hat / np.maximum(square, 1)
        u, v = real(1j * ky * stream), real(-1j * kx * stream)
        now = kept * np.fft.fft2(-u * real(1j * kx * w_hat) - v * real(1j * ky * w_hat))
        rate = now if before is None else 1.5 * now - 0.5 * before
        before = now * fades
        w_hat = (w_hat + dt * rate) * fades
    return w_hat


def test_eddies(run):
    n, viscosity, dt, steps = run.size(24, 6), 1e-3, 0.01, run.size(12, 3)
    wave = np.fft.fftfreq(n, 1 / n)
    w_hat, w = random_vorticity(n, 3), np.zeros((n, n), complex)
    wanted = by_numpy(w_hat.copy(), wave, viscosity, dt, steps)
    enstrophy = run(decay, w_hat, w, wave, viscosity, dt, steps)
    np.testing.assert_allclose(w_hat, wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
    np.testing.assert_allclose(w, np.fft.ifft2(wanted), rtol=1e-9, atol=1e-9)
    assert enstrophy == pytest.approx(0.5 * np.mean(np.fft.ifft2(wanted).real ** 2))

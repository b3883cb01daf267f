"""Arguments of the programs of NPBench at its sizes "L": of the dtypes and shapes that its files name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from examples.npbench.programs import numbers


def _complex(*shape: int) -> np.ndarray:
    return numbers(*shape) + 1j * numbers(*shape, seed=1)


def _dominant(n: int) -> np.ndarray:
    """A positive definite matrix: symmetric, with the diagonal above the sum of its row."""
    some = numbers(n, n)
    return (some + some.T) / n + 4 * np.eye(n)


def _signed(*shape: int) -> np.ndarray:
    return numbers(*shape) - 0.5


def _mlp() -> tuple[np.ndarray, ...]:
    n = 30_000
    return numbers(8, 3), _signed(3, n), _signed(n), _signed(n, n) / n, _signed(n), _signed(n, n) / n, _signed(n)


def _lenet() -> tuple[np.ndarray, ...]:
    first, second = (_signed(5, 5, 1, 6), numbers(6)), (_signed(5, 5, 6, 16), numbers(16))
    dense = [(_signed(rows, columns), _signed(columns)) for rows, columns in ((26_896, 120), (120, 84), (84, 10))]
    return numbers(8, 176, 176, 1), *first, *second, *(each for layer in dense for each in layer)


def _spmv() -> tuple[np.ndarray, ...]:
    rows = count = 262_144
    rng = np.random.default_rng(0)
    starts = np.concatenate(([0], np.cumsum(np.bincount(rng.integers(0, rows, count), minlength=rows))))
    return starts, rng.integers(0, rows, count), numbers(count), numbers(rows)


def _scattering() -> tuple[np.ndarray, ...]:
    neighbours, sigma = np.random.default_rng(0).integers(0, 12, (12, 4)), np.zeros((3, 10, 12, 4, 4), dtype=np.complex128)
    return neighbours, _complex(12, 4, 3, 4, 4), _complex(3, 10, 12, 4, 4), _complex(3, 3, 12, 4, 3, 3), sigma


def _channel() -> tuple[Any, ...]:
    n = 201
    return 20, np.zeros((n, n)), np.zeros((n, n)), np.ones((n, n)), 0.1, 0.1 / (n - 1) ** 2, 1.0, 0.001


LARGE: dict[str, Callable[[], tuple[Any, ...]]] = {
    "adi": lambda: (50, numbers(500, 500)),
    "arc_distance": lambda: tuple(numbers(10_000_000, seed=k) for k in range(4)),
    "atax": lambda: (numbers(20_000, 25_000), numbers(25_000)),
    "azimint_hist": lambda: (numbers(40_000_000), numbers(40_000_000, seed=1), 1000),
    "azimint_naive": lambda: (numbers(40_000_000), numbers(40_000_000, seed=1), 1000),
    "bicg": lambda: (numbers(25_000, 20_000), numbers(20_000), numbers(25_000)),
    "cavity_flow": lambda: (100, 20, np.zeros((201, 201)), np.zeros((201, 201)), np.zeros((201, 201)), 0.1, 0.001),
    "channel_flow": _channel,
    "cholesky": lambda: (_dominant(900),),
    "cholesky2": lambda: (_dominant(8000),),
    "compute": lambda: (*np.random.default_rng(0).integers(0, 1000, (2, 16_000, 16_000)), 4, 3, 9),
    "contour_integral": lambda: (4 * np.exp(2j * np.pi * numbers(32)), _complex(3, 600, 600), _complex(600, 1000)),
    "conv2d_bias": lambda: (numbers(8, 128, 128, 3), numbers(10, 10, 3, 8), numbers(8)),
    "correlation": lambda: (numbers(4000, 3200),),
    "covariance": lambda: (numbers(4000, 3200),),
    "covariance2": lambda: (numbers(4000, 3200),),
    "crc16": lambda: (np.random.default_rng(0).integers(0, 256, 160_000),),
    "deriche": lambda: (0.25, numbers(6000, 3000)),
    "doitgen": lambda: (numbers(220, 250, 512), numbers(512, 512)),
    "durbin": lambda: (numbers(20_000) / 20_000,),
    "fdtd_2d": lambda: (150, *(numbers(800, 900, seed=k) for k in range(3)), numbers(150)),
    "floyd_warshall": lambda: (np.random.default_rng(0).integers(1, 1000, (850, 850)),),
    "gemm": lambda: (1.5, 1.2, numbers(7000, 7500), numbers(7000, 8000), numbers(8000, 7500)),
    "gemver": lambda: (1.5, 1.2, numbers(10_000, 10_000), *(numbers(10_000, seed=k) for k in range(8))),
    "gesummv": lambda: (1.5, 1.2, numbers(14_000, 14_000), numbers(14_000, 14_000, seed=1), numbers(14_000)),
    "go_fast": lambda: (numbers(20_000, 20_000),),
    "gramschmidt": lambda: (numbers(600, 500) + np.eye(600, 500),),
    "hdiff": lambda: (numbers(388, 388, 160), np.zeros((384, 384, 160)), numbers(384, 384, 160)),
    "heat_3d": lambda: (100, numbers(70, 70, 70), numbers(70, 70, 70)),
    "jacobi_1d": lambda: (8500, numbers(34_000), numbers(34_000)),
    "jacobi_2d": lambda: (200, numbers(700, 700), numbers(700, 700)),
    "k2mm": lambda: (1.5, 1.2, numbers(6000, 7000), numbers(7000, 6500), numbers(6500, 7500), numbers(6000, 7500)),
    "k3mm": lambda: (numbers(5500, 6500), numbers(6500, 6000), numbers(6000, 7500), numbers(7500, 7000)),
    "lenet": _lenet,
    "lu": lambda: (_dominant(700),),
    "ludcmp": lambda: (_dominant(650), numbers(650)),
    "mandelbrot1": lambda: (-2.0, 0.5, -1.25, 1.25, 833, 833, 200),
    "mandelbrot2": lambda: (-2.25, 0.75, -1.5, 1.5, 1000, 1000, 100),
    "mlp": _mlp,
    "mvt": lambda: (*(numbers(22_000, seed=k) for k in range(4)), numbers(22_000, 22_000)),
    "nbody": lambda: (numbers(100, 1), _signed(100, 3), _signed(100, 3), 900, 0.01, 0.1),
    "nussinov": lambda: (np.random.default_rng(0).integers(0, 4, 200),),
    "resnet": lambda: (numbers(8, 56, 56, 128), numbers(1, 1, 128, 32), numbers(3, 3, 32, 32), numbers(1, 1, 32, 128)),
    "scattering_self_energies": _scattering,
    "seidel_2d": lambda: (40, numbers(200, 200)),
    "softmax": lambda: (numbers(64, 16, 448, 448),),
    "spmv": _spmv,
    "stockham_fft": lambda: (2, 21, _complex(2**21), np.zeros(2**21, dtype=np.complex128)),
    "symm": lambda: (1.5, 1.2, numbers(350, 550), numbers(350, 350), numbers(350, 550, seed=1)),
    "syr2k": lambda: (1.5, 1.2, numbers(400, 400), numbers(400, 350), numbers(400, 350, seed=1)),
    "syrk": lambda: (1.5, 1.2, numbers(600, 600), numbers(600, 500)),
    "trisolv": lambda: (np.tril(numbers(14_000, 14_000)) / 14_000 + np.eye(14_000), np.zeros(14_000), numbers(14_000)),
    "trmm": lambda: (1.5, numbers(600, 600), numbers(600, 700)),
    "vadv": lambda: (numbers(180, 180), *(numbers(180, 180, 160, seed=k) for k in range(4)), numbers(181, 180, 160)),
}

"""Neighbours in a ring, ``u[(i + 1) % n]``, which are found by comparing: in every form, and where they are no such thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph


def ring(u: Any, out: Any, n: int) -> None:
    for i in range(u.shape[0]):
        out[0, i] = u[(i + 1) % u.shape[0]] - u[(i - 1) % u.shape[0]]
    m = u.shape[0]
    for i in range(m):
        after, before = (i + 1) % m, (i - 1) % m
        out[1, i] = u[after] * 10 + 7 * before + after
    for i in range(m):
        out[2, i] = u[(i + 2) % m] + u[(i + 1) % out.shape[1]] + u[(1 + i) % m]
    for i in range(n):
        out[3, i] = u[(i + 1) % n] * 10 + (i - 1) % n


def others(u: Any, out: Any, times: int) -> None:
    n = u.shape[0]
    for i in range(1, n):
        out[0, i] = u[(i + 1) % n]
    for i in range(0, n, 2):
        out[1, i] = u[(i - 1) % n]
    for i in range(n):
        at = i
        i = i + 3  # noqa: PLW2901
        out[2, at] = u[(i + 1) % n]
    for i in range(n):
        for k in range(2 * min(times, 1)):
            out[3, i] += u[(k + 1) % n] * u[(i + 1) % n]


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("kernel", [ring, others])
def test_in_one_dimension(check: Any, kernel: Any, n: int) -> None:
    check(kernel, lambda: (np.arange(1, n + 1) ** 2, np.zeros((4, n), np.int64), n))


def gray_scott(u: Any, v: Any, a: Any, b: Any, steps: int) -> None:
    n, m = u.shape
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n, m):
            a[i, j] = u[(i + 1) % n, j] + 2 * u[i, (j - 1) % m] - v[(i + 1) % n, (j + 1) % m]
            b[i, j] = v[i - 1, j] - u[i, j]
        u, a = a, u
        v, b = b, v


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5)])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_in_arrays_that_change_names(check: Any, shape: tuple[int, int], steps: int, fuse: bool) -> None:
    def args() -> tuple[Any, ...]:
        random = np.random.default_rng(4)
        return *(random.integers(0, 9, shape) for _ in range(4)), steps

    check(gray_scott, args, fuse=fuse)


@pytest.mark.needs("compiler")
def test_there_is_no_division_and_elements_are_constants() -> None:
    """The extents of ``u`` are found by a name that the loop has anyway: then nothing of it may be changed."""
    arrays = [np.zeros((8, 8), np.float32) for _ in range(4)]
    (text,) = (text for name, text in qgraph.kernel(gray_scott).ptx(*arrays, 9).items() if name.endswith("_copied"))
    assert "rem." not in text
    assert "ld.global.nc.f32" in text
    assert "ld.global.f32" not in text

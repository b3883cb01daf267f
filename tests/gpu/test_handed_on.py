"""Loops that hand the results of reductions on, on the device: any number of iterations, sizes, and the same bits each time."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import qgraph
from qgraph.runtime.executors import unrolled
from tests.handed_kernels import ALL, FLOATS, behind_another, extremes, given, greatest, like_cg, of_complex, sums, two_in_a_row

EVERY = (*range(20), 31, 32, 33, 63, 64, 65, 100)


def on_device(value):
    return qgraph.asarray(value.copy(), backend="cuda") if isinstance(value, np.ndarray) else value


def made(function, choice, monkeypatch, **options):
    """A kernel whose loops always run unrolled, or never."""
    executable = functools.partial(unrolled.CudaUnrollingExecutable, unrolled=choice)
    with monkeypatch.context() as patched:
        patched.setattr(unrolled, "CudaUnrollingExecutable", executable)
        kernel = qgraph.kernel(backend="cuda", conditional="device", **options)(function)
        kernel(*map(on_device, given(function, 1)))
    return kernel


def agrees(kernel, *args):
    mine = [on_device(each) for each in args]
    found = kernel(*mine)
    assert "unrolled" in kernel.last_launch.reason
    assert found == kernel.reference(*args)
    for one, other in zip(mine, args, strict=True):
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(qgraph.to_numpy(one), other)
    return found


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("function", ALL, ids=lambda each: each.__name__)
def test_any_number_of_iterations(function, monkeypatch):
    kernel = made(function, True, monkeypatch)
    assert all(each.handed for each in kernel.plan(*given(function, 1)).unrolled)
    for most in EVERY:
        agrees(kernel, *given(function, most, n=500))


@pytest.mark.parametrize("function", [two_in_a_row, behind_another], ids=lambda each: each.__name__)
def test_it_ends_by_what_it_computes(function, monkeypatch):
    kernel = made(function, True, monkeypatch)
    for most in (*range(1, 20), 40):
        wanted = kernel.reference(*given(function, most, n=700))
        agrees(kernel, *given(function, 1000, n=700, tolerance=int(wanted[1])))


@pytest.mark.parametrize("function", [greatest, like_cg], ids=lambda each: each.__name__)
def test_sizes(function, monkeypatch):
    kernel = made(function, True, monkeypatch)
    for n in (0, 1, 2, 33, 300, 40_000, 5, 3000):
        for most in (1, 9, 33):
            agrees(kernel, *given(function, most if n < 4000 else 9, n=n))


@pytest.mark.parametrize("function", FLOATS, ids=lambda each: each.__name__)
def test_the_same_bits_each_time_and_in_each_graph(function, monkeypatch):
    kernels = [made_of_floats(function, choice, monkeypatch) for choice in (True, False)]
    for n in (1, 300, 70_000, 3_000_000):
        for most in (1, 16, 21):
            answers = [kernel(*map(on_device, floats(function, n, most))) for kernel in kernels for _ in range(4)]
            assert len({np.array(each).tobytes() for each in answers}) == 1, (n, most, answers)


def made_of_floats(function, choice, monkeypatch):
    executable = functools.partial(unrolled.CudaUnrollingExecutable, unrolled=choice)
    with monkeypatch.context() as patched:
        patched.setattr(unrolled, "CudaUnrollingExecutable", executable)
        kernel = qgraph.kernel(backend="cuda", conditional="device")(function)
        kernel(*map(on_device, floats(function, 9, 1)))
    return kernel


def floats(function, n, most):
    x = np.sin(np.arange(n) + 1.0)
    x = x + 0.5j if function is of_complex else x
    if function is extremes:
        x[::7], x[3::11] = np.nan, -0.0
    return x, x[::-1].copy(), 1e9 if function is extremes else -1.0, most


def test_many_launches_in_a_row(monkeypatch):
    kernel = made(greatest, True, monkeypatch)
    wanted = kernel.reference(*given(greatest, 50, n=200))
    mine = [[on_device(each) for each in given(greatest, 50, n=200)] for _ in range(200)]
    assert {kernel(*each) for each in mine} == {wanted}


def test_sums_are_those_of_plain_python(monkeypatch):
    kernel = made_of_floats(sums, True, monkeypatch)
    args = floats(sums, 5000, 37)
    np.testing.assert_allclose(kernel(*map(on_device, args)), kernel.reference(*args), rtol=1e-10)

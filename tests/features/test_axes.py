"""Reductions along axes, `axis=` and `keepdims=`, and lengths of 1 that are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.frontend import build as build_module
from tests.conftest import THOROUGH, thorough


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    found = rng.random(shape) * 3 + 0.5
    return (found + 1j * rng.random(shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def sums(x: Any) -> Any:
    return x.sum(axis=0), np.sum(x, -1), x.prod(1), x.mean(axis=(0, 2), keepdims=True), np.mean(x, axis=1), x.any(axis=2)


def others(x: Any) -> Any:
    return np.all(x, axis=(-1, 0)), np.count_nonzero(x, 1), np.sum(x, axis=None, keepdims=True), np.var(x, 2), np.std(x)


def extremes(x: Any) -> Any:
    return x.min(axis=0), np.amax(x, axis=(1, 2)), np.argmax(x, 1), x.argmin(axis=2, keepdims=True), x.max(keepdims=True)


def spreads(x: Any) -> Any:
    return np.ptp(x, axis=0), np.ptp(x), x.var(axis=1, ddof=1), np.std(x, (0, 1), ddof=2), np.linalg.norm(x, axis=1)


# With an axis of one element, in one type.
REAL = [((2, 3, 4), "float32"), ((2, 3, 4), "int16"), pytest.param((5, 1, 2), "float64", marks=THOROUGH)]
OTHER = [pytest.param((2, 3, 4), dtype, marks=THOROUGH) for dtype in ("complex64", "bool")]


@pytest.mark.parametrize(("shape", "dtype"), [*REAL, *OTHER])
@pytest.mark.parametrize("function", [sums, others])
def test_sums_along_axes(check: Any, function: Any, dtype: str, shape: tuple[int, ...]) -> None:
    if dtype == "complex64":
        # To more places than single precision has products.
        check(function, lambda: (numbers(shape, dtype),), tolerance=1e-4)
    else:
        check(function, lambda: (numbers(shape, dtype),))


def products(x: Any) -> Any:
    return x.prod(axis=1)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_products_overflow_in_the_type_of_the_elements(check: Any) -> None:
    check(products, lambda: (np.array([[1e30, 1e30, 1e-30], [1, 2, 3]], np.float32),))


def test_threads_share_a_long_sum(backend: str) -> None:
    assert str(qgraph.kernel(long_sums).plan(np.ones((3, 4)))).count("threads share it") == 2


def long_sums(x: Any) -> Any:
    return x.sum(axis=1), x.mean(axis=-1)


def test_many_numbers_of_single_precision_are_summed_as_exactly_as_by_numpy(check: Any) -> None:
    def rows() -> tuple[np.ndarray, ...]:
        return (np.repeat(np.array([[0.1], [1.3]], np.float32), 5000, axis=1),)

    check(long_sums, rows, tolerance=2e-6)


@pytest.mark.parametrize(("shape", "dtype"), REAL)
@pytest.mark.parametrize("function", [extremes, spreads])
def test_extremes_along_axes(check: Any, function: Any, dtype: str, shape: tuple[int, ...]) -> None:
    if function is extremes or min(shape) > 1:
        check(function, lambda: (numbers(shape, dtype),))


def places(x: Any) -> Any:
    return np.argmin(x, axis=1), np.argmax(x, 0), np.min(x, axis=0), np.max(x, axis=-1)


def test_the_first_of_equal_elements_and_a_nan(check: Any) -> None:
    equal = np.array([[1.0, 3, 3, 1], [2, 2, 2, 2], [0, 0, 5, 5]])
    check(places, lambda: (equal.copy(),))
    check(places, lambda: (np.array([[1.0, np.nan, 0, np.nan], [2, 1, np.inf, 0], [-np.inf, 0, 0, np.nan]]),))


def no_extremes(x: Any) -> Any:
    return x.sum(axis=0), np.prod(x, 1), x.any(0), np.all(x, axis=1, keepdims=True)


def one_extreme(x: Any) -> Any:
    return np.max(x, axis=0)


def one_place(x: Any) -> Any:
    return np.argmin(x, axis=0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_axes_without_elements(check: Any, rig: Any, shape: tuple[int, ...]) -> None:
    check(no_extremes, lambda: (np.zeros(shape),))
    for function in (one_extreme, one_place):
        if shape[0]:
            check(function, lambda: (np.zeros(shape),))
        else:
            with pytest.raises(ValueError, match="empty sequence|no identity"):
                function(np.zeros(shape))
            with pytest.raises(qgraph.ArgumentError, match="is of an array without elements"):
                rig.run(rig.kernel(function), np.zeros(shape))


def in_expressions(x: Any, b: Any, y: Any) -> Any:
    y[:] = x.sum(axis=0)
    y[1:] += np.sum(x * b, axis=0)[:-1] / 2
    centred = x - x.mean(axis=1, keepdims=True)
    weights = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    t = np.sum(x[:, None, :] * x[None] + b, axis=2)
    x[1, :] = (x.T @ x).max(axis=0)
    return centred, weights, t, np.sum((x + b).sum(axis=0)), x[:, 1:].T.sum(axis=0), np.sqrt(np.sum(x**2, axis=1))


@pytest.mark.parametrize("dtype", ["float64", *thorough("float32")])
def test_in_larger_expressions(check: Any, backend: str, dtype: str) -> None:
    if backend == "cuda":
        pytest.importorskip("torch")
    check(in_expressions, lambda: (numbers((3, 4), dtype), numbers((4,), dtype, 1), numbers((4,), dtype, 2)))


@qgraph.func
def normalised(x: Any) -> Any:
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1)


def in_loops_and_branches(x: Any, y: Any, k: Any, steps: int) -> Any:
    for _ in qgraph.serial(range(steps)):
        x[:] = normalised(x) + y.sum(axis=1, keepdims=True)
    n = 0
    while n < 3:
        y -= y.max(axis=1)[:, None]
        if np.min(x.sum(axis=0)) < 1:
            y[:, 0] = x[: k[0], :].sum(axis=0)[0]
        n += 1
    x[k[0] :, 0] = y[k[0] :].mean(axis=1)
    return np.sum(x[: k[0]], axis=0), x[:, k[0] :].max(axis=1)


@pytest.mark.parametrize("k", [1, 2])
def test_in_loops_and_of_lengths_of_the_device(check: Any, k: int) -> None:
    check(in_loops_and_branches, lambda: (numbers((3, 4), "float64"), numbers((3, 5), "float64", 1), np.array([k]), 2))


def in_iterations(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        y[i, 0] = np.var(x[i]) + x[i].std(ddof=1)
        y[i, 1] = np.ptp(x[i, 1:]) + np.sum(x[i], axis=0)
        y[i, 2] = np.mean(x[i], axis=-1) + np.max(x[i], axis=None)


@pytest.mark.parametrize("dtype", ["float64", *thorough("int32")])
def test_reductions_of_rows_in_loops(check: Any, dtype: str) -> None:
    check(in_iterations, lambda: (numbers((4, 5), dtype) * 9, np.zeros((4, 3), "float32" if dtype == "float32" else "float64")))


# --- lengths of 1 ------------------------------------------------------------------------------------------------------


def differences(x: Any) -> Any:
    d = x.T - x
    return d, np.zeros_like(x) + d, d + x[None, :, 0], len(x), x.shape[1] + x.size


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (1, 1), (3, 3)])
def test_an_argument_with_a_length_of_1(check: Any, shape: tuple[int, ...]) -> None:
    check(differences, lambda: (numbers(shape, "float64"),))


def stored(y: Any, x: Any) -> None:
    y[:] = x
    y += x
    y[1:] *= x[-1:] + x[0]


def test_one_kernel_of_arrays_with_and_without_lengths_of_1(rig: Any) -> None:
    """Each time that another axis has length 1 the kernel is compiled for it; a wrong length is refused as before."""
    kernel = rig.kernel(stored)
    for shape in [(3, 4), (3, 1), (1, 4), (3, 4), (1, 1), (3, 1)]:
        rig.compare(kernel, lambda shape=shape: (numbers((3, 4), "float64"), numbers(shape, "float64", 1)))
    assert kernel.stats.executables == 4
    for shapes in [((3, 1), (3, 4)), ((3, 4), (3, 2)), ((1, 4), (3, 4))]:
        args = [np.ones(shape) for shape in shapes]
        with pytest.raises(ValueError, match="broadcast"):
            stored(*args)
        with pytest.raises(qgraph.ArgumentError, match="has length"):
            rig.run(kernel, *args)
        assert args[0].min() == args[0].max() == 1


def test_what_is_built_for_a_column_is_built_once(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a length is 1 is seen where it meets another one; a plan is that of a call."""
    built: list[bool] = []
    build = build_module._built
    monkeypatch.setattr(build_module, "_built", lambda *args: (build(*args), built.append(True))[0])
    args = [rig.device(each) for each in (numbers((3, 4), "float64"), numbers((3, 1), "float64", 1))]
    kernel = rig.kernel(stored)
    rig.run(kernel, *args)
    assert len(built) == 1
    plan = str(kernel.plan(*args))
    assert len(built) == 2
    assert str(rig.kernel(stored).plan(*args)) == plan
    assert len(built) == 3


def test_bound_and_checked(rig: Any) -> None:
    args = numbers((3, 4), "float64"), numbers((1, 4), "float64", 1)
    wanted = args[0].copy()
    stored(wanted, args[1])
    given = [rig.device(each.copy()) for each in args]
    rig.kernel(stored).bind(*given).launch()
    np.testing.assert_allclose(qgraph.to_numpy(given[0]), wanted)
    rig.kernel(stored).check(*args)


def swapped(x: Any, y: Any, z: Any, steps: int) -> None:
    for _ in qgraph.serial(range(steps)):
        y[:] = x + 1
        x, y = y, x
        z += x


@pytest.mark.parametrize("steps", [2, 3])
def test_arrays_that_change_places(check: Any, steps: int) -> None:
    check(swapped, lambda: (numbers((3, 1), "float64"), numbers((3, 1), "float64", 1), numbers((3, 4), "float64", 2), steps))


@pytest.mark.needs("compiler")
def test_code_for_a_gpu() -> None:
    assert qgraph.kernel(extremes).ptx(np.zeros((2, 3, 4)))
    assert qgraph.kernel(in_loops_and_branches).ptx(np.zeros((3, 4)), np.zeros((3, 5)), np.array([1]), 2)


def test_options_that_a_range_does_not_take_are_refused(rig: Any) -> None:
    def of_rows(a: Any, z: Any) -> None:
        for i in range(a.shape[0]):
            z[i] = np.ptp(a[i], initial=0)

    with pytest.raises(qgraph.KernelSyntaxError, match="has arguments that are not supported"):
        rig.kernel(of_rows)(rig.device(np.ones((2, 3))), rig.device(np.zeros(2)))

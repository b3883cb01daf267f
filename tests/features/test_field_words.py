"""NumPy's functions of fields and tensors, and those that look numbers up, of arrays and in loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough


def padded(a: Any, x: Any, n: int, value: float) -> Any:
    return (
        np.pad(x, 1),
        np.pad(x, (n, 2), constant_values=value),
        np.pad(a, ((1, 0), (n, 2)), "constant"),
        np.pad(a, n, mode="edge"),
        np.pad(x, 3 * n, mode="wrap"),
        np.pad(x, (0, 5 * n), "symmetric"),
        np.pad(a, ((n, 2 * n), (1, 9)), "reflect") * 2,
        np.pad(a[1:, :2], ((1, 2),), "reflect"),
    )


@pytest.mark.parametrize(("dtype", "n"), [("float64", 3), ("int8", 7), ("complex64", 1)])
def test_padding(check: Any, dtype: str, n: int) -> None:
    def args() -> tuple[Any, ...]:
        return (np.arange(15).reshape(3, 5) / 2).astype(dtype), np.arange(4).astype(dtype), n, 2

    check(padded, args)


def padded_one(x: Any) -> Any:
    return np.pad(x, 3, "reflect"), np.pad(x, 2, "symmetric"), np.pad(x, 2, "wrap")


def test_padding_of_one_element(check: Any) -> None:
    check(padded_one, lambda: (np.array([2.5]),))


def differences(a: Any, x: Any, h: float) -> Any:
    return np.gradient(x), np.gradient(x, h), np.gradient(a, 0.5, axis=0) + np.gradient(a, h, axis=-1) * 2


@pytest.mark.parametrize("dtype", ["float64", "int16", *thorough("float32", "complex128")])
def test_gradients(check: Any, dtype: str) -> None:
    def args(n: int) -> tuple[Any, ...]:
        return (np.random.default_rng(0).random((n, 4)) * 50).astype(dtype), np.arange(n).astype(dtype) ** 2, 0.1

    for n in (2, 5):
        check(differences, lambda n=n: args(n), tolerance=1e-6)


def vectors(r: Any, s: Any, c: Any) -> Any:
    t = np.cross(r, s) + np.cross(c, r)
    return t, np.cross(s, c), np.cross(r[:, ::-1], s * 2), np.cross(c, c[::-1])


@pytest.mark.parametrize("dtype", ["int32", "complex64", *thorough("float64")])
def test_cross_products(check: Any, dtype: str) -> None:
    def args() -> tuple[Any, ...]:
        random = np.random.default_rng(1)
        return tuple((random.random(shape) * 9).astype(dtype) for shape in ((5, 3), (5, 3), (3,)))

    check(vectors, args, tolerance=1e-6)


def products(a: Any, b: Any, x: Any, y: Any) -> Any:
    return np.kron(a, b), np.kron(x, y), np.squeeze(a[:, 1:2], axis=1) * 2, np.squeeze(a[None], 0) + 1


def test_kronecker_products_and_axes_left_out(check: Any) -> None:
    check(products, lambda: (np.arange(6.0).reshape(2, 3), np.arange(8).reshape(4, 2), np.arange(3), np.arange(5.0)))


def sums(a: Any, b: Any, c: Any, x: Any) -> Any:
    return (
        np.einsum("ij,jk->ik", a, b),
        np.einsum("ij,j->i", a, x),
        np.einsum("i,ij->j", x, b),
        np.einsum("aij,ajk->aik", c, c),
        np.einsum("ij,jk", b, b),
        np.einsum("ba", a),
        np.einsum("ij->ji", a),
        np.einsum("ij->j", a),
        np.einsum("ij,kj->ik", a, b),
        np.einsum("i,j->ij", x, x),
        np.einsum("aij,ji->a", c, b),
        np.einsum("aij,j,a->i", c, x, x),
        np.einsum("ij, ij -> i", b, b) + np.einsum("kij->jk", c)[0],
    )


@pytest.mark.parametrize("dtype", ["float64", "int64", *thorough("complex64")])
def test_sums_over_labels(check: Any, dtype: str) -> None:
    def args() -> tuple[Any, ...]:
        random = np.random.default_rng(2)
        return tuple((random.random(shape) * 5).astype(dtype) for shape in ((2, 4), (4, 4), (4, 4, 4), (4,)))

    check(sums, args, tolerance=1e-5)


PLACES, VALUES = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([1.0, 3.0, -2.0, 0.25])


def interpolated(x: Any, grid: Any, xp: Any, fp: Any, low: float) -> Any:
    return np.interp(x, xp, fp), np.interp(grid, xp, fp, low, 9) * 2, np.interp(x, xp, fp, right=low)


def args_of_tables(dtype: str = "float64") -> tuple[Any, ...]:
    x = np.array([-2, -1, -0.5, 0, 0.1, 0.5, 1.99, 2, 2.1, np.nan, np.inf, -np.inf]).astype(dtype)
    return x, x.reshape(3, 4), PLACES.astype(dtype), VALUES.astype(dtype), -7.5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_interpolation(check: Any, dtype: str) -> None:
    check(interpolated, lambda: args_of_tables(dtype))
    steps = np.array([0.0, 1, 1, 2]), np.array([0.0, np.inf, np.inf, 5])
    check(interpolated, lambda: (np.arange(9) / 4, np.ones((2, 2)), *steps, 0.5))
    check(interpolated, lambda: (np.arange(3), np.ones((1, 2)), np.array([1.0]), np.array([5]), 0.5))


def looked_up(x: Any, table: Any, xp: Any, fp: Any, y: Any, k: Any, low: float) -> Any:
    for i in range(x.shape[0]):
        y[i, 0] = np.interp(x[i], xp, fp)
        y[i, 1] = np.interp(x[i], xp, table[i % 2], left=low) + np.interp(i, xp, fp, low, 2.0)
        k[i, 0] = np.searchsorted(xp, x[i])
        k[i, 1] = np.searchsorted(xp, x[i], side="right")
    return np.interp(0.3, xp, fp) + np.searchsorted(xp, x[1], "right")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_number_is_looked_up(check: Any, dtype: str) -> None:
    def args() -> tuple[Any, ...]:
        x, _, xp, fp, low = args_of_tables(dtype)
        return x, np.stack([fp, fp[::-1]]), xp, fp, np.zeros((12, 2), dtype), np.zeros((12, 2), int), low

    check(looked_up, args, tolerance=1e-6)


def placed(x: Any, table: Any, k: Any) -> None:
    for i in range(x.shape[0]):
        k[i] = np.searchsorted(table, x[i]) * 10 + np.searchsorted(table, x[i], side="right")


@pytest.mark.parametrize("table", [np.array([1.0, 1, 2, np.nan, np.nan]), np.array([3, 3, 5]), np.zeros(0)])
def test_places_in_a_table(check: Any, table: Any) -> None:
    check(placed, lambda: (np.array([0.0, 1, 1.5, 2, 3, 7, np.nan]), table, np.full(7, -1)))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("np.pad(x, -1)", "the widths are -1 and -1"),
        ("np.pad(x[:0], 1, 'wrap')", "an axis has 0 elements"),
        ("np.pad(x, 1, 'mean')", "is no mode that kernels have"),
        ("np.pad(a, ((1, 1), (1, 1), (1, 1)))", "is no width"),
        ("np.gradient(a)", "no axis is named"),
        ("np.gradient(x[:1])", "the axis has 1 elements"),
        ("np.gradient(x > 1)", "are booleans"),
        ("np.cross(a, a)", "a vector has 4 components"),
        ("np.cross(a[:, :3], a[1:, :3])", "the arrays have lengths"),
        ("np.kron(a, x)", "other numbers of dimensions"),
        ("np.squeeze(a * 2, axis=0)", "the axis has 3 elements"),
        ("np.squeeze(a * 2)", "no axis is named"),
        ("np.interp(x, x, x[1:])", "there are 4 places and 3 values"),
        ("np.interp(x, x[:0], x[:0])", "there are 0 places"),
        ("np.interp(x, x, x * 1j)", "are complex numbers"),
        ("np.einsum('ii->i', a)", "does not name the axes"),
        ("np.einsum('ij,j->k', a, x)", "does not name the axes"),
        ("np.einsum('ijk->i', a)", "does not name the axes"),
        ("np.einsum('ij,ij->', a, a)", "the result is a number"),
        ("np.einsum('ij->i', a.astype(np.int8))", "are narrow integers"),
        ("np.einsum('ij,ik->jk', a, x[:2, None])", "3"),
    ],
)
def test_refusals(rig: Any, tmp_path: Any, expression: str, words: str) -> None:
    file = tmp_path / "refused.py"
    file.write_text(f"def kernel(a, x):\n    z = {expression}\n    return z + 1\n")
    namespace: dict[str, Any] = {"np": np}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    with pytest.raises((qgraph.KernelSyntaxError, qgraph.ArgumentError), match=re.escape(words)):
        rig.run(rig.kernel(namespace["kernel"]), np.ones((3, 4)), np.arange(4.0))


def lengths_differ(x: Any, xp: Any, fp: Any) -> None:
    for i in range(x.shape[0]):
        x[i] = np.interp(x[i], xp, fp)


def test_a_table_that_does_not_fit(rig: Any) -> None:
    with pytest.raises(ValueError, match="not of the same length"):
        rig.run(rig.kernel(lengths_differ), np.ones(3), np.arange(3.0), np.arange(4.0))


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [padded, looked_up])
def test_they_are_compiled_for_cuda(function: Any) -> None:
    x, _, xp, fp, low = args_of_tables()
    tables = x, np.stack([fp, fp]), xp, fp, np.zeros((12, 2)), np.zeros((12, 2), int), low
    args = (np.ones((3, 5)), np.ones(4), 2, 1.5) if function is padded else tables
    assert all(".entry" in text for text in qgraph.kernel(backend="cuda")(function).ptx(*args).values())

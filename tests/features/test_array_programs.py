"""Whole programs of NumPy: products and other functions of libraries inside larger expressions, in Python's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph


@pytest.fixture(autouse=True)
def _library(backend: str) -> None:
    if backend == "cuda":
        pytest.importorskip("torch")


def numbers(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) * 4).astype(dtype)


@qgraph.func
def doubled(x: Any) -> Any:
    x *= 2
    return x


def products(alpha: float, a: Any, b: Any, c: Any, x: Any) -> Any:
    c[:] = alpha * a @ b @ b + 2 * c
    x += a.T @ x + np.dot(x, a)
    t = x @ a * np.sum(x)
    c[1:, 0] = (a @ b)[1:, 1] - a[1:, :] @ x
    t[0] = (a @ doubled(x) + (x @ a))[-1]
    return t, a @ b, np.max(a @ x), (a @ x)[1:], x @ a @ x, (a @ b + 1).T


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_products_in_expressions(check: Any, dtype: str) -> None:
    def arguments() -> tuple[Any, ...]:
        matrices = (numbers(3, 3, dtype=dtype, seed=seed) for seed in range(3))
        return 2 if dtype == "int32" else 1.5, *matrices, numbers(3, dtype=dtype)

    check(products, arguments, tolerance=1e-11)


def shared_parts(x: Any) -> Any:
    t = x + 1
    return t, t[1:]


def test_a_part_of_an_array_that_is_returned_too() -> None:
    with pytest.raises(qgraph.KernelSyntaxError, match="together with another part, or all, of it"):
        qgraph.kernel(shared_parts).plan(np.ones(3))

"""`np.histogram`, `np.bincount` and `np.digitize` at kernel level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph


def numbers(n: int, dtype: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).integers(-10, 11, n) / (1 if np.dtype(dtype).kind in "iu" else 4)).astype(dtype)


def histograms(x: Any, w: Any, k: Any, edges: Any, n: int) -> Any:
    counts, made = np.histogram(x, 5)
    weighted = np.histogram(x, bins=n, range=(-1.5, 1.75), weights=w)[0]
    between, given = np.histogram(x, edges, weights=k)
    return counts, made, weighted, between, given, np.histogram(x)[1], np.histogram(x, n)[0] / np.sum(np.histogram(x, n)[0])


def test_histograms(check: Any) -> None:
    def arguments() -> tuple[Any, ...]:
        weights = np.random.default_rng(0).random(60), np.random.default_rng(0).integers(-3, 9, 60)
        return numbers(60, "float64"), *weights, np.array([-2, -1.5, 0, 0, 1.25, 2.5]), 7

    check(histograms, arguments, tolerance=1e-11)


def test_a_histogram_of_one_number(check: Any) -> None:
    check(histograms, lambda: (np.full(4, 2.0), np.ones(4), np.arange(4), np.array([1.0, 2.0]), 3))


def histograms_of_nothing(x: Any, w: Any, k: Any) -> Any:
    """Of nothing the bins are between 0 and 1, but where others are asked for."""
    counts, edges = np.histogram(x, 4)
    of_integers, between = np.histogram(k)
    asked, given = np.histogram(x, 3, range=(2.0, 5.0))
    return counts, edges, of_integers, between, asked, given, np.histogram(k, 2, weights=w)[0]


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_histograms_of_nothing(check: Any, dtype: str) -> None:
    check(histograms_of_nothing, lambda: (np.zeros(0), np.zeros(0), np.zeros(0, dtype)))


def counts_of_numbers(k: Any, w: Any, n: int) -> Any:
    return np.bincount(k, minlength=n), np.bincount(k, minlength=n) * 2 + np.bincount(k + 1, minlength=n + 1)[1:]


def weighted_counts(k: Any, w: Any, n: int) -> Any:
    return np.bincount(k, w, n + 2), np.bincount(k, weights=w * 2, minlength=n) + 1


def test_weighted_counts(check: Any, rig: Any) -> None:
    rng = np.random.default_rng(1)
    check(weighted_counts, lambda: (np.arange(40) % 6, rng.random(40) * 0 + 0.25, 6), tolerance=1e-11)
    with pytest.raises(qgraph.ArgumentError, match="`k` has 0 elements"):
        rig.run(rig.kernel(weighted_counts), np.zeros(0, np.int64), np.zeros(0), 6)
    with pytest.raises(qgraph.ArgumentError, match="`w` has length 3, and `k` 4"):
        rig.run(rig.kernel(weighted_counts), np.zeros(4, np.int64), np.zeros(3), 6)


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
@pytest.mark.parametrize("n", [0, 40])
def test_counts_of_numbers(check: Any, dtype: str, n: int) -> None:
    def arguments() -> tuple[Any, ...]:
        rng = np.random.default_rng(n)
        return rng.integers(0, 6, n).astype(dtype), rng.random(n), 7 if n == 0 else 6

    check(counts_of_numbers, arguments, tolerance=1e-11)


def too_short(k: Any) -> Any:
    return np.bincount(k, minlength=3)


@pytest.mark.parametrize("wrong", [3, -1])
def test_a_length_that_is_not_enough(rig: Any, wrong: int) -> None:
    with pytest.raises(qgraph.ArgumentError, match="`k` has elements below 0, or not below `3`"):
        rig.run(rig.kernel(too_short), np.array([0, 2, wrong]))


def places(x: Any, edges: Any, a: Any) -> Any:
    return np.digitize(x, edges), np.digitize(x, edges, right=True), np.digitize(a * 2, bins=edges) + 1


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places_between_edges(check: Any, dtype: str) -> None:
    x = numbers(30, dtype)
    if dtype.startswith("float"):
        x[3] = np.nan
    check(places, lambda: (x, np.array([-2.0, -1.5, 0, 0, 1.25]), np.arange(6.0).reshape(2, 3) - 3))


def two_histograms(x: Any, edges: Any, n: int) -> Any:
    return np.histogram(x, edges)[0], np.histogram(x, n)[0]


@pytest.mark.parametrize(
    ("x", "edges", "words"),
    [
        ([1.0, np.nan], [0.0, 1], "has no range of finite numbers"),
        ([1.0, 2.0], [1.0, 0], "`edges` does not increase"),
    ],
)
def test_bins_that_numpy_refuses(rig: Any, x: list[float], edges: list[float], words: str) -> None:
    with pytest.raises(qgraph.ArgumentError, match=words):
        rig.run(rig.kernel(two_histograms), np.array(x), np.array(edges), 3)


def in_a_loop(x: Any, steps: int) -> Any:
    total = 0.0
    for t in qgraph.serial(range(steps)):
        counts, edges = np.histogram(x, 4)
        total += counts[t] * edges[t]
        x[np.digitize(x, edges) == 1] += 0.5
    return total


def weighted_remainders(k: Any, w: Any) -> Any:
    return np.bincount(k % 4, weights=w, minlength=4)


def test_weights_of_nothing(rig: Any) -> None:
    with pytest.raises(qgraph.ArgumentError, match=r"`k % 4` has 0 elements"):
        rig.run(rig.kernel(weighted_remainders), np.zeros(0, np.int64), np.zeros(0))


def test_in_a_loop(check: Any) -> None:
    check(in_a_loop, lambda: (numbers(30, "float64"), 3))


@pytest.mark.needs("compiler")
def test_they_are_compiled_for_cuda() -> None:
    tasks = qgraph.kernel(backend="cuda")(two_histograms).ptx(np.ones(9), np.ones(3), 3)
    assert all(".entry" in text for text in tasks.values())


def of_even_bins(x: Any, k: Any, n: int, low: float) -> Any:
    return np.histogram(x, n)[0], np.histogram(x, n, (low, 0.7))[0], np.histogram(k, n)[0], np.histogram(x * 0 + 1e9, n)[0]


@pytest.mark.parametrize("n", [1, 7, 30, 100])
def test_elements_at_the_edges_of_even_bins(check: Any, n: int) -> None:
    """The product that guesses a bin is rounded, on either side of an edge."""

    def args() -> tuple[Any, ...]:
        edges = np.linspace(0.1, 0.7, n + 1)
        x = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), np.arange(30) / 30])
        return x, np.arange(-40, 60) ** 3, n, 0.1

    check(of_even_bins, args)

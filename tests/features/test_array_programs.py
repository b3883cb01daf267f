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


def of_sizes_of_the_device(a: Any, c: Any, x: Any) -> Any:
    n = a.shape[0]
    for i in qgraph.serial(range(n - 1)):
        c[i + 1 : n, i] = c[i, i + 1 : n] = a[:, i] @ a[:, i + 1 : n]
        x[: i + 1] += a[: i + 1, :] @ x
        t = a[: i + 1] @ a[:, i:] * 2
        a[: i + 1, i:] = t - np.flip(t, axis=0)
    return c + 1


def test_sizes_that_only_the_device_knows(check: Any) -> None:
    check(of_sizes_of_the_device, lambda: (numbers(4, 4), numbers(4, 4, seed=1), numbers(4)), tolerance=1e-10)


def of_unlike_operands(a: Any, b: Any, matrix: Any, row: Any, column: Any, n: Any) -> None:
    k, m = n[0], n[1]
    matrix[:, :m] = a[:, :k] @ b[:k, :m]
    row[:m] = a[1, :k] @ b[:k, :m]
    column[:] = a[:, :k] @ b[:k, 0]


DTYPES = ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", ["bool", "int8", "uint8", "float32"])
def test_products_of_all_types(check: Any, dtype: str, other: str) -> None:
    def operand(dtype: str, seed: int) -> np.ndarray:
        kind = np.dtype(dtype).kind
        return (
            numbers(5, 5, seed=seed) > 2.6
            if kind == "b"
            else (numbers(5, 5, seed=seed) * (1 if kind in "fc" else 31)).astype(dtype)
        )

    def arguments() -> tuple[Any, ...]:
        a, b = operand(dtype, 1), operand(other, 2)
        found = np.zeros((5, 5), (a @ b).dtype)
        return a, b, found, found[0].copy(), found[1].copy(), np.array([4, 3])

    check(of_unlike_operands, arguments, tolerance=1e-5)


def of_lengths_that_differ(a: Any, b: Any, y: Any, n: Any) -> None:
    y[:] = a[: n[0]] @ b[: n[1]]


def test_products_of_lengths_that_only_the_device_knows(rig: Any) -> None:
    a, y = numbers(5, 5), np.zeros(5)
    rig.run(rig.kernel(of_lengths_that_differ), a[0], a, y, np.array([3, 3]))
    np.testing.assert_allclose(y, a[0, :3] @ a[:3], rtol=1e-12)
    # NumPy repeats no length of 1 there.
    for lengths in ([3, 4], [1, 4], [4, 1]):
        with pytest.raises(qgraph.ArgumentError, match=r"have different lengths|has length"):
            rig.run(rig.kernel(of_lengths_that_differ), a[0], a, y, np.array(lengths))
            qgraph.synchronize()


def loops_over_elements(x: Any, a: Any, y: Any) -> Any:
    total = 0.0
    for v, row in zip(x, a):
        y[0] += v * np.sum(row)
    for k, row in enumerate(a):
        y[k] += k * row[1]
    for k, row in enumerate(a, 2):
        y[k - 2] += k * row[0]
    for v in qgraph.serial(x[1:]):
        total = total * 2 + v
    for row in qgraph.serial(a):
        x += row[0]
    for k, (v, w) in qgraph.serial(enumerate(zip(x, y))):
        total += k * v * w
        y += v
    for k, v in qgraph.serial(enumerate(x[1:], start=-4)):
        total += k * v
    return total


def test_loops_over_the_elements_of_arrays(check: Any) -> None:
    check(loops_over_elements, lambda: (numbers(3), numbers(3, 2), numbers(4)))


def with_kernel_scalars(x: Any, k: float) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        total += np.tanh(x[i])
    most, mean = np.max(x), np.sum(x) / x.shape[0]
    t = x + total
    return t, x > mean, x * most + k, np.array([most, mean]), np.where(x > most - 1, x, total)


def test_kernel_scalars_in_new_arrays(check: Any) -> None:
    check(with_kernel_scalars, lambda: (numbers(5), 0.5))


def of_an_unknown_type(x: Any, y: Any) -> Any:
    total = 0
    for i in range(x.shape[0]):
        total += y[i]
    return x + total


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_kernel_scalar_that_may_change_the_type(dtype: str) -> None:
    # Where there is nothing to add up, the sum is Python's 0.
    with pytest.raises(qgraph.KernelSyntaxError, match="is not known before the launch"):
        qgraph.kernel(of_an_unknown_type).plan(np.ones(3, dtype), np.ones(3, np.int64))


# --- programs with reductions along axes -------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def accelerations(position: Any, mass: Any, g: float, softening: float) -> Any:
    """Of bodies that attract each other: columns against rows."""
    x, y = position[:, 0:1].copy(), position[:, 1:2].copy()
    dx, dy = x.T - x, y.T - y
    inverse = dx**2 + dy**2 + softening**2
    inverse = np.where(inverse > 0, inverse, 1.0) ** -1.5
    return g * (dx * inverse) @ mass, g * (dy * inverse) @ mass


def pairs(x: Any, mass: Any) -> Any:
    """The same of columns that are passed: positions and masses of shape (n, 1)."""
    d = x.T - x
    return np.sum(d * mass, axis=0, keepdims=True).T - np.sum(d * mass.T, axis=1)[:, None], np.sum(mass * x**2, 0)


def correlation(data: Any) -> Any:
    mean = np.mean(data, axis=0)
    deviation = np.std(data, axis=0)
    deviation[:] = np.where(deviation <= 0.1, 1.0, deviation)
    centred = (data - mean) / (np.sqrt(data.shape[0]) * deviation)
    return centred.T @ centred, mean


def nearest(points: Any, centres: Any, steps: int) -> Any:
    """k-means: the nearest centre of each point, and the mean of its points."""
    labels = np.zeros(points.shape[0], np.int64)
    for _ in qgraph.serial(range(steps)):
        distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        labels[:] = np.argmin(distances, axis=1)
        for k in range(centres.shape[0]):
            count = 0
            for i in range(points.shape[0]):
                count += 1 if labels[i] == k else 0
            for j in range(points.shape[1]):
                total = 0.0
                for i in range(points.shape[0]):
                    total += points[i, j] if labels[i] == k else 0.0
                centres[k, j] = total / max(count, 1)
    return labels, centres.sum(axis=0)


def batch_norm(x: Any, eps: float) -> Any:
    mean = np.mean(x, axis=0, keepdims=True)
    return np.maximum((x - mean) / np.sqrt(np.var(x, axis=0, keepdims=True) + eps), 0)


def pooled(x: Any, out: Any) -> None:
    """The largest of each 2 by 2 window of images whose last axis has channels."""
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            out[:, i, j, :] = 0
    for i in qgraph.serial(range(out.shape[1])):
        for j in qgraph.serial(range(out.shape[2])):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))


def by_distance(data: Any, radius: Any, bins: int) -> Any:
    """The mean of the data in rings."""
    found = np.zeros(bins)
    largest = radius.max()
    for k in qgraph.serial(range(bins)):
        inside = np.where((radius >= k * largest / bins) & (radius < (k + 1) * largest / bins), 1.0, 0.0)
        found[k] = np.sum(data * inside) / np.maximum(np.sum(inside), 1.0)
    return found


PROGRAMS = [
    (softmax, lambda: (numbers(2, 3, 4, 5),)),
    (accelerations, lambda: (numbers(5, 2), numbers(5, seed=1), 0.5, 0.1)),
    (pairs, lambda: (numbers(5, 1), numbers(5, 1, seed=1))),
    (correlation, lambda: (numbers(7, 3),)),
    (nearest, lambda: (numbers(20, 2), numbers(3, 2, seed=1), 3)),
    (batch_norm, lambda: (numbers(3, 4, 4, 2), 1e-5)),
    (pooled, lambda: (numbers(2, 6, 6, 3), np.zeros((2, 3, 3, 3)))),
    (by_distance, lambda: (numbers(30), numbers(30, seed=1), 4)),
]


@pytest.mark.parametrize(("program", "make_args"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_programs_with_reductions_along_axes(check: Any, program: Any, make_args: Any) -> None:
    check(program, make_args, tolerance=1e-11)


# --- programs with masks and arrays of indices --------------------------------------------------------------------------


def escape_times(left: float, right: float, width: int, height: int, most: int) -> Any:
    """The Mandelbrot set, all points at a time: those that have not escaped go on."""
    re = np.linspace(left, right, width)
    im = np.linspace(-1.0, 1.0, height)
    c = re + im[:, None] * 1j
    times = np.zeros(c.shape, np.int64)
    z = np.zeros(c.shape, np.complex128)
    for n in qgraph.serial(range(most)):
        inside = np.less(np.abs(z), 2.0)
        times[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    times[times == most - 1] = 0
    return times, z


def test_escape_times(check: Any) -> None:
    check(escape_times, lambda: (-1.75, 0.25, 12, 9, 15), tolerance=1e-9)


def means_by_radius(data: Any, radius: Any, n: int) -> Any:
    """The mean of the data on each of ``n`` rings."""
    outermost = radius.max()
    result = np.zeros(n)
    for i in qgraph.serial(range(n)):
        inner = outermost * i / n
        outer = outermost * (i + 1) / n
        ring = np.logical_and(inner <= radius, radius < outer)
        result[i] = data[ring].mean()
    return result


def test_means_by_radius(check: Any) -> None:
    check(means_by_radius, lambda: (numbers(200), numbers(200, seed=1), 6))


def checksums(data: Any, table: Any, rows: int) -> Any:
    """A checksum of 16 bits of each row, by a table: a column at a time."""
    crc = np.full(rows, 0xFFFF, np.int64)
    for k in qgraph.serial(range(data.shape[1])):
        crc = (crc >> 8) ^ table[(crc ^ data[:, k]) & 0xFF]
    odd = crc[crc % 2 == 1]
    return crc, len(odd), np.sum(odd)


def test_checksums(check: Any) -> None:
    rng = np.random.default_rng(0)
    table, data = rng.integers(0, 1 << 16, 256), rng.integers(0, 256, (5, 7))
    check(checksums, lambda: (data, table, 5))


def particles_in_cells(x: Any, v: Any, mass: Any, cells: int, steps: int) -> Any:
    """Particles move in a field that they make, and leave at the walls."""
    density = np.zeros(cells)
    gone = 0
    for _ in qgraph.serial(range(steps)):
        cell = np.floor(x * cells).astype(np.int64)
        density[:] = 0
        np.add.at(density, cell, mass)
        v += 0.01 * (density[(cell + 1) % cells] - density[cell - 1])
        x += 0.1 * v
        out = (x < 0) | (x >= 1)
        gone += np.count_nonzero(out)
        v[out] = 0
        x[out] = 0.5
    return density, gone


def test_particles_in_cells(check: Any) -> None:
    check(particles_in_cells, lambda: (numbers(50) / 4, numbers(50, seed=1) - 2, numbers(50, seed=2), 8, 3), tolerance=1e-9)

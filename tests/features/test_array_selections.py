"""`x[m]` and `x[k]` at kernel level: masks and arrays of indices in stores, reads and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph

MASKS = ("some", "none", "all")


def numbers(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed + sum(shape))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return (rng.integers(-20, 20, shape) / (1 if np.dtype(dtype).kind in "iu" else 4)).astype(dtype)


def mask(which: str, *shape: int, seed: int = 1) -> np.ndarray:
    return {"some": numbers(*shape, dtype="bool", seed=seed), "none": np.zeros(shape, bool), "all": np.ones(shape, bool)}[which]


# --- stores by masks ---------------------------------------------------------------------------------------------------


def stored_by_masks(x: Any, y: Any, a: Any, m: Any, rows: Any) -> None:
    x[x > 3] = 3
    x[m] += 2
    y[~m & (x > y) | (y == 0)] *= 2
    y[m] = x[m] - y[m] * 2
    x[m ^ (x < 0)] = y[0]
    a[a < 0] = -a[a < 0]
    a[rows] = 7
    a[rows] += a[rows]
    a[:, 1][rows] = 5
    a[1:, 0][a[1:, 1] > 2] -= 1
    x[1:][m[1:]] = -1


@pytest.mark.parametrize(("which", "dtype"), [*((which, "float64") for which in MASKS), ("some", "int32")])
def test_stores_by_masks(check: Any, which: str, dtype: str) -> None:
    def arguments() -> tuple[Any, ...]:
        vectors = numbers(9, dtype=dtype), numbers(9, dtype=dtype, seed=5)
        return *vectors, numbers(4, 3, dtype=dtype), mask(which, 9), mask(which, 4)

    check(stored_by_masks, arguments)


def test_stores_by_masks_in_nothing(check: Any) -> None:
    empty = np.zeros(0), np.zeros(0)
    check(store_where_positive, lambda: (*empty, np.zeros((2, 0)), np.zeros(0, bool)), noop=True)


def store_where_positive(x: Any, y: Any, a: Any, m: Any) -> None:
    x[x > 0] = 0
    x[m] = y[m]
    a[a > 0] += 1


def read_elsewhere(x: Any, y: Any, m: Any) -> None:
    """The mask, or the value, reads what other iterations store."""
    x[x[::-1] > 0] = 1
    y[y > 0] = y[::-1][y > 0]
    m[m[::-1].copy()] = False
    m[m] = m[::-1][m]
    x[1:][x[:-1] > 0] *= 2


@pytest.mark.parametrize("seed", range(2))
def test_masks_that_read_what_is_stored(check: Any, seed: int) -> None:
    check(read_elsewhere, lambda: (numbers(9, seed=seed), numbers(9, seed=seed + 9), mask("some", 9, seed=seed)))


def values_in_order(x: Any, y: Any, a: Any, m: Any, rows: Any) -> None:
    n = np.count_nonzero(m)
    x[m] = y[:n]
    y[m] += x[:n] * 2
    a[rows] = x[:3]
    a[a > 1] = a[a > 1][::-1]


@pytest.mark.parametrize("which", MASKS)
def test_a_mask_takes_values_in_order(check: Any, which: str) -> None:
    check(values_in_order, lambda: (numbers(9), numbers(9, seed=5), numbers(4, 3), mask(which, 9), mask(which, 4)))


# --- what a mask selects -----------------------------------------------------------------------------------------------


def reduced(x: Any, y: Any, a: Any, m: Any, rows: Any) -> Any:
    return (
        np.sum(x[m]),
        x[m].sum(),
        np.prod(x[m]),
        np.any(x[m] > 2),
        np.all(x[m]),
        np.count_nonzero(x[m]),
        np.count_nonzero(m),
        m.sum(),
        len(x[m]),
        x[x > y].size,
        x[m].shape[0],
        np.sum(x[m] * y[m] + 1),
        x[m] @ y[m],
        np.linalg.norm(x[m]),
        a[a > 1].sum(),
        np.sum(a[rows]),
        a[rows].shape[0],
        np.sum(a[:, 1][rows]),
        np.sum(a[rows, 1]),
        np.sum(np.extract(m, x)) + np.sum(np.compress(m, x)),
        np.mean(x[m]),
        a[rows].mean(),
    )


@pytest.mark.parametrize("which", MASKS)
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_reductions_of_what_a_mask_selects(check: Any, which: str) -> None:
    def arguments() -> tuple[Any, ...]:
        vectors = (np.abs(numbers(9, dtype="int32", seed=seed)).astype(np.float32) for seed in (0, 5))
        return *vectors, numbers(4, 3), mask(which, 9), mask(which, 4)

    check(reduced, arguments, tolerance=1e-5)


def extremes(x: Any, a: Any, m: Any) -> Any:
    return np.min(x[m]), x[m].max(), a[a < 1].min(), np.max(a[a[:, 0] < 30]), np.argmax(x[m]), x[m].argmin(), np.min(-x[m])


def test_extremes_of_what_a_mask_selects(check: Any) -> None:
    x = numbers(9, dtype="int32").astype(np.float32)
    x[3] = np.inf
    check(extremes, lambda: (x.copy(), -np.abs(numbers(4, 3)), mask("some", 9)))


def with_nans(x: Any) -> Any:
    return np.min(x[x != 2]), np.max(x[~np.isnan(x)]), np.sum(x[np.isfinite(x)]), x[~np.isnan(x) & (x > 1)].mean()


def test_nans_are_left_out(check: Any) -> None:
    check(with_nans, lambda: (np.array([1.0, np.nan, 2, 5, -np.inf]),))


def with_numbers_of_a_mask(x: Any, m: Any) -> Any:
    return x - x[m].mean(), x * np.sum(x[m]), x + x[m].max(), x * len(x[m])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_types_of_numbers_of_a_mask(check: Any, dtype: str) -> None:
    check(with_numbers_of_a_mask, lambda: (numbers(5, dtype=dtype), np.array([True, False, True, True, False])))


def greatest(x: Any, m: Any) -> Any:
    return np.max(x[m])


@pytest.mark.parametrize("n", [0, 5])
def test_an_extreme_of_nothing(rig: Any, n: int) -> None:
    kernel = rig.kernel(greatest)
    with pytest.raises(qgraph.ArgumentError, match=r"`np.max\(x\[m\]\)` is of an array without elements"):
        kernel(rig.device(np.ones(n)), rig.device(np.zeros(n, bool)))


def packed(x: Any, a: Any, m: Any, rows: Any) -> Any:
    y = x[m]
    total = 0.0
    for i in range(y.shape[0]):
        total += (i + 1) * y[i]
    out = np.zeros(x.shape[0])
    out[: len(y)] = y * 2
    b = np.zeros(a.shape)
    t = a[rows]
    b[: t.shape[0]] = t + 1
    c = np.zeros(a.size)
    e = a[a > 0]
    c[: e.size] = e
    d = np.zeros(a.shape[0])
    column = a[rows, 1]
    d[: column.shape[0]] = column + a[rows][:, 0]
    return total, out, b, c, d


@pytest.mark.parametrize("which", MASKS)
@pytest.mark.parametrize("n", [0, 300])
def test_new_arrays_of_what_a_mask_selects(check: Any, size: Any, which: str, n: int) -> None:
    n = size(n)
    check(packed, lambda: (numbers(n), numbers(4, 3), mask(which, n), mask(which, 4)))


@pytest.mark.needs("speed")
def test_a_long_mask(check: Any) -> None:
    check(packed, lambda: (numbers(50_001), numbers(4, 3), mask("some", 50_001), mask("some", 4)), tolerance=1e-9)


def places(x: Any, a: Any, m: Any) -> Any:
    k = np.nonzero(m)[0]
    i, j = np.nonzero(a > 0)
    (q,) = np.where(x > 0)
    x[k] += 2
    s = np.sum(a[i, j])
    a[i, j] = 9
    return len(k), np.sum(k * k), np.sum(i), np.sum(j), np.sum(q), np.sum(np.flatnonzero(a > 3)), s, len(np.where(x)[0])


@pytest.mark.parametrize("which", MASKS)
def test_places_of_what_is_true(check: Any, which: str) -> None:
    check(places, lambda: (numbers(9), numbers(4, 3), mask(which, 9)))


# --- index arrays ------------------------------------------------------------------------------------------------------


def read_at(x: Any, a: Any, c: Any, i: Any, j: Any, table: Any) -> Any:
    y = x[i]
    return (
        y,
        x[i] * 2 + y,
        x[table],
        x[i[::-1] - 1],
        a[i, j],
        a[i],
        a[:, j],
        a[1:, j][1],
        a[0, j],
        a[i[:, None], j],
        c[0, :, j],
        c[:, 1, i],
        c[i, j, 1:],
        c[..., j],
        a[1:3, None, j],
        np.take(x, i),
        np.take(a, j, axis=1),
        x.take(table) + 1,
        np.sum(x[i]),
        np.max(a[i, j]),
        x[(i * j) % 3],
        x[::-2][j],
        np.where(x[i] > 0, y, 0),
        (x + 1)[i],
        np.take(a * 2, j, axis=1),
    )


def test_reads_by_index_arrays(check: Any) -> None:
    def arguments() -> tuple[Any, ...]:
        rng = np.random.default_rng(3)
        indices = rng.integers(-3, 3, 4, np.int8), rng.integers(-2, 2, 4, np.int8)
        return numbers(6), numbers(5, 3), numbers(3, 4, 3), *indices, rng.integers(-6, 6, (2, 3))

    check(read_at, arguments)


def read_at_unsigned(x: Any, i: Any) -> Any:
    return x[i], x[i][1:] + x[i[:-1]]


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
@pytest.mark.parametrize("n", [0, 5])
def test_unsigned_indices(check: Any, dtype: str, n: int) -> None:
    check(read_at_unsigned, lambda: (numbers(5), np.arange(n, dtype=dtype)[::-1].copy()))


def stored_at(x: Any, z: Any, a: Any, i: Any, j: Any, y: Any) -> None:
    x[i] = 7
    x[j] = y
    z[i] += y
    z[j] -= 1
    z[j] *= y + z[0]
    a[i, j] = y
    a[:, j] += 1
    a[i] = a[0] + 2
    a[i, 1:] = a[j, :2]
    a[0, j] = y


@pytest.mark.parametrize("seed", range(2))
def test_stores_by_index_arrays(check: Any, seed: int) -> None:
    """The last one of those that store to one place is the one that stays."""

    def arguments() -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        indices = rng.integers(-3, 3, 6), rng.integers(-3, 3, 6)
        return numbers(5), numbers(6, seed=2), numbers(4, 3), *indices, np.arange(6.0)

    check(stored_at, arguments)


def itself(k: Any, x: Any) -> None:
    k[k] = k
    x[k] = x[::-1]
    k[k[::-1]] += k


@pytest.mark.parametrize("seed", range(2))
def test_indices_that_are_stored(check: Any, seed: int) -> None:
    check(itself, lambda: (np.random.default_rng(seed).permutation(6) % 5, numbers(6)))


def accumulated(x: Any, n: Any, a: Any, i: Any, j: Any, y: Any) -> None:
    np.add.at(x, i, y)
    np.subtract.at(x, j, 0.5)
    np.add.at(a, (i, j), y)
    np.add.at(a, i, a[0] * 0 + 1)
    np.add.at(a, (slice(1, None), j), 1)
    np.bitwise_or.at(n, i, j + 8)
    np.add.at(n, j, n[0])
    np.add.at(n, n > 3, 1)


def test_updates_by_index_arrays(check: Any) -> None:
    rng = np.random.default_rng(2)
    i, j = rng.integers(-3, 3, (2, 40))
    arrays = numbers(5), np.arange(6), numbers(4, 3)
    check(accumulated, lambda: (*(each.copy() for each in arrays), i, j, np.arange(40) / 4), tolerance=1e-11)


def of_memory_without_a_name(x: Any, i: Any, a: Any) -> Any:
    x[i] = np.ones(3)
    x[i[1:]] += np.full(2, 4)
    x[x > 1] -= np.ones_like(x)[x > 1]
    np.add.at(a, (slice(0, 2), np.array([0, -1])), np.ones(2))
    a[1:] += np.ones_like(a[0])
    a[0] = np.zeros(3)
    a[np.zeros_like(i)] += 1
    return np.ones(4)[i], a[np.ones_like(i)]


def test_memory_without_a_name(check: Any) -> None:
    check(of_memory_without_a_name, lambda: (numbers(5), np.array([0, 2, 2]), numbers(4, 3)))


def of_what_is_repeated(a: Any, b: Any) -> Any:
    t = np.sum(a, axis=1, keepdims=True)
    total = np.sum((t - b)[a > 0])
    b[a > 0] = (t - b)[a > 0]
    b[a < 0] += (a[:, 0:1] + b)[a < 0]
    return total, np.max((b * a)[b > 0])


def test_masks_of_what_is_repeated(check: Any) -> None:
    check(of_what_is_repeated, lambda: (numbers(4, 3), numbers(4, 3, seed=7)))


# --- where they stand --------------------------------------------------------------------------------------------------


@qgraph.func
def clipped(x: Any, low: float) -> Any:
    x[x < low] = low
    return x[x > 2 * low].sum()


def everywhere(x: Any, k: Any, steps: int) -> Any:
    total = 0.0
    n = 0
    for t in qgraph.serial(range(steps)):
        x[x > t] -= 0.5
        if x[0] > 0:
            x[k] = x[k] + x[k + 1]
        else:
            x[k] += 1
        y = x[x > 0]
        total += np.sum(y) + x[x < 0].sum()
        n += len(y)
        np.add.at(x, k, 0.25)
    while len(x[x > 1]) > 2:
        x[x > 1] *= 0.5
    return total, n, clipped(x, -1.0), clipped(x[1:], -0.5)


def test_in_loops_branches_and_funcs(check: Any) -> None:
    check(everywhere, lambda: (numbers(9), np.array([1, -2, 1]), 4))


@qgraph.func
def positive(x: Any) -> Any:
    return x > 0


@qgraph.func
def flipped(m: Any) -> Any:
    m[:] = ~m
    return 5.0


@qgraph.func
def weighted(v: Any) -> Any:
    total = 0.0
    for i in range(v.shape[0]):
        total += v[i] * i
    v *= 2
    return total + np.sum(v[v > 4])


def in_order(x: Any, y: Any, a: Any, m: Any) -> Any:
    x[positive(x)] = 0.5
    x[positive(y - 3)] += y[positive(y - 3)]
    x[m] = flipped(m)
    y[np.roll(m, 1)] = flipped(m)
    y[np.nonzero(m)] += 1
    a[np.where(a > 0)] *= 2
    t = y[m]
    m[:] = False
    t *= 2
    z = t[t > 1]
    y[:] = y[::-1]
    s = weighted(y[y > 0]) + weighted(y[y < 1][1:] + 1)
    return len(t), np.sum(t), len(z), np.sum(z[::-1][:1]), s, x[positive(x)].sum(), a[np.nonzero(a)].sum()


def test_in_the_order_of_python(check: Any) -> None:
    check(in_order, lambda: (numbers(9), numbers(9, seed=4), numbers(4, 3), mask("some", 9)), tolerance=1e-11)


def of_parts(a: Any, x: Any, k: Any, z: Any) -> Any:
    w = a[1:3]
    w[w > 0] = 0
    b = a.T
    b[b < 0] += 1
    a[a[:, 0] < 0, 1] = 5
    a[1, a[0] < 1] = 9
    a[a[:, 0] < 0, 1:] = 8
    v = x[::2]
    v[k % 3] = k
    v[::-1][k % 2] += k
    np.add.at(v, k % 3, 1)
    y = x[k]
    for _ in qgraph.serial(range(3)):
        y = y[k % 4] + 1
    z[np.abs(z) > 2] = 1j
    z[np.abs(z) == 1] *= 2
    return a[a[:, 0] < 0, 0].sum(), a[:, a[0] < 2].sum(), y, z[np.abs(z) > 0].sum()


def test_parts_of_arrays(check: Any) -> None:
    def arguments() -> tuple[Any, ...]:
        return numbers(4, 3), numbers(6), np.array([1, -1, 4, 3]), numbers(5) + 1j * numbers(5, seed=8)

    check(of_parts, arguments)


def fused(x: Any, y: Any, k: Any, m: Any) -> Any:
    x[m] = 0
    y[m] += x[m] + 1
    y[k] = x[k] * 2
    x[x > 1] = y[x > 1]
    return np.sum(x[m]), x[m].mean()


@pytest.mark.parametrize("options", [{"fuse": True}, {"bounds_check": True}])
def test_fused_and_checked(check: Any, options: dict[str, bool]) -> None:
    check(fused, lambda: (numbers(9), numbers(9, seed=3), np.array([3, -4, 3, 0]), mask("some", 9)), **options)


def outside(x: Any, k: Any) -> Any:
    return x[k] + 1


def store_outside(x: Any, k: Any) -> None:
    x[k] = 1


@pytest.mark.parametrize("function", [outside, store_outside])
@pytest.mark.parametrize("index", [5, -6])
def test_indices_are_checked(rig: Any, function: Any, index: int) -> None:
    kernel = rig.kernel(function, bounds_check=True)
    with pytest.raises(qgraph.BoundsError, match=r"x\[k\]") as told:
        kernel(rig.device(np.ones(5)), rig.device(np.array([0, index])))
        qgraph.synchronize()
    assert str(index) in str(told.value)


def by_a_mask(x: Any, m: Any) -> None:
    x[m] = 0


@pytest.mark.parametrize("n", [3, 6, 1])
def test_a_mask_of_another_shape(rig: Any, n: int) -> None:
    with pytest.raises(qgraph.ArgumentError, match=f"`m` has length {n}, and `x` has length 5"):
        rig.kernel(by_a_mask)(rig.device(np.ones(5)), rig.device(np.ones(n, bool)))


def too_few_values(x: Any, m: Any, y: Any) -> None:
    x[m] = y


def test_values_that_are_too_few(rig: Any) -> None:
    with pytest.raises(qgraph.ArgumentError, match=r"`y` has length 2, and `x\[m\]` has length 3"):
        rig.kernel(too_few_values)(*map(rig.device, (np.ones(4), np.array([True, True, False, True]), np.ones(2))))
        qgraph.synchronize()


@pytest.mark.needs("compiler")
def test_they_are_compiled_for_cuda() -> None:
    for function, arguments in (
        (everywhere, (np.ones(9), np.ones(3, np.int64), 4)),
        (packed, (np.ones(9), np.ones((4, 3)), np.ones(9, bool), np.ones(4, bool))),
    ):
        tasks = qgraph.kernel(backend="cuda")(function).ptx(*arguments)
        assert len(tasks) > 5
        assert all(".entry" in text for text in tasks.values())


def length_of_what_is_computed(x, y):
    y[0] = len(np.triu(0 + x, 1)[~(np.triu(0 + x, 1) > 2)])
    y[1] = len(np.triu(x, 1)[np.triu(x, 1) > 2]) + 2


@pytest.mark.parametrize("size", [0, 3])
def test_the_length_of_what_a_mask_selects_of_what_is_computed(check, size):
    check(length_of_what_is_computed, lambda: (np.arange(size * size).reshape(size, size) % 5, np.full(2, 77)))


def masks_that_repeat_an_axis(a, b, c, n):
    b[a < c[:, None]] = 1
    b[c[::-1, None] > a] += a[c[::-1, None] > a]
    b[(c[:, None] < 0.5) & (a > a[:1])] *= 3
    for k in qgraph.serial(range(2)):
        b[: n[k]][a[: n[k]] < c[: n[k], None]] -= k
    return np.sum(a[a < c[:, None]]), len(a[c[:, None] < a]), np.max(b[a < c[:, None]] * 2)


def test_masks_that_repeat_an_axis(check):
    numbers = np.random.default_rng(7).random((3, 4, 5))
    check(masks_that_repeat_an_axis, lambda: (numbers[0].copy(), numbers[1].copy(), numbers[2, :, 0].copy(), np.array([2, 4])))


def a_mask_of_length_one(b, c):
    b[c[:, None] < 0.5] = 1


def test_a_mask_itself_is_not_repeated(rig):
    with pytest.raises(IndexError):
        a_mask_of_length_one(np.ones((4, 5)), np.ones(4))
    with pytest.raises(qgraph.ArgumentError, match="has length 1 along axis 1, and `b` has length 5"):
        rig.run(rig.kernel(a_mask_of_length_one), np.ones((4, 5)), np.ones(4))

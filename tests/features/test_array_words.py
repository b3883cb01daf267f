"""NumPy's functions that make arrays of indices, move elements, join arrays, or give them another shape or order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph


def of_numbers(n: int, low: float, x: Any) -> Any:
    t = np.linspace(low, 2.5, n) + x
    return (
        t,
        np.linspace(0, 1, num=n, endpoint=False),
        np.arange(n),
        np.arange(2, 2 * n, 3),
        np.arange(low, 3.0, 0.5),
        # NumPy counts on by the difference of the first two elements.
        np.arange(0, 2.5, 0.5, dtype=np.int64),
        np.arange(2**24, 2**24 + n, dtype=np.float32),
        np.eye(n) * 2,
        np.eye(n, n + 1, k=-1, dtype=np.int32),
        np.identity(3),
        np.array([low, n, 2.0]) + np.array((1, 2, 3)),
        np.ones((2, n)) * x + np.zeros_like(x),
    )


@pytest.mark.parametrize("n", [1, 4])
def test_of_numbers(check: Any, n: int) -> None:
    check(of_numbers, lambda: (n, -1.5, np.arange(n) / 4))


def between(x: Any, low: Any) -> Any:
    return np.linspace(x[0], x[1], 5), np.linspace(low, x[1], 4, endpoint=False), np.linspace(low, low, 2, dtype=np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("low", [0.1, np.float32(0.1), np.int64(3)])
def test_spaces_have_the_type_of_their_ends(check: Any, dtype: str, low: Any) -> None:
    check(between, lambda: (np.array([1, 7], dtype) / np.dtype(dtype).type(3) if dtype != "int8" else np.int8([1, 7]), low))


def of_booleans(z: Any) -> Any:
    return np.arange(3, dtype=bool)


def by_a_method_of_a_ufunc(z: Any) -> Any:
    return np.multiply.reduce(z)


def between_complex_numbers(z: Any) -> Any:
    return np.linspace(z[0], 1, 3, dtype=np.float64)


def test_arrays_of_numbers_that_kernels_lack() -> None:
    for function, words in (
        (of_booleans, "elements would be booleans"),
        (between_complex_numbers, "are complex numbers"),
        (by_a_method_of_a_ufunc, "`np.multiply.reduce` is a method of a ufunc"),
    ):
        with pytest.raises(qgraph.KernelSyntaxError, match=words):
            qgraph.kernel(function).plan(np.ones(3, complex))


def moved(a: Any, x: Any, k: int) -> Any:
    x[1:] += np.roll(x * 2, k)[:-1]
    t = np.roll(a, -1, axis=1) + np.flip(a, axis=0)
    return (
        t,
        np.triu(a, 1) - np.tril(a + 1, k=-1),
        np.diag(x),
        np.diag(np.diag(a, -1), 2),
        np.diagonal(a, 1) * 2,
        np.diagonal(a, offset=-1) + 1,
        a.diagonal() * 3 + a.diagonal(1)[0],
        np.repeat(x, 3),
        np.repeat(a, 2, axis=0),
        np.tile(x, 2),
        np.tile(x, (2, k)),
        np.fliplr(a) + np.flipud(a) + np.flip(a),
        np.outer(x, x[1:]) + np.add.outer(x, x[:-1] * 2),
        np.diff(x),
        np.diff(a, axis=0),
        a.astype(np.float32),
        a.astype(np.int64) // 2,
    )


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_moved(check: Any, dtype: str) -> None:
    check(moved, lambda: (np.arange(12).reshape(3, 4).astype(dtype), np.arange(4).astype(dtype) + 1, 3))


def rolled_along_several_axes(a: Any, k: int) -> Any:
    return (
        np.roll(a, (k, -k), axis=(0, 1)),
        np.roll(a, k, axis=(0, 1)) + np.roll(a, (2, k + 7), axis=1),
        np.roll(a, (1, k, -9), axis=(-1, 0, 1)),
        np.roll(a[0], (k, 2)),
    )


def generations(a: Any, k: int) -> None:
    for _t in qgraph.serial(range(k)):
        n = np.zeros_like(a)
        for dy in qgraph.static((-1, 0, 1)):
            for dx in qgraph.static((-1, 0, 1)):
                if dy or dx:
                    n += np.roll(a, (dy, dx), axis=(0, 1))
        a[:] = (n == 3) | ((a == 1) & (n == 2))


@pytest.mark.parametrize("function", [rolled_along_several_axes, generations])
def test_rolled_along_several_axes(check: Any, function: Any) -> None:
    for seed, k in ((0, 3), (1, 1)):
        check(function, lambda seed=seed, k=k: (np.random.default_rng(seed).integers(0, 2, (6, 5)), k))


def joined(a: Any, b: Any, x: Any, y: Any) -> Any:
    return (
        np.concatenate((x, y * 2, x[:1])),
        np.concatenate([a, b], axis=1),
        np.stack((x, x + 1, x)),
        np.stack((a, a), axis=-1),
        np.hstack((x, y)) + np.hstack((a, b))[0, 0],
        np.vstack((x, x)),
        np.vstack((a, a + 1)),
        np.column_stack((x, x[::-1])),
    )


def test_joined(check: Any) -> None:
    check(joined, lambda: (np.ones((3, 2)), np.zeros((3, 1), np.float32), np.arange(4.0), np.arange(3)))


def chosen(a: Any, x: Any, k: Any) -> Any:
    t = np.select([x > 1, x < -1], [x, -x * 2], 0.5) + 1
    u = np.select((k > 2, k > 0), (k, 1)) * 2
    return t, u, np.select([a > 2, a < 1], [a, x], -1)[1:], a.clip(0, 2) * 2, x.clip(-1, 1.5), k.clip(1, 2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_chosen(check: Any, dtype: str) -> None:
    check(chosen, lambda: (np.arange(-4, 8).reshape(3, 4).astype(dtype), np.arange(4).astype(dtype) - 2, np.arange(5)))


def chosen_of_narrow(x: Any, b: Any) -> Any:
    t = np.select([x > 1, b], [x, b])
    return t, t * 100, np.select([b, x > 2], [x, 3]) * 100, np.select((b, x > 0), (1, x[0]), x), np.select([b], [2], 1)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_chosen_numbers_take_the_type_of_arrays(check: Any, dtype: str) -> None:
    check(chosen_of_narrow, lambda: (np.arange(6).astype(dtype), np.arange(6) % 2 == 1))


def either(k: Any, n: Any) -> Any:
    wide = np.where(k > 0, k, n)
    return np.where(k > 0, k, n) * 100, -np.where(k > 0, k > 1, n), np.argmin(np.where(n > 0, n, k)), np.sum(wide * 100)


def test_one_of_two_has_the_type_of_both(check: Any) -> None:
    check(either, lambda: (np.arange(-2, 4, dtype=np.int8), np.arange(4, -2, -1)))


def extremes_of_differences(k: Any, n: int) -> Any:
    return np.max(n - k), np.argmin(n - k), np.max(n - k, axis=0, keepdims=True)


def test_extremes_of_small_integers_and_a_number(check: Any) -> None:
    check(extremes_of_differences, lambda: (np.arange(-2, 4, dtype=np.int8), 2))


def read_without_axes(x: Any, z: Any) -> Any:
    return x - z[()], x[::-1] * z


def test_an_array_without_axes(check: Any) -> None:
    check(read_without_axes, lambda: (np.arange(3, dtype=np.int8), np.array(2, np.float32)))


def joined_with_new_ones(x: Any) -> Any:
    return np.concatenate((x, np.zeros(2))), np.stack((np.ones_like(x), x + 1)), np.roll(np.ones(3), 1)


def test_new_memory_is_joined(check: Any) -> None:
    check(joined_with_new_ones, lambda: (np.arange(3.0),))


def changed_shapes(x: Any) -> Any:
    t, u = (x * 2).reshape(2, -1), np.roll(x, 1).reshape(-1)
    t[0] = 7
    u[:2] += 1
    return t, u


def test_a_new_array_of_another_shape_is_changed(check: Any) -> None:
    check(changed_shapes, lambda: (np.arange(6.0),))


def shaped(a: Any, x: Any, n: int) -> Any:
    made = np.where(np.roll(x, 1) > x, x, 0).reshape(2, -1)
    flat = np.ravel(a) + np.reshape(x, (n, -1)).flatten()
    cube = x.reshape(n, 2, x.shape[0] // (2 * n)) * 2
    t = np.transpose(cube, axes=(1, 0, 2))
    x[:] = t.reshape(x.shape)
    turned = np.transpose(a)[1:] + a.T[1:] + a.swapaxes(0, 1)[:-1]
    return made, flat, cube, t.copy(), turned, np.expand_dims(x, 0) + np.zeros([2, x.shape[0]]), np.moveaxis(cube, 0, 2)[0] + 1


def test_shaped(check: Any) -> None:
    check(shaped, lambda: (np.arange(12.0).reshape(3, 4), np.arange(12.0), 3))


def test_arrays_that_do_not_fit(rig: Any) -> None:
    def reshaped(x: Any, y: Any) -> Any:
        return np.reshape(x, (2, 3)) + 1

    def stacked(x: Any, y: Any) -> Any:
        return np.stack((x, y))

    for function, words in ((reshaped, "gives 4 elements a shape of 6"), (stacked, "`y` has length 5 along axis 0, and `x` 4")):
        with pytest.raises(qgraph.ArgumentError, match=words):
            rig.kernel(function)(rig.device(np.ones(4)), rig.device(np.ones(5)))


@qgraph.func
def raised(x: Any) -> Any:
    x += 1
    return x[0]


def read_after_a_change(x: Any) -> Any:
    t = x.reshape(2, 2)
    x[0] = 5
    return t + 1


def read_in_the_next_iteration(x: Any) -> Any:
    t = x.reshape(2, 2)
    for _ in qgraph.serial(range(3)):
        y = t + 1
        x[:] = y[0, 0]


def changed(x: Any) -> None:
    t = np.reshape(x, (2, 2))
    t[0] = 5


def changed_by_a_func(x: Any) -> Any:
    return raised(np.ravel(x))


def a_view_beside_a_change(x: Any, y: Any) -> None:
    y[:] = np.flip(x) * raised(x)


def test_a_view_sees_a_change_in_its_expression(check: Any) -> None:
    check(a_view_beside_a_change, lambda: (np.arange(3.0), np.zeros(3)))


def in_one_expression(x: Any) -> None:
    x[:] = np.ravel(x) * raised(x)


def compared(x: Any) -> Any:
    return x.ravel() > raised(x)


def given_back(x: Any) -> Any:
    return x.reshape(2, 2)


def read_in_a_loop(x: Any) -> None:
    t = x.reshape(2, 2)
    for i in range(4):
        x[i] = t[(3 - i) // 2, (3 - i) % 2]


def read_in_a_loop_in_order(x: Any) -> float:
    t, s = x.reshape(2, 2), 0.0
    for _ in qgraph.serial(range(3)):
        s += t[0, 0]
        x[0] += 1
    return s


def read_in_a_condition(x: Any) -> None:
    t = x.reshape(2, 2)
    while t[0, 0] < 8:
        x[0] += 1


def read_in_a_branch(x: Any) -> None:
    t = x.reshape(2, 2)
    if x[1] > 0:
        x[0] = 5
        x[2] = t[0, 0]


def read_after_a_condition(x: Any) -> None:
    t = x.reshape(2, 2)
    if bumped(x) > 0:
        x[3] = t[0, 0]


def read_in_a_place(x: Any) -> None:
    t = x.reshape(2, 2)
    x[0] = x[int(t[0, 0])] = 3


def without_a_name(x: Any) -> None:
    for v in qgraph.serial(x.reshape(2, 2)):
        x[0] += v[0]


def copied_twice(x: Any) -> Any:
    t = x.reshape(2, 2).ravel()
    x[0] = 5
    return t + 1


def changed_in_a_copy_of_a_copy(x: Any) -> None:
    np.diag(x.reshape(2, 2))[x[:2] > 0] += 1


def changed_by_a_func_in_a_copy_of_a_copy(x: Any) -> Any:
    return raised(x.reshape(2, 2).ravel())


def beside_a_copy_of_a_copy(x: Any) -> None:
    x[:] = x.reshape(2, 2).ravel() * raised(x)


def conjugate(x: Any) -> Any:
    t = x.conj()
    x[0] = 7
    return t + 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (read_after_a_change, "is read after `x` has changed"),
        (read_in_the_next_iteration, "`t` is read in this loop before it is bound again"),
        (changed, "and is a copy here"),
        (changed_by_a_func, "and is a copy here"),
        (in_one_expression, "is read after `x` has changed"),
        (compared, "is read after `x` has changed"),
        (given_back, "a part of an argument in NumPy"),
        (read_in_a_loop, "this statement reads it, and changes the other array"),
        (read_in_a_loop_in_order, "this statement reads it, and changes the other array"),
        (read_in_a_condition, "this statement reads it, and changes the other array"),
        (read_in_a_branch, "this statement reads it, and changes the other array"),
        (read_after_a_condition, "this statement reads it, and changes the other array"),
        (read_in_a_place, "this statement reads it, and changes the other array"),
        (without_a_name, "this statement reads it, and changes the other array"),
        (copied_twice, "is read after `x` has changed"),
        (changed_in_a_copy_of_a_copy, "and is a copy here"),
        (changed_by_a_func_in_a_copy_of_a_copy, "and is a copy here"),
        (beside_a_copy_of_a_copy, "is read after `x` has changed"),
        (conjugate, "is read after `x` has changed"),
    ],
)
def test_copies_that_are_views_in_numpy(function: Any, words: str) -> None:
    with pytest.raises(qgraph.KernelSyntaxError, match=words):
        qgraph.kernel(function).plan(np.ones(4))


def made_again(x: Any, steps: int) -> Any:
    t = np.ravel(x)
    for _ in qgraph.serial(range(steps)):
        t = np.ravel(x[::-1])
        y = t + 1
        x[:] = y
    return np.ravel(x) * 2


def beside_a_change(x: Any, y: Any) -> Any:
    t = x.reshape(2, 2)
    for i in range(2):
        y[i] = t[1, i] + t[0, i]
    if y[0] > 1:
        y[1] = t[1, 1]
    x[0], x[1] = t[1, 0], t[1, 1]
    y += x.conj()
    x[:] = x.reshape(2, 2).T.ravel()
    return y.conj() * 2


def test_a_copy_that_is_read_before_a_change(check: Any) -> None:
    check(beside_a_change, lambda: (np.arange(4.0), np.zeros(4)))


def test_a_copy_that_is_made_again(check: Any) -> None:
    check(made_again, lambda: (np.arange(4.0), 3))


@pytest.mark.needs("compiler")
def test_they_are_compiled_for_cuda() -> None:
    kernel = qgraph.kernel(backend="cuda")(shaped)
    tasks = kernel.ptx(np.ones((3, 4)), np.ones(12), 3)
    assert len(tasks) > 5
    assert all(".entry" in text for text in tasks.values())


def of_no_rows(x: Any) -> Any:
    return np.copy((x + 1).reshape(0, -1))


def test_a_length_that_nothing_decides(rig: Any) -> None:
    with pytest.raises(qgraph.ArgumentError, match="is -1"):
        rig.run(rig.kernel(of_no_rows), np.zeros(0))


@qgraph.func
def bumped(v: Any) -> Any:
    v[0] = (v[0] + 3) % 8
    return 2


def not_of_comparisons(x: Any, y: Any, n: Any) -> None:
    y[:] = ~(x <= (n if x[1] > 2 else 5))
    copied = x.copy()
    x[:] = ~(copied <= bumped(x))
    y[1:] += ~((x[1:] > n) & (y[1:] < bumped(x)))


@pytest.mark.parametrize("n", [0, 3])
def test_not_of_comparisons_with_any_number(check: Any, n: int) -> None:
    check(not_of_comparisons, lambda: (np.arange(7) % 5, np.zeros(7, np.int64), n))


def of_grids(x: Any, y: Any) -> Any:
    a, b = np.meshgrid(x, y, indexing="ij")
    c, d = np.meshgrid(x, y, indexing="xy")
    return a * 10 + b, c * 10 + d


def test_grids_in_either_order(check: Any) -> None:
    check(of_grids, lambda: (np.arange(3), np.arange(4.0)))


def with_one_limit(x, y, out):
    out[:] = np.clip(x, 0, None)
    for i in range(x.shape[0]):
        out[i] += np.clip(x[i], None, 0.5) + np.clip(x[i], 0, None) + np.clip(x[i], 0, 1)
    u = x.clip(None, 1) + x.clip(min=-1) + x.clip(0.5, max=None)
    return np.clip(y, None, 3), u, np.clip(y, 2, None)


def test_clip_with_one_limit(check):
    x, y = np.array([-2, np.nan, 0.25, -0.0, 3], np.float32), np.arange(5, dtype=np.int8)
    check(with_one_limit, lambda: (x.copy(), y.copy(), np.zeros(5, np.float32)))


def without_a_limit(x):
    return np.clip(x, None, None)


def method_without_a_limit(x):
    return x.clip()


@pytest.mark.parametrize("function", [without_a_limit, method_without_a_limit])
def test_clip_without_a_limit_is_refused(rig, function):
    with pytest.raises(qgraph.errors.KernelSyntaxError, match=r"clip\(.*\)` has no limit"):
        rig.run(rig.kernel(function), np.arange(3.0))


@qgraph.func
def cleared(x):
    x.fill(0)


def methods(x, a, k):
    y = x.cumsum() + k.cumprod() + x[1:].cumsum()[0]
    z = a.dot(x) + x.dot(a.T) + x.argsort()
    if x.cumsum()[-1] > a.trace():
        z[0] = x.searchsorted(0.5)
    while x.cumsum()[-1] < 10:
        x *= 2
    for v in a.cumsum(axis=1):
        k[0] += int(v[-1] > 1)
    return y, z, x.searchsorted(x), x.reshape(1, 4).squeeze(axis=0) + 1, x.dot(x)


def test_methods_are_the_functions_of_their_name(check):
    numbers = np.random.default_rng(4).random((5, 4))
    check(methods, lambda: (np.sort(numbers[0]), numbers[1:].copy(), np.array([2, 1, 3, 1])))


def statements_that_store(x, a, k, m, z):
    cleared(x[4:])
    x[:3].fill(a[0, 0])
    for t in qgraph.serial(range(2)):
        np.add(x, t, out=x)
        np.add(x[:-1], x[1:], x[1:])
        row = a[t].copy()
        row.sort()
        a[t] = row
    if x[0] > 0:
        a.T[1:].sort()
        k.fill(2.7)
    else:
        a.fill(1)
    np.clip(a, 0.2, 0.6, out=a)
    np.copyto(a[2:], x)
    np.matmul(a, x, out=x)
    np.greater(x, 1, out=m)
    np.multiply(m, x, out=z)
    a[:, 2:].sort(axis=0)


@pytest.mark.parametrize("scale", [1, -1])
def test_statements_that_store_arrays(check, scale):
    def arguments():
        numbers = np.random.default_rng(5)
        x, a = numbers.random(5) * scale, numbers.random((5, 5))
        return x, a, np.arange(3), np.zeros(5, bool), np.zeros(5, complex)

    check(statements_that_store, arguments)


def outer_products_of_parts(a, b, x, n):
    for k in qgraph.serial(range(a.shape[0] - 1)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    k = 0
    while k < n[0]:
        b[k:, k:] = np.outer(b[k:, 1], b[2, k:]) + 1
        x[:k] += np.outer(x[:k], x[k:])[:, 0]
        k += 1
    b[: n[0], : n[1]] *= np.outer(b[0, : n[0]] * 2, b[: n[1], 1])


@pytest.mark.parametrize("n", [(3, 2), (0, 4), (1, 1)])
def test_outer_products_of_parts_of_which_the_device_knows_the_size(check, n):
    numbers = np.random.default_rng(6).random((2, 5, 5)) + np.eye(5)
    check(outer_products_of_parts, lambda: (numbers[0].copy(), numbers[1].copy(), np.arange(5.0), np.array(n)))


def floats_in_place(x: Any, y: Any) -> None:
    x[0] = 7
    x -= np.roll(y, 1)


def floats_of_two_in_place(x: Any, y: Any) -> None:
    x[0] = 7
    x[1:] += np.concatenate((y[:2], y[3:]))


@pytest.mark.parametrize("function", [floats_in_place, floats_of_two_in_place])
def test_integers_take_no_floats_in_place_of_arrays_that_are_made_first(rig: Any, function: Any) -> None:
    x, y, kernel = np.arange(4, dtype=np.int16), np.arange(4) * 1.5, rig.kernel(function)
    with pytest.raises(TypeError, match="Cannot cast"):
        kernel.reference(x.copy(), y)
    with pytest.raises(qgraph.KernelTypeError, match=r"` computes float64, and `x.*` is of type int16"):
        kernel(x, y)
    assert x.tolist() == [0, 1, 2, 3]
    rig.check(function, lambda: (np.arange(4.0), np.arange(4) * 1.5))
    rig.check(function, lambda: (np.arange(4, dtype=np.float32), np.arange(4)))

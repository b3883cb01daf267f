"""Arrays as wholes at kernel level, as NumPy means them."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError
from tests.conftest import thorough


def numbers(*shape, dtype=np.float64):
    return (np.random.default_rng(sum(shape)).random(shape) * 9).astype(dtype)


def one_dimension(x, y, z, a, n):
    x[:] = 0
    y[1:-1] = a * z[:-2] + z[2:]
    x[1:] = y[:-1] * 2
    x[2:n] = 5
    z[::2] += 1
    z[1::3] -= x[1::3]
    y[-3:] = x[-3:]
    x[n:] = y[n:]
    x[-1::-2] = z[::2]
    y[...] = np.where(y > 1, y, z)


@pytest.mark.parametrize("n", [-2, 0, 3, 6, 20])
def test_bounds_steps_and_broadcasting(check, n):
    check(one_dimension, lambda: (numbers(9), numbers(9) + 1, numbers(9) + 2, 0.5, n))


def where_they_overlap(x, u):
    x[1:] = x[:-1]
    x[:] = x[::-1]
    x[:-2] += x[2:]
    x[:] = x[0] * 2 + x
    u[:] = u.T
    u[0, :] = u[1, :]
    u[:, -1] = u[:, -2]
    u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    u[1] = x[:4]
    u[2, ...] = 3


def test_the_right_side_comes_first(check):
    check(where_they_overlap, lambda: (numbers(6), numbers(4, 4)))


@qgraph.func
def doubled(a):
    a[:] = a * 2
    return a[0]


@qgraph.func
def two_arrays(a):
    return a * 2, a + 1


@qgraph.func
def two_numbers(a):
    return a[0] * 2, a[1] * 3


def several_at_once(u, v, a, n, p):
    u[:], v[:] = a, v * 2
    u[1:], u[:-1] = u[:-1], u[1:]
    u[1:-1], v[1:-1] = u[:-2] + v[2:], v[:-2] * u[1]
    u[:], v[:] = v, u
    (u[:2], s), v[:] = (a[1:3] * 2, a[0]), u
    u[1:], w = u[::-1][1:], u
    n[0], w[n[0] : 3] = 2, v[n[0]]
    for t in qgraph.serial(range(3)):
        u[:], v[t], v[:2] = v - u[::-1], u[t], 3
        u, v = v, u
    v[:], u[:] = two_arrays(a)
    v[:1], v[-1:] = two_numbers(u)
    u[:], w[:] = a, doubled(a)
    (x, y), z = p[1], s
    return x, y, z


def test_several_slices_at_once(check):
    check(several_at_once, lambda: (numbers(6), numbers(6) + 1, numbers(6) + 2, np.array([1, 2]), numbers(3, 2)))


def between_arguments(a, b):
    a[1:] = b[:-1]
    b[:] = a * 2


def both_at_once(a, b):
    a[1:], b[:] = b[:-1], a * 2


@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("kernel", [between_arguments, both_at_once])
def test_arguments_that_overlap(check, kernel, shift):
    def arguments():
        memory = numbers(12)
        return memory[:8], memory[shift : shift + 8]

    check(kernel, arguments)


def reductions(x, y, u, out):
    s = np.sum(x[1:-1] * y[1:-1]) + np.max(u)
    c = 0
    while np.sum(y * y) > 10 and c < 5:
        y[:] = y / 2
        c += 1
    if np.any(x > 3):
        x[:] = x[0]
    out[0] = s
    out[1] = np.min(u[1:, :]) + np.mean(x)
    out[2] = np.dot(x, y)
    out[3] = np.sqrt(np.sum((x - y) ** 2))
    out[4] = 1 if np.all(x > 0) else 0
    out[5] = np.sum(u[:, 0])
    out[6] = c


def test_reductions_of_expressions(check):
    check(reductions, lambda: (numbers(7), numbers(7) + 1, numbers(3, 5), np.full(7, 77.0)))


def of_booleans(x, y, n):
    products = np.vdot(x, y), np.dot(x[: n[0]], y[: n[0]]), np.dot(x, y * 1)
    return products, (np.sum(x), np.prod(x), np.mean(x)), (np.min(x), np.max(x | y), np.all(~x))


def test_reductions_of_booleans(rig):
    kernel = rig.kernel(of_booleans)
    for x, y in (("101", "111"), ("000", "111"), ("100", "011"), ("111", "111")):
        rig.compare(kernel, lambda x=x, y=y: (truths(x), truths(y), np.array([2])))


def truths(text):
    return np.array([letter == "1" for letter in text])


def in_loops_and_branches(x, y, n):
    t = qgraph.zeros(x.shape)
    for k in qgraph.serial(range(n)):
        t[:] = x + k
        if k % 2 == 0:
            y[:] = t
        else:
            y[1:] = t[:-1]
        x, y = y, x
    x[0] = -1
    x[1:] *= 2


@pytest.mark.parametrize("n", [0, 1, 3])
def test_in_loops_branches_and_of_temporaries(check, n):
    check(in_loops_and_branches, lambda: (numbers(5), numbers(5) + 1, n))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, np.float32, np.complex128])
def test_dtypes(check, dtype):
    check(kernel_of_dtypes, lambda: ((numbers(5) > 4).astype(dtype), np.arange(5).astype(dtype)))


def kernel_of_dtypes(x, y):
    x[1:] = y[:-1]
    y[0] = x[1]
    y[2:] = x[2:]


def test_empty_arrays(check):
    check(between_arguments, lambda: (np.zeros(0), np.zeros(0)), noop=True)


def different(x, y):
    x[:] = y


def test_different_shapes_are_refused_before_anything_runs(rig):
    x, y = rig.device(np.zeros(4)), rig.device(np.ones(5))
    with pytest.raises(qgraph.ArgumentError, match=r"has length 5, and `x\[:\]` has length 4"):
        rig.kernel(different)(x, y)
    assert not qgraph.to_numpy(x).any()


def of_nothing(x, out):
    out[0] = np.max(x)


def test_the_maximum_of_nothing_is_refused(rig):
    with pytest.raises(qgraph.ArgumentError, match="array without elements"):
        rig.kernel(of_nothing)(rig.device(np.zeros(0)), rig.device(np.zeros(1)))


def too_many(x, y):
    x[:] = y


def along_an_axis(x):
    x[0, 0] = np.sum(x, axis=2)[0]


@pytest.mark.parametrize(
    ("function", "args", "text"),
    [
        (too_many, (np.zeros(4), np.zeros((4, 4))), "has 2 dimensions"),
        (along_an_axis, (np.zeros((4, 4)),), "arguments that are not supported"),
    ],
)
def test_what_is_refused(function, args, text):
    with pytest.raises(qgraph.KernelSyntaxError, match=text):
        qgraph.kernel(function).plan(*args)


def in_place_of_scalars(x, y, z, b):
    count, total, some = 0, 0.0, False
    for i in range(x.shape[0]):
        count += 1
        total += y[i]
        if y[i] > 2:
            some = True
    x += count
    x[1:] //= count - 1
    y *= total
    y[::2] /= count
    z -= total / count
    z **= count - 2
    b ^= some
    y -= total if x[0] > 2 else 1


@pytest.mark.parametrize("dtype", [np.uint8, *thorough(np.int64, np.float32)])
def test_in_place_with_numbers_that_loops_made(check, dtype):
    check(
        in_place_of_scalars, lambda: (np.arange(4).astype(dtype), np.arange(4.0), np.arange(4.0) * (1 + 1j), np.zeros(4, bool))
    )


def rounded(x, y, z, n):
    y[:] = np.round(x)
    y[1:] += np.around(x[:-1] / 3, 2) * np.round(x[1:], decimals(n))
    z[:] = np.round(x[0] / 7, 3)
    z[2:] = np.round(x[2:] - z[:-2], n)
    return np.sum(np.round(z, 1)), np.max(np.around(x))


@qgraph.func
def decimals(n):
    return n + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 4, -1])
def test_rounding(check, dtype, n):
    def arguments():
        x = (numbers(9) * 12.3456 - 40).astype(dtype)
        return x, np.full(9, 77, dtype), np.full(9, 77, dtype), n

    check(rounded, arguments)


def rounded_integers(x, y):
    y[:] = np.round(x)
    y[2:] += np.around(x[2:], 0)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_rounding_integers(check, dtype):
    check(rounded_integers, lambda: (np.arange(7).astype(dtype), np.full(7, 77, dtype)))


def part_of_a_reshaped_array(x, y):
    t = x.reshape(-1)
    y[:-1] = t[:-1] + t[1:]
    y[1:3] += np.ravel(x)[:-4]


def part_of_reshaped_rows(x, y):
    t = x.reshape(2, -1)
    y[: t.shape[1] - 1] = t[0, :-1] * t[:-1, 1:].sum()


def part_of_as_many_as_a_number_says(x, y, n):
    t = np.ones(n if n > 2 else 4)
    y[: len(t) - 1] = t[:-1] * 3


@pytest.mark.parametrize(
    ("function", "more"),
    [(part_of_a_reshaped_array, ()), (part_of_reshaped_rows, ()), *((part_of_as_many_as_a_number_says, (n,)) for n in (1, 5))],
)
def test_parts_of_arrays_whose_length_is_a_choice(check, function, more):
    check(function, lambda: (np.arange(6.0) + 1, np.full(6, 77.0), *more))


def test_lengths_that_differ_where_one_is_a_choice(rig):
    def added(x, y):
        return x.reshape(-1) + y

    with pytest.raises(ArgumentError, match=r"`y` has length 4, and `x.reshape\(-1\)` has length 6"):
        rig.kernel(added)(rig.device(np.arange(6.0)), rig.device(np.ones(4)))


@qgraph.func
def sum_of_part(x, n):
    return np.sum(x[:n])


def parts_without_bounds(x, y, u, n):
    y[n:] = x[:n] * 2
    part = x[n:3]
    y[:3] += part[::n]
    y[::-1] -= x[n::-1] + sum_of_part(x, n)
    for i in range(u.shape[0]):
        u[i, n:4] = x[:4:n] + sum_of_part(x, n)
        u[i, 4] = np.max(x[n:]) + np.sum(x[1:n])


def test_bounds_that_are_none(check):
    check(parts_without_bounds, lambda: (numbers(6), numbers(6) + 1, np.full((3, 5), 77.0), None))


def tuples_for_parts(x, u, counts, n):
    x[1:3] = x[2], x[0]
    u[0, :2] = 1.5, 2
    u[:2, 2:] = (n, x[3]), (np.sum(x), 0.5)
    u[2] = (n,)
    u[:, 1] += 1, 2, x[1]
    counts[:3] = 1.75, 2**60 + 1, n
    counts[3:] *= 2, 3
    part = u[1]
    part[:3] = 0, 1, True
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    for t in qgraph.serial(range(2)):
        u[t, 1:3] = total, t


def test_tuples_that_are_assigned_to_parts(check):
    check(tuples_for_parts, lambda: (numbers(6), numbers(3, 4), np.arange(5) + 2, 3))


def only_elements(flag, total, x):
    total[...] = total[...] * 2
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            x[i] += total[...]
        total[...] += 1.5
        flag[...] -= 1


def test_elements_of_arrays_without_axes_by_dots(check):
    check(only_elements, lambda: (np.array(3), np.array(0.5), numbers(4)))

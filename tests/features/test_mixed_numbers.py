"""Numbers of several types in one expression: of which type the result is."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

NARROW = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


def divided(x, y, out):
    for i in range(x.shape[0]):
        q, r = divmod(x[i], 7)
        out[i, 0] = -q
        out[i, 1] = r * 60
        out[i, 2] = -divmod(100, y[i])[0]
        out[i, 3] = divmod(100, y[i])[1] * 100
        out[i, 4] = np.divmod(x[i], 7)[1] * 60


@pytest.mark.parametrize("dtype", NARROW)
def test_divmod_with_a_literal_is_of_the_other_numbers_type(check, dtype):
    numbers = np.array([1, 5, 33, 90, 127], dtype)
    with np.errstate(over="ignore"):
        check(divided, lambda: (numbers, numbers[::-1].copy(), np.full((5, 5), 77.0)))


def divided_by_a_boolean(b, x, out):
    for i in range(x.shape[0]):
        out[i, 0] = divmod(b[i], x[i])[0]
        out[i, 1] = divmod(x[i] > 1, x[i])[1] * 200
        out[i, 2] = divmod(max(x[i], 3), 4)[1]


def test_divmod_of_booleans_and_of_numbers_of_either_kind(check):
    numbers = np.array([1, 3, 2], np.uint8)
    with np.errstate(over="ignore"):
        check(divided_by_a_boolean, lambda: (np.array([True, False, True]), numbers, np.full((3, 3), 77.0)))


def of_uint32(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = (x[i] + y[i]) * u[i]


def shifted_by_uint32(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = (x[i] >> y[i]) + u[i]


def of_a_loop_variable(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = (x[i] - i) * u[i]


def of_an_inner_loops_variable(x, y, u, out):
    for i in range(x.shape[0]):
        for j in range(2):
            out[i] = max(x[i] - j, 0) * u[i]


def of_numpys_functions(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = np.minimum(i, 5) * u[i]


def of_numpys_choice(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = min(np.where(x[i] > 0, 0, -3), u[i])


def of_a_truth(x, y, u, out):
    for i in range(x.shape[0]):
        out[i] = u[i] * ((x[i] > 0) - 7)


def of_a_truth_with_a_name(x, y, u, out):
    for i in range(x.shape[0]):
        v = np.bool_(x[i]) * 3
        out[i] = v + u[i]


MADE = [
    *(of_uint32, shifted_by_uint32, of_a_loop_variable, of_an_inner_loops_variable),
    *(of_numpys_functions, of_numpys_choice, of_a_truth, of_a_truth_with_a_name),
]


@pytest.mark.parametrize("function", MADE)
def test_an_int64_that_is_made_of_narrower_numbers_does_not_meet_a_uint64(backend, function):
    kernel = qgraph.kernel(function, backend=backend)
    one = np.ones(3, np.int32)
    with pytest.raises(qgraph.KernelTypeError, match=r"`u\[i\]` is a uint64 and .* an int64"):
        kernel(one, one.astype(np.uint32), one.astype(np.uint64), np.zeros(3))


def of_narrow_integers(x, y, u, n, out):
    for i in range(x.shape[0]):
        out[i, 0] = (x[i] + 3) * u[i]
        out[i, 1] = x[i] * np.uint16(3) * u[i]
        out[i, 2] = y[i] * u[i] * i * n
        out[i, 3] = (u[i] + (x[i] > 0) - 1) * (n > 1) + (u[i] if x[i] > 0 else (n > 1) * 5)


def test_a_uint64_with_what_numpy_has_a_type_for(check):
    numbers = np.array([-5, 2, -1])
    check(
        of_narrow_integers,
        lambda: (
            numbers.astype(np.int32),
            np.arange(3, dtype=np.uint32),
            np.arange(3, dtype=np.uint64),
            2,
            np.full((3, 4), 77.0),
        ),
    )


def negative_or_a_float(x, f, out):
    for i in range(x.shape[0]):
        out[i] = -max(x[i], 0.5)


def twice_or_a_float(x, f, out):
    for i in range(x.shape[0]):
        out[i] = (x[i] if f[i] > 1 else f[i]) * 2


def a_sum_of_elements_or_a_float(x, f, out):
    for i in range(x.shape[0]):
        t = x[i]
        if f[i] > 1:
            t = f[i]
        out[i] = t + x[i]


def a_product_of_a_quotient(x, f, out):
    for i in range(x.shape[0]):
        out[i] = max(x[i], 0.5) // 2 * 200


def converted_to_another_type(x, f, out):
    for i in range(x.shape[0]):
        out[i] = np.int8(x[i] if f[i] > 1 else f[i])


OR_A_FLOAT = [
    *(negative_or_a_float, twice_or_a_float, a_sum_of_elements_or_a_float, a_product_of_a_quotient),
    converted_to_another_type,
]


@pytest.mark.parametrize("function", OR_A_FLOAT)
def test_what_depends_on_whether_it_is_a_narrow_integer_or_a_float_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's uint8 or a float.*write float\(\.\.\.\)"):
        rig.kernel(function)(*map(rig.device, (np.arange(3, dtype=np.uint8), np.arange(3.0), np.zeros(3))))


def integers_or_floats(x, b, f, out, whole):
    for i in range(x.shape[0]):
        a = max(x[i], 0.5)
        out[i, 0] = a
        out[i, 1] = a * 0.5 + a / 2 + float(a) * 2
        out[i, 2] = a // 2 + 0.5
        out[i, 2] += (a % 7) * 0.25 + divmod(a, 3)[0] / 2
        out[i, 3] = (x[i] if f[i] > 1 else f[i]) + f[i]
        out[i, 4] = (b[i] if f[i] > 1 else 0.5) + 3
        t = 0.0
        m = 0.0
        for j in range(i):
            t = t + x[j]
            m = max(m, x[j])
        out[i, 5] = t + m / 255
        whole[i] = a
        whole[i] += int(a) * 2 + (a > 3) + round(a) + np.int64(a)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_narrow_integer_or_a_float_is_one_number_where_only_that_counts(check, dtype):
    numbers, fractions = np.array([1, 5, 33, 90, 127], dtype), np.array([0.5, 1.5, 0.7, 3.5, 2.5])
    check(
        integers_or_floats,
        lambda: (numbers, numbers > 30, fractions, np.full((5, 6), 77.0), np.zeros(5, np.int64)),
    )


def of_a_scalar_of_numpys(x, out, k):
    v = k + 1
    for i in range(x.shape[0]):
        out[i] = x[i] * v
    return v, v * 40


@pytest.mark.parametrize("dtype", NARROW)
def test_what_the_host_computes_of_numpys_scalars_is_of_their_type(check, dtype):
    with np.errstate(over="ignore"):
        check(of_a_scalar_of_numpys, lambda: (np.array([100, 3, 90], dtype), np.full(3, 77.0), dtype(4)))


def of_signed_and_unsigned_scalars(u, k, out):
    v = u * k
    out[0] = v
    return v - 300


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_a_uint64_and_a_signed_scalar_are_a_float64(check, dtype):
    check(of_signed_and_unsigned_scalars, lambda: (np.uint64(5), dtype(-3), np.full(1, 77.0)))


def moved_by_a_scalar_of_numpys(x, y, k):
    v = k + 1
    for i in range(y.shape[0]):
        x[i + v] = x[i + v] + y[i] * v
    t = np.zeros(v)
    t[:] = v
    x[:v] = t + x[v : 2 * v]
    for _ in qgraph.serial(range(v)):
        for i in range(v, x.shape[0]):
            x[i] += v
    return v


@pytest.mark.parametrize("dtype", [*NARROW, np.int64, np.uint64, int])
def test_a_scalar_of_numpys_is_a_bound_an_index_and_a_length(check, dtype):
    check(moved_by_a_scalar_of_numpys, lambda: (np.arange(12.0), np.arange(4.0), dtype(2)))


def test_the_verdict_on_a_loop_names_a_scalar_of_numpys_as_it_is_written(rig):
    plan = rig.kernel(moved_by_a_scalar_of_numpys).plan(np.arange(12.0), np.arange(4.0), np.int8(2))
    assert "refused where -y.shape[0] < k + 1 < 0 and" in str(plan)


def divided_by_loop_variables(x, out):
    for i in range(x.shape[0]):
        out[i, 0], out[i, 1] = divmod(7, i)
        q, r = divmod(x[i], i)
        out[i, 2] = q * 10 + r


def test_divmod_by_zero_in_a_loop_is_zero(rig):
    out = np.full((3, 3), 77.0)
    rig.run(rig.kernel(divided_by_loop_variables), np.array([5, 9, 5]), out)
    assert out.tolist() == [[0, 0, 0], [7, 0, 90], [3, 1, 21]]


def index_that_is_a_float(x, y):
    for i in range(x.shape[0]):
        y[x[i] / 2] = 1


def index_that_is_a_boolean(x, y):
    for i in range(x.shape[0]):
        y[x[i] > 0] = 1


def greatest_of_a_number_and_a_row(x, y):
    m = 1.0
    for i in range(x.shape[0]):
        m = max(m, x)
    y[0] = m


MESSAGES = [
    (index_that_is_a_float, "an index of an element is a float64", "write int"),
    (index_that_is_a_boolean, "an index of an element is a bool", "write int"),
    (greatest_of_a_number_and_a_row, r"`max` does not take \(float64, array", ""),
]


@pytest.mark.parametrize(("function", "found", "hint"), MESSAGES)
def test_what_is_no_index_and_no_operand_is_named(backend, function, found, hint):
    arrays = (qgraph.asarray(each, backend=backend) for each in (np.zeros(3, np.int64), np.zeros(3)))
    with pytest.raises(qgraph.KernelTypeError, match=found) as caught:
        qgraph.kernel(function, backend=backend)(*arrays)
    assert hint in (caught.value.hint or "")


def sum_of_a_row(x, o):
    for i in range(x.shape[0]):
        o[i] = sum(x[i])


def sum_of_a_tuple(x, o):
    for i in range(x.shape[0]):
        o[i] = sum((x[i, 0], x[i, 1], x[i, 0]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.bool_, np.float64])
@pytest.mark.parametrize("function", [sum_of_a_row, sum_of_a_tuple])
def test_sums_of_narrow_integers_are_refused(rig, function, dtype):
    x = np.full((4, 3), 1 if dtype is np.bool_ else np.iinfo(dtype).max // 4 if np.dtype(dtype).kind in "iu" else 0.5, dtype)
    x[2:] = x[2:] > 5 if dtype is np.bool_ else x[2:] // 7
    kernel = rig.kernel(function)
    if np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 8:
        with pytest.raises(qgraph.KernelTypeError, match="fewer than 64 bits wraps around"):
            rig.run(kernel, x, np.zeros(4, np.int64))
        return
    found, expected = np.zeros(4), np.zeros(4)
    rig.run(kernel, x, found)
    kernel.reference(x, expected)
    np.testing.assert_array_equal(found, expected)


def sum_from_a_float(x, o):
    for i in range(x.shape[0]):
        o[i] = sum(x[i], 0.5)


def test_a_sum_of_narrow_integers_that_begins_with_a_float(rig):
    rig.check(sum_from_a_float, lambda: (np.full((4, 3), 127, np.int8), np.zeros(4)))


def into_a_boolean_or_a_float(n, b, f, out):
    for i in range(n.shape[0]):
        out[i] = n[i] // max(b[i], f[i])


def rest_of_an_integer_or_a_float(n, b, f, out):
    for i in range(n.shape[0]):
        t = n[i]
        if b[i]:
            t = f[i]
        out[i] = np.remainder(n[i], t)


def pair_of_an_integer_or_a_float(n, b, f, out):
    for i in range(n.shape[0]):
        out[i] = divmod(max(n[i], 0.5), n[i])[0]


DIVIDED = [into_a_boolean_or_a_float, rest_of_an_integer_or_a_float, pair_of_an_integer_or_a_float]


@pytest.mark.parametrize("function", DIVIDED)
def test_a_division_of_what_may_be_integers_or_floats_is_refused(rig, function):
    arguments = np.arange(3), np.zeros(3, np.bool_), np.arange(3.0), np.zeros(3)
    with pytest.raises(qgraph.KernelTypeError, match=r"a division by zero depends on which: write float\(...\)"):
        rig.kernel(function)(*map(rig.device, arguments))


def integers_or_floats_divided(n, b, f, out):
    for i in range(n.shape[0]):
        t = max(n[i], 0.5)
        out[i, 0] = t // 2 + t % -3 + n[i] / max(b[i], f[i] + 1)
        out[i, 1] = t // f[i] + f[i] % t
        out[i, 2] = n[i] // float(max(b[i], f[i])) + divmod(t, 4)[1]


def test_divisions_of_which_one_operand_is_a_float(check):
    with np.errstate(all="ignore"):
        check(integers_or_floats_divided, lambda: (np.arange(3), np.ones(3, np.bool_), np.arange(3.0), np.full((3, 3), 77.0)))


def least_of_unsigned(u, m, out, whole):
    t = min(u[0], m)
    out[0, 0] = t
    for i in range(u.shape[0]):
        out[i, 1] = min(u[i], m)
        out[i, 2] = min(m, u[i], 7) / 2 + (min(u[i], m) < 0) + 0.5 * min(u[i], m)
        out[i, 3] = max(min(u[i], m), 0)
        out[i, 4] = min(u[i], m, 2.5)
        s = m
        for j in range(2):
            s = min(s, u[j])
        whole[i] = s
        for j in range(min(u[i], m)):
            whole[i] += 10


@pytest.mark.parametrize("m", [-3, 0, 2, 9])
def test_the_least_of_a_uint64_and_a_python_integer_may_be_negative(check, m):
    u = np.array([1, 5, 2**64 - 1], np.uint64)
    check(least_of_unsigned, lambda: (u, m, np.full((3, 5), 77.0), np.full(3, 77)))


def more_than_the_least(u, m, out):
    for i in range(u.shape[0]):
        out[i] = min(u[i], m) + 1


def the_least_or_another(u, m, out):
    for i in range(u.shape[0]):
        t = min(u[i], m)
        if i == 1:
            t = u[i]
        out[i] = t


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (more_than_the_least, "NumPy's uint64 or a Python integer.*depends on which"),
        (the_least_or_another, "`t` is uint64 on one path"),
    ],
)
def test_what_depends_on_which_of_the_two_is_the_least_is_refused(rig, function, message):
    with pytest.raises(qgraph.KernelTypeError, match=message):
        rig.kernel(function)(rig.device(np.ones(3, np.uint64)), -3, rig.device(np.zeros(3)))


def less_an_element_by_path(x, c, f, out):
    for i in range(x.shape[0]):
        t = 0.5
        if c[i]:
            t = 8
        out[i] = t - x[i]


def more_than_the_greatest(x, c, f, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + max(300, f[i])


def less_than_a_sum(x, c, f, out):
    for i in range(x.shape[0]):
        s = 0
        for j in range(i):
            s = s + f[j]
        out[i] = s - x[i]


def a_quotient_of_the_greatest(x, c, f, out):
    for i in range(x.shape[0]):
        out[i] = x[i] // max(0, f[i])


A_LITERAL = [less_an_element_by_path, more_than_the_greatest, less_than_a_sum, a_quotient_of_the_greatest]


@pytest.mark.parametrize("function", A_LITERAL)
def test_what_wraps_with_a_literal_and_not_with_a_float_is_refused(rig, function):
    arguments = np.ones(3, np.int8), np.zeros(3, np.bool_), np.arange(3.0), np.zeros(3)
    with pytest.raises(qgraph.KernelTypeError, match=r"(Python's \d+ or a float, as in max\(\d+, |a division by zero)"):
        rig.kernel(function)(*map(rig.device, arguments))


def literals_or_floats(x, c, f, out, whole):
    for i in range(x.shape[0]):
        t = 0.5
        if c[i]:
            t = 8
        out[i, 0] = t * 1.5 + t / 2 + f[i] - t
        out[i, 1] = x[i] // max(3, f[i]) + t // 3
        s = 0
        best = 0
        for j in range(i):
            s += f[j]
            best = max(best, f[j])
        out[i, 2] = s * x[i] + s
        out[i, 3] = best + x[i]
        whole[i] = t
        whole[i] += np.int32(t) + int(s) * 2 + round(t)
        if t and not s:
            whole[i] += 100


@pytest.mark.parametrize("dtype", NARROW)
def test_a_literal_or_a_float_is_one_number_where_only_that_counts(check, dtype):
    numbers, fractions = np.array([1, 5, 33, 90, 127], dtype), np.array([0.5, 1.5, 0.7, 3.5, 2.5])
    check(literals_or_floats, lambda: (numbers, numbers % 2 == 0, fractions, np.full((5, 4), 77.0), np.zeros(5, np.int64)))


def of_large_unsigned_scalars(x, s, t):
    v = s * t + 1
    x[0] = v
    for i in range(1, x.shape[0]):
        x[i] = s * 5 + x[i]
        x[i] ^= v << 1
    for _ in qgraph.serial(range(t)):
        x[1] += s**2
    return v - 7, s ^ t, s + t


@pytest.mark.parametrize("seed", [5, 2**63, 2**64 - 1])
def test_what_is_computed_of_uint64_scalars_has_all_their_bits(check, seed):
    with np.errstate(over="ignore"):
        check(of_large_unsigned_scalars, lambda: (np.arange(4, dtype=np.uint64), np.uint64(seed), np.uint64(3)))


def products_of_truths_or_floats(b, f, out):
    a = b[0] if f[1] > 1 else f[0]
    out[0, 3] = a * a
    for i in range(b.shape[0]):
        a = b[i] if f[i] > 1 else f[i]
        out[i, 0] = a * a * b[i]
        out[i, 1] = max(b[i], 0.5) * b[i] + 0.25
        out[i, 2] = np.maximum(a, b[i]) + np.abs(a) * f[i]


def test_what_is_a_truth_or_a_float_is_multiplied(check):
    check(products_of_truths_or_floats, lambda: (np.array([True, False, True]), np.array([0.5, 1.5, 2.0]), np.zeros((3, 4))))


def sum_of_truths_or_floats(b, f, out):
    for i in range(b.shape[0]):
        a = (b[i] if f[i] > 1 else f[i]) * b[i]
        out[i] = a + a


def test_a_sum_of_what_is_a_truth_or_a_float_is_refused(rig):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's bool or a float.*write float\(\.\.\.\)"):
        rig.kernel(sum_of_truths_or_floats)(*map(rig.device, (np.ones(3, np.bool_), np.arange(3.0), np.zeros(3))))

"""``for`` over ``range``: every form of bounds, and what a loop's body may hold."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

POISON = 77


def poisoned(*shape, dtype=np.float64):
    return np.full(shape, POISON, dtype)


def steps(up, down, sparse, back, from_scalars, n, lo, hi, step):
    for i in range(up.shape[0]):
        up[i] = i
    for i in range(n - 1, -1, -1):
        down[i] = 10 * i
    for i in range(1, n, 3):
        sparse[i] = i + 0.5
    for i in range(n - 2, 0, -4):
        back[i] = -i
    for i in range(lo, hi, step):
        from_scalars[i] = i * step


@pytest.mark.parametrize(("lo", "hi", "step"), [(0, 20, 1), (3, 20, 7), (19, 2, -3), (19, -1, -1), (5, 6, 100), (5, 4, -9)])
def test_start_stop_and_any_step(check, lo, hi, step):
    check(steps, lambda: (*(poisoned(20) for _ in range(5)), 20, lo, hi, step))


def from_the_end(x, y, bounds, n):
    m = bounds[3]
    for i in reversed(range(1, x.shape[0])):
        x[i] = i
    for i in range(x.shape[0]):
        for k in reversed(range(bounds[i])):
            for j in range(k, n)[::-1]:
                x[i] = (x[i] * 2 + k * j) % 101
        for k in reversed(range(bounds[i] - 3, n, 3)):
            if k == 5:
                break
            x[i] = x[i] * 3 % 97 + k
        else:
            x[i] += 0.5
        for k in reversed(range(n, -n, -4)):
            x[i] = x[i] * 3 % 97 + k
    for k in qgraph.serial(reversed(range(bounds[0], m, 2))):
        for i in range(1, y.shape[0]):
            y[i] = y[i] * 2 % 89 + k
    for i in qgraph.serial(reversed(range(y.shape[0] - 1))):
        y[i] = y[i + 1] * 3 % 83 + i
    backwards = range(m)[::-1]
    for k in qgraph.serial(backwards):
        y[0] = y[0] * 2 % 79 + k
    for k in qgraph.serial(backwards):
        y[0] = y[0] * 2 % 79 + k


@pytest.mark.parametrize("n", [-2, 0, 1, 7, 8])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_ranges_from_their_end(check, n, dtype):
    check(from_the_end, lambda: (np.arange(6.0), np.arange(6.0), np.array([3, 4, 5, 6, 7, 8], dtype), n))


@qgraph.func
def counted(k):
    k[0] += 1
    return 5


def bounds_that_count(x, k):
    for i in qgraph.serial(reversed(range(counted(k)))):
        x[i] = x[i] * 2 + k[0]


def test_bounds_of_a_range_from_its_end_are_computed_once(check):
    check(bounds_that_count, lambda: (np.arange(6.0), np.zeros(1, int)))


def lengths(x, lo, hi, step):
    n = len(range(lo, hi, step))
    for i in range(x.shape[0]):
        inside = range(i, hi)
        x[i] = 100 * len(inside) + len(range(i, hi, step))
        for k in inside:
            x[i] += k
    for i in range(len(range(lo, hi))):
        x[i % x.shape[0]] = n
    return n, len(range(hi))


@pytest.mark.parametrize(("lo", "hi", "step"), [(0, 9, 1), (1, 8, 3), (8, 1, 3), (8, -1, -2), (5, -5, 2)])
def test_lengths_of_ranges(check, lo, hi, step):
    check(lengths, lambda: (np.zeros(9, int), lo, hi, step))


def nothing_to_do(x, n, lo, hi):
    for i in range(0):
        x[i] = 1.0
    for i in range(n):
        x[i] = 2.0
    for i in range(lo, hi):
        x[i] = 3.0
    for i in range(hi, lo, -1):
        x[i - 1] = 4.0
    for i in range(-5):
        x[i] = 5.0


def test_empty_ranges_touch_nothing(rig):
    kernel = rig.check(nothing_to_do, lambda: (poisoned(8), 0, 5, 5), noop=True)
    rig.compare(kernel, lambda: (poisoned(8), -3, 7, 2), noop=True)
    rig.compare(kernel, lambda: (poisoned(8), 4, 2, 7))
    assert kernel.stats.compilations == 1


def negative_positions(x, y, n):
    for i in range(-n, 0):
        x[i] = i
    for i in range(-2, -n - 1, -2):
        y[i + n] = i


def test_negative_starts_and_python_indexing_from_the_end(check):
    check(negative_positions, lambda: (poisoned(9), poisoned(9), 9))


def bounds(x, y, z, w, table, n):
    for i in range(x.shape[0] // 2, x.shape[0]):
        x[i] = i
    for i in range(len(y)):
        y[i] = i
    for i in range(table[0], table[1], 3):
        z[i] = i
    for i in range(min(n, w.size), max(3, n - 9), -1):
        w[i - 1] = i


# A bound that only the device knows may be negative, and then places count from the end.
@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
def test_bounds_from_shapes_lengths_scalars_and_elements(check):
    def args():
        return poisoned(10), poisoned(7), poisoned(30), poisoned(12), np.array([2, 29], np.int32), 15

    check(bounds, args)


def bound_changes_on_the_way(x, n):
    for i in range(n[0]):
        x[i] = 1.0
    n[0] = n[0] // 2
    for i in range(n[0]):
        x[i] += 10.0
    for k in range(1, 2):
        n[k] = n[0] - 4
    for i in range(n[1]):
        x[i] += 100.0


def test_an_element_as_bound_is_read_when_the_loop_is_reached(rig):
    def args(n, dtype):
        return lambda: (poisoned(32), np.array([n, 3], dtype))

    kernel = rig.check(bound_changes_on_the_way, args(16, np.int64))
    rig.compare(kernel, args(32, np.int64))
    rig.compare(kernel, args(8, np.int64))
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1
    rig.compare(kernel, args(20, np.int32))


def first_part(x, count):
    for i in range(count[()]):
        x[i] = x[i] * 2.0 + 1.0


def test_a_bound_read_on_the_device_reaches_16_of_32(rig):
    x = np.arange(32.0)
    kernel = rig.kernel(first_part)
    rig.run(kernel, x, np.array(16))
    assert (x[:16] == np.arange(16.0) * 2 + 1).all()
    assert (x[16:] == np.arange(16.0, 32.0)).all()


def negative_and_large_device_bound(x, y, n, down):
    for i in range(n[0], n[1], down):
        x[i] = i
    for i in range(n[2]):
        y[i] = 1


# A bound that only the device knows may be negative, and then places count from the end.
@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
def test_device_bounds_with_any_step_and_more_iterations_than_one_grid(rig):
    large = rig.size(700_000)
    rig.check(negative_and_large_device_bound, lambda: (poisoned(40), poisoned(large), np.array([39, -1, large]), -5))


def bodies(x, y, out, total):
    for i in range(x.shape[0]):
        if x[i] < 0.0:
            continue
        if i % 5 == 0:
            out[i] = -1.0
            continue
        best = x[i]
        for j in range(y.shape[0]):
            if y[j] > 3.0:
                continue
            if j > 6:
                break
            best = max(best, y[j])
        out[i] = best
    for i in range(total.shape[0]):
        n, steps = i, 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
            if steps > 1000:
                break
        else:
            steps += 100
        total[i] = steps
    for i in range(x.shape[0]):
        pair = (x[i], 2.0 * x[i])
        low, high = min(pair), max(pair)
        a, (b, c) = low, (high, i)
        a, b = b, a
        out[i] += a - b + c if x[i] != 0.0 else pair[1]


def test_bodies_with_continue_inner_loops_while_and_tuples(check):
    def args():
        rng = np.random.default_rng(3)
        return rng.normal(size=30), rng.normal(2.0, 2.0, 9), poisoned(30), poisoned(40, dtype=np.int64)

    check(bodies, args)


def inner_ranges(x, triangle):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[1] - 1, i, -2):
            s += x[i, j]
        for j in range(i):
            for k in range(j, j + 2):
                s -= x[j, k]
        triangle[i] = s


def test_inner_loops_run_in_order_inside_an_iteration(check):
    def args():
        return np.random.default_rng(4).random((13, 17)), poisoned(13)

    check(inner_ranges, args)


def recurrence_inside(x):
    for i in range(x.shape[0]):
        x[i, 0] = i
        for j in range(1, x.shape[1]):
            x[i, j] = 0.5 * x[i, j - 1] + j


def test_an_inner_recurrence_is_serial(check):
    check(recurrence_inside, lambda: (poisoned(11, 8),))


def loop_variable_is_a_value(x):
    for i in range(x.shape[0]):
        k = i
        i = k * 2
        x[k] = i


def test_a_rebound_loop_variable_does_not_move_the_loop(check):
    check(loop_variable_is_a_value, lambda: (poisoned(12),))


def same_name_in_two_loops(x, y):
    for i in range(x.shape[0]):
        t = x[i] * 2.0
        y[i] = t
    for i in range(x.shape[0]):
        t = i
        x[i] = t
    for _ in range(1, 2):
        y[_] = -1.0


def test_names_are_private_to_a_loop(check):
    check(same_name_in_two_loops, lambda: (np.arange(9.0), poisoned(9)))


def documented(x):
    """A docstring, an ``if`` in a loop, comparison chains, and literals of every kind."""
    for i in range(0x10 if x.shape[0] > 1_5 else 4):
        inside = 2 <= i < 10 and not (i == 5 or i in (7, 8))
        x[i] = 1e1 if inside else -((~i) ** 2) + 3 // 2 % 2
    pass


def test_docstrings_pass_and_operators(check):
    check(documented, lambda: (poisoned(16),))


def step_on_the_device(x, y, k):
    for i in range(2, x.shape[0], k[0]):
        x[i] = 1.0
    for i in range(k[1], -1, k[2]):
        y[i] = i
    for i, j in qgraph.ndrange(2, 3):
        for a in range(i, 9, k[0] * k[0] + j):
            x[a] += 0.5


@pytest.mark.parametrize(("up", "down"), [(3, -2), (1, -1), (100, -100), (-1, -7)])
def test_a_step_read_on_the_device(check, up, down):
    check(step_on_the_device, lambda: (np.zeros(20), poisoned(20), np.array([up, 19, down])))


def written_step(k, trace):
    for i in range(0, 4, k[0]):
        k[i] = 3
    for i in range(k[0]):
        trace[i] = i


def test_a_step_that_its_own_loop_writes_was_read_before(check):
    check(written_step, lambda: (np.array([2, 7, 7, 7]), np.full(4, 77)))


def zero_step(x, k):
    for i in range(0, 9, k[0]):
        x[i] = 1
    for t in qgraph.serial(range(0, 9, k[0])):
        for i in range(x.shape[0]):
            x[i] = t


def test_a_zero_step_read_on_the_device_runs_no_iteration(rig):
    x = np.full(9, 77)
    rig.run(rig.kernel(zero_step), x, np.array([0]))
    assert (x == 77).all()
    with pytest.raises(ValueError, match="must not be zero"):
        zero_step(x, np.array([0]))  # CPython refuses it: the one difference


def narrow_bounds(x, lo, hi, by):
    for i in range(lo[0], hi[0], by[0]):
        x[i + 130] += 1
    for i in range(lo[0] | 1, hi[0]):
        x[i + 130] += 10
    for t in qgraph.serial(range(lo[0], hi[0], by[0])):
        for i in range(2):
            x[i] += t


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64"])
def test_bounds_of_any_integer_type_are_python_integers(check, dtype):
    low, high = np.iinfo(dtype).min if dtype == "int8" else 0, 127 if dtype == "int8" else 200

    def args():
        return np.zeros(400, np.int64), np.array([low], dtype), np.array([high], dtype), np.array([100], dtype)

    check(narrow_bounds, args)


def light_with_continue(out, x, scale):
    for i in range(x.shape[0]):
        if x[i] > 0.75:
            continue
        out[i] = scale * x[i] + i
    for i in range(1, x.shape[0]):
        out[i] += x[i - 1]


@pytest.mark.parametrize("n", [1, 8, 31, 32, 33, 40, 64, 65, 100])
def test_sizes_at_which_threads_take_several_iterations(check, n):
    check(light_with_continue, lambda: (poisoned(n), np.random.default_rng(n).random(n), 1.5))


def shifted_in_place(x):
    for i in range(x.shape[0] // 2):
        x[i] = x[i + x.shape[0] // 2] + 1


def test_several_iterations_of_one_array(check):
    check(shifted_in_place, lambda: (np.arange(100.0),))


def sums_of_the_same(out, a, b):
    for i in range(out.shape[0]):
        out[i] = a[i] + b[i]
        a[i] = out[i]


def test_several_iterations_of_arrays_passed_twice(check):
    def arguments():
        x = np.arange(100.0)
        return poisoned(100), x, x

    check(sums_of_the_same, arguments)


def neighbours(out, x, lo, hi):
    for i in range(lo, hi):
        out[i] = x[i - 1] + 10 * x[i + 1] + 100 * x[i - 2] + 1000 * x[-i - 1]


@pytest.mark.parametrize("lo", [-6, -2, -1, 0, 1, 2, 5])
def test_indices_around_a_variable_that_may_start_below_zero(check, lo):
    check(neighbours, lambda: (poisoned(14), np.arange(14.0), lo, 7))


def backwards(out, x, hi, lo, step):
    for i in range(hi, lo, step):
        out[i] = x[i + 1] - 10 * x[i - 1]


@pytest.mark.parametrize(("hi", "lo", "step"), [(6, -1, -1), (6, -5, -1), (6, 0, -1), (5, -7, -3), (-1, -6, -1), (-6, 6, 2)])
def test_indices_around_a_variable_that_counts_down_or_in_steps(check, hi, lo, step):
    check(backwards, lambda: (poisoned(14), np.arange(14.0), hi, lo, step))


def constant_starts(near, index64, below, table, n):
    for i in range(n):
        near[i] = table[i - 1] + 10 * table[i - 3]
    for i in range(1, n):
        index64[i - 2] = table[i - 2] - table[-i]
    for i in range(-3, 3):
        below[i] = table[i + 1] + 10 * table[i - 1]


def test_constant_starts_with_indices_that_count_from_the_end(check):
    check(constant_starts, lambda: (poisoned(9), poisoned(9), poisoned(9), np.arange(9.0), 9))


def moved(out, x, lo, hi):
    for i in range(lo, hi):
        out[i] = 0.0
        i = i - 4
        j = i - 1
        out[i + 4] += x[i] + 10 * x[j]


@pytest.mark.parametrize("lo", [-3, 0, 3])
def test_a_variable_moved_below_zero_counts_from_the_end(check, lo):
    check(moved, lambda: (poisoned(12), np.arange(12.0), lo, 6))


def at_the_limit(out, huge, start):
    for i in range(4611686018427387902, 4611686018427387907):
        out[i - 4611686018427387902] = i - (i + 4611686018427387900) // 2
    for i in range(0, 9223372036854775807, 1152921504606846976):
        huge[i >> 60] = i
    for i in range(start, start + 3):
        out[i - 4611686018427387894] = i


def test_variables_near_the_largest_integer(check):
    check(at_the_limit, lambda: (poisoned(12, dtype=np.int64), poisoned(8, dtype=np.int64), 2**62 - 2))


def across_zero(out, x, n):
    for i in range(-n, n):
        out[i] = x[i - 1] + 2 * x[i]


@pytest.mark.needs("speed")
def test_many_indices_from_below_to_above_zero(check):
    check(across_zero, lambda: (poisoned(80_000), np.arange(80_000.0), 30_000))


def between(x, lo, hi):
    for i in range(lo, hi):
        x[i] += 1


def between_in_turn(x, lo, hi):
    for t in qgraph.serial(range(lo, hi)):
        for i in range(x.shape[0]):
            x[i] += t


def between_on_two_axes(x, lo, hi):
    for i, j in qgraph.ndrange((lo, hi), 2):
        x[i] += j + 1


def around(x, lo, hi):
    for i in range(lo - 3, hi * 2 + 1):
        x[i] += 1


LIMIT = np.uint8(7)


def up_to_a_numpy_integer(x, lo, hi):
    for i in range(lo, LIMIT):
        x[i] += hi


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("kernel", [between, between_in_turn, between_on_two_axes, around, up_to_a_numpy_integer])
@pytest.mark.parametrize(
    "bounds",
    [
        *((np.uint8(7), np.uint8(3)), (np.int8(-100), np.int8(100)), (np.uint8(3), np.uint64(9)), (np.uint64(9), np.uint8(3))),
        *((np.uint8(2), 5), (4, np.uint8(2)), (np.uint16(1), np.int8(-1)), (np.uint8(120), np.uint8(130)), (2, 6)),
    ],
)
def test_bounds_that_are_numpy_integers(rig, kernel, bounds):
    """Their difference may wrap, and the range between them does not know."""
    wide = kernel is around and any(isinstance(each, np.uint64) for each in bounds)
    if wide:
        bounds = tuple(np.uint64(each) for each in bounds)
    plain, mine = np.zeros(300), np.zeros(300)
    kernel_ = rig.kernel(kernel)
    kernel_.reference(plain, *bounds)
    rig.run(kernel_, mine, *bounds)
    np.testing.assert_array_equal(mine, plain)

"""What random programs found: each as the smallest kernel that shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import qgraph


def element_of_an_array_that_moves(x, y, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[0] += y[i]
        x, y = y, x


def test_a_reduction_into_an_element_of_an_array_that_changes_places(check):
    check(element_of_an_array_that_moves, lambda: (np.arange(4), np.arange(4) * 10, 3))


def scalar_and_element(x, z, out):
    least = 5
    for i in range(x.shape[0]):
        least = min(least, x[i])
        z[0] += 2
    out[()] = least


def test_a_reduction_into_a_scalar_and_one_into_an_element_in_one_loop(check):
    check(scalar_and_element, lambda: (np.arange(4) - 2, np.arange(3), np.array(77)))


def count_with_continue(x, out):
    count = 0
    for i in range(x.shape[0]):
        if x[i] > 2:
            continue
        count += 1
    out[()] = count


def test_continue_in_a_loop_that_reduces_into_a_scalar(check):
    check(count_with_continue, lambda: (np.arange(9) % 5, np.array(77)))


def arrays_of_blocks_without_loops(x, n):
    if n > 0:
        t = qgraph.zeros(3, np.int64)
        t[1] = 2
        x[0] += t[1]
        v = x
        v[1] = 5
    for _ in qgraph.serial(range(n)):
        w = x
        w[2] += n
    k = 0
    while k < n:
        k += 1
        u = qgraph.full((), 3, np.int64)
        x[2] += u[()]
    x[-1] = k


@pytest.mark.parametrize("n", [0, 2])
def test_arrays_that_are_made_or_named_in_blocks_without_loops(check, n):
    check(arrays_of_blocks_without_loops, lambda: (np.arange(5) + 7, n))


values = np.arange(3)


@qgraph.func
def one_more(values):
    return values + 5


def calls_a_func_with_a_parameter_named_as_a_global_array(x):
    s = one_more(x[0])
    x[1] = s


def test_a_global_array_has_the_name_of_a_parameter(check):
    check(calls_a_func_with_a_parameter_named_as_a_global_array, lambda: (np.arange(5) + 7,))


@qgraph.func
def halved(v):
    v[1:] = v[1:] // 2
    return v[1]


def calls_a_func_with_slices(x):
    s = halved(x)
    x[0] = s
    if s > 2:
        x[2] = halved(v=x)


def test_the_value_of_a_func_that_assigns_slices(check):
    check(calls_a_func_with_slices, lambda: (np.arange(5) + 7,))


def another_name_between_swaps(u, v, n):
    for _ in qgraph.serial(range(n)):
        u[0] += 1
        u, v = v, u
    held = u
    for _ in qgraph.serial(range(n)):
        u[1] += 1
        u, v = v, u
    held[2] = -5
    u[3] = -6


@pytest.mark.parametrize("n", [1, 2, 3])
def test_another_name_of_an_array_stays_with_it_while_a_later_loop_swaps(check, n):
    check(another_name_between_swaps, lambda: (np.arange(5), np.arange(5) + 10, n))


@qgraph.func
def swaps_its_own(a, b, n):
    for _ in qgraph.serial(range(n)):
        a[1] += 1
        a, b = b, a
    a[2] = -7


def after_a_func_that_swaps(u, v, n):
    for _ in qgraph.serial(range(n)):
        u[0] += 1
        u, v = v, u
    swaps_its_own(u, v, n)
    u[3] = -8


@pytest.mark.parametrize("n", [1, 2, 3])
def test_arrays_of_the_caller_stay_where_they_are_while_a_func_swaps_its_own(check, n):
    check(after_a_func_that_swaps, lambda: (np.arange(5), np.arange(5) + 10, n))


def python_numbers_out_of_scratch(y, out):
    total = 3
    odd = True
    for n in qgraph.serial(range(2)):
        for i in range(y.shape[0]):
            y[i] = (y[i] + n + total) & 3
        total += n
        odd = not odd
        for i in range(out.shape[0]):
            out[i] = int(odd) + total


def test_python_numbers_out_of_scratch_meet_uint64(check):
    check(python_numbers_out_of_scratch, lambda: (np.uint64([1, 2, 2**63]), np.full(2, 77)))


def narrow_indices_of_parts(x, at):
    back, every = x[::-1], x[1::2]
    back[at[0]] = -1
    every[at[1]] = -2
    x[2:][at[2]] = -3
    for i in range(3):
        every[at[i]] += 10 * (i + 1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64])
def test_indices_of_parts_of_narrow_and_unsigned_types(check, dtype):
    check(narrow_indices_of_parts, lambda: (np.arange(400), np.array([120, 100, 127], dtype)))


def narrow_bounds_of_parts(x, at):
    w = x[at[0] :]
    w[at[1] :: 2] = -1
    x[: at[2]] += 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64])
def test_bounds_of_parts_of_narrow_and_unsigned_types(check, dtype):
    check(narrow_bounds_of_parts, lambda: (np.arange(400), np.array([120, 100, 127], dtype)))


@qgraph.func
def all_one_more(x):
    for i in range(x.shape[0]):
        x[i] += 1
    return x[0]


@qgraph.func
def first_one_more(x):
    x[0] += 1
    return x[0]


def bounds_that_write(x, out):
    s = 0
    for _ in range(all_one_more(x) + 4):
        s += 1
    for i, j in qgraph.ndrange(first_one_more(x) + 3, (x[0], first_one_more(x) + 2)):
        s += i * j
    for t in qgraph.serial(range(x[0], first_one_more(x) + 2)):
        s += t
    for t in qgraph.serial(range(all_one_more(x), np.sum(x) + first_one_more(x))):
        for i in range(2):
            s += t + i
    out[()] = s


def test_funcs_that_write_arrays_in_the_bounds_of_loops_run_once(check):
    check(bounds_that_write, lambda: (np.arange(7) - 3, np.array(77)))


def one_array_that_changes_places_with_itself(x, y):
    s = 0.0
    k = 0
    while k < 4:
        k += 1
        for i in range(x.shape[0]):
            x[i] = x[i] + y[i] * k
            s += y[i]
        if k % 2 == 1:
            x, y = y, x
            for i in range(x.shape[0]):
                y[i] = x[i] - 1
        x, y = y, x
    y[0] += s


def test_one_array_under_two_names_that_change_places(check):
    def arguments():
        x = np.linspace(-2, 3, 7)
        return x, x

    check(one_array_that_changes_places_with_itself, arguments)


def bound_of_one_statement(x):
    s = 0
    for t in qgraph.serial(range(x.shape[0])):
        i = t
        for j in qgraph.serial(range(i)):
            s += j
        x[t] = s


def test_a_name_of_a_serial_loop_bounds_one_inside(check):
    check(bound_of_one_statement, lambda: (np.arange(4),))


def counts_to_a_float(f, x):
    n = f[0]
    s = 0
    for t in qgraph.serial(range(n)):
        s += t
    x[0] = s


def test_a_range_of_a_float_is_refused_in_a_statement_of_one_thread(rig):
    with pytest.raises(qgraph.KernelTypeError, match=r"range\(\) takes integers, not float64"):
        rig.kernel(counts_to_a_float)(rig.device(np.array([3.7])), rig.device(np.arange(4)))


def read_again(x, y, n):
    x[y[0] % n] += 3
    x[-1] = x[0]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_an_element_of_a_strided_array_is_read_again_after_a_store(check, step):
    check(read_again, lambda: (np.zeros(20, np.int64)[::step], np.zeros(3, np.int64), 1))


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("step", [1, 2, -1])
def test_only_what_nothing_changes_is_read_as_constant(step):
    # NVVM believes that nothing changes an array if its address is marked noalias and the stores to it use another address.
    (text,) = qgraph.kernel(read_again).ptx(np.zeros(20, np.int64)[::step], np.zeros(3, np.int64), 1).values()
    assert text.count("ld.global.nc") == 1


def least_of_all(x, y):
    s = int(True)
    w = y[::-1]
    for i, j in qgraph.ndrange(2, x.shape[0]):
        y[j, s % 2] = min(y[j, s % 2], x[j] - i)
        w[j - 1, 2] = max(w[j - 1, 2], x[j] + i)


def test_a_minimum_into_a_place_that_a_function_of_numbers_names(check):
    """It was taken for a store of all iterations: `int(True)` and negative indices of reversed views are calls."""
    check(least_of_all, lambda: (np.arange(4), np.full((4, 3), 7)))


def from_both_ends(x):
    w = x[::-1]
    for i in range(x.shape[0]):
        w[-1 - i] += 3


def columns_of_a_reversed_view(x, n):
    w = x[::-1, :]
    for i, j in qgraph.ndrange((1, w.shape[1]), n):
        w[j, i] += 3


@pytest.mark.parametrize(
    ("function", "shape", "others"), [(from_both_ends, (4,), ()), (columns_of_a_reversed_view, (3, 3), (2,))]
)
def test_elements_of_a_reversed_view_are_owned(check, function, shape, others):
    """uint8 has no atomics, and none are needed: inside a view no index is negative."""
    kernel = check(function, lambda: (np.full(shape, 4, np.uint8), *others))
    (task,) = kernel.plan(np.zeros(shape, np.uint8), *others).tasks
    assert task.verdict.kind == "independent"


def down_a_part(x, y):
    w = x[1:]
    for i in range(w.shape[0] - 1, -1, -1):
        w[i] += 1
    for i in range(w.shape[0] - 1, 1, -2):
        y[i] = w[i - 2]


def test_a_loop_that_counts_down_owns_its_elements_of_a_part(rig):
    """uint8 has no atomics: it was refused, since an index might have been negative."""
    for n in (1, 2, 9):
        arrays = np.arange(n, dtype=np.uint8), np.full(n, 77, np.uint8)
        kernel = rig.kernel(down_a_part)
        verdicts = [task.verdict.kind for task in kernel.plan(*arrays).tasks if task.verdict is not None]
        assert verdicts == ["independent", "independent"]
        expected, actual = ([each.copy() for each in arrays] for _ in range(2))
        kernel.reference(*expected)
        rig.run(kernel, *actual)
        for one, other in zip(actual, expected, strict=True):
            assert one.tolist() == other.tolist()


def just_below(x):
    w = x[1:]
    for i in range(w.shape[0] - 1, -2, -1):
        w[i] += 1


def test_an_index_of_a_part_that_may_be_negative_counts_from_the_end(rig):
    with pytest.raises(qgraph.KernelTypeError, match="no atomic"):
        rig.kernel(just_below)(np.zeros(5, np.uint8))


def narrow_into_wide(x, z, s):
    for i in range(x.shape[0]):
        z[0] -= (x[i] + 0) % 4
    for i in range(x.shape[0]):
        z[1] += x[i]
    for i in range(x.shape[0]):
        z[2] = max(z[2], x[i])


def test_updates_of_an_int64_element_by_uint8_do_not_wrap(rig):
    """The simulator took the element for a Python number, which gives way to uint8."""
    for n in (0, 1, 40):
        arrays = np.full(n, 203, np.uint8), np.full(3, -9), np.zeros(1)
        expected, actual = ([each.copy() for each in arrays] for _ in range(2))
        kernel = rig.kernel(narrow_into_wide)
        kernel.reference(*expected)
        rig.run(kernel, *actual)
        assert actual[1].tolist() == expected[1].tolist() == [-9 - 3 * n, -9 + 203 * n, 203 if n else -9]


def with_a_number_in_an_array(x, z):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        if z[()] < 5.0:
            x[i, j, i] = 2 * j


def test_an_array_of_no_dimensions_in_a_loop_of_two_axes(check):
    check(with_a_number_in_an_array, lambda: (np.full((4, 5, 4), 77), np.array(1.0)))


def methods_of_arrays(x, y):
    for i in range(x.shape[0]):
        x[i] = y.sum() + y[: i + 1].prod() * y.argmax() + y[::-1].mean()


def test_methods_of_arrays_inside_a_loop(check):
    """Numba looked for the templates of `sum` in our word for it."""
    check(methods_of_arrays, lambda: (np.full(6, 77.0), np.arange(1.0, 9.0)))


def ellipses(x, y, u, v):
    for i in range(x.shape[0]):
        w = y[...]
        x[i] = w[i] + y[...][-1] + y[...].shape[0]
        u[..., i][1] = 3
        v[i][...] = 4


def test_an_ellipsis_alone_inside_a_loop(check):
    check(ellipses, lambda: (np.full(4, 77.0), np.arange(6.0), np.full((4, 4), 77), np.full((4, 3), 77)))


def arguments_by_name(x, y):
    for i in range(x.shape[0]):
        x[i] = round(y[i] / 7, ndigits=2) + pow(base=y[i], exp=2) + pow(2, exp=i) + complex(imag=y[i]).imag
    x[0] += round(number=y[1] / 3, ndigits=1)


def test_arguments_of_builtin_functions_by_name(check):
    """Numba asserted that there were none."""
    check(arguments_by_name, lambda: (np.full(6, 77.0), np.arange(6.0)))


def faults_and_a_result(x, k):
    s = 2
    for i in range(x.shape[0]):
        x[i] += s ** k[0]
    return x[0]


@pytest.mark.needs("host_arrays")
def test_a_call_that_comes_back_tells_its_faults_too(rig):
    """Repeated calls on the CPU go a way of their own."""
    kernel, x, k = rig.kernel(faults_and_a_result), np.array([1, 2]), np.array([2])
    assert [kernel(x, k) for _ in range(4)] == [5, 9, 13, 17]
    k[0] = -1
    for _ in range(3):
        with pytest.raises(qgraph.ArgumentError, match="negative power"):
            kernel(x, k)
    k[0] = 1
    assert [kernel(x, k) for _ in range(2)] == [19, 21]


def named_as_generated_code(_x, _n, _n0, arg_n, _t, _rows, _chunks):
    for _first in range(_x.shape[0]):
        _stop = _first * 2
        _x[_first] = _n0[_first] + _stop + _n + arg_n
    _slots = 0
    for i, j in qgraph.ndrange(*_t.shape):
        _row = _t[i, j] + 1
        _slots += _row
        _rows[i, j] = _row * _chunks
    _x[0] = _slots


def test_arguments_that_are_called_as_generated_code_calls_things(check):
    """Its names, which begin with an underscore, took the place of such arguments: on CUDA with wrong numbers."""

    def args():
        return np.zeros(700), 3, np.arange(700.0), 5, np.arange(70.0).reshape(7, 10), np.zeros((7, 10)), 2

    check(named_as_generated_code, args)


@dataclass
class Underscored:
    """Fields that begin with an underscore."""

    _a: np.ndarray
    _step: int


def fields_named_so(_s, out):
    for i in range(out.shape[0]):
        out[i] = _s._a[i] * _s._step


def test_fields_that_are_called_so(check):
    check(fields_named_so, lambda: (Underscored(np.arange(700), 3), np.zeros(700, np.int64)))


def extremes_of_negations(x, y, z, largest, smallest):
    for i in range(x.shape[0]):
        largest[i] = max(max(x[i], -y[i]), z[i])
        smallest[i] = min(min(x[i], -y[i]), -z[i])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float32"])
def test_extremes_of_negations(check, dtype):
    """ptxas forgot the sign of `-y[i]` where integers have 16 or 32 bits."""
    given = np.random.default_rng(5).integers(-100, 100, (3, 300)).astype(dtype)
    check(extremes_of_negations, lambda: (*given.copy(), np.zeros(300, dtype), np.zeros(300, dtype)))


def products_of_vectors(x, y):
    s = x @ y
    return s, x[1:] @ y[:-1]


def a_product_alone(x, y):
    return x @ y


@pytest.mark.parametrize("function", [products_of_vectors, a_product_alone])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_product_of_vectors_is_a_number(check, function, dtype):
    """A name for one, and one that is returned alone, were refused as new arrays."""
    check(function, lambda: (np.arange(4).astype(dtype), np.arange(4).astype(dtype) + 1))


def inverted(x):
    t = np.invert(x > 1)
    return t, np.bitwise_not(t) & (x < 3)


def test_inverted_booleans_of_whole_arrays(check):
    """`np.invert` of booleans was refused, where `~` was not."""
    check(inverted, lambda: (np.arange(4),))


def convolved(x, y):
    return np.convolve(x, y)


def test_functions_without_a_kernel_s_are_named(rig):
    """The message was one of a number that a name cannot hold."""
    with pytest.raises(qgraph.KernelSyntaxError, match="is a new array"):
        rig.kernel(convolved).plan(np.arange(4.0), np.arange(4.0))


def named_as_functions_are(len, max, slice):
    s = 0
    for i in range(1, len.shape[0] - max % 2, max - 1):
        len[i] += slice
    len[:max] = len[1 : max + 1] + slice
    made = np.zeros(max * 2)
    made[1:] = len[-max:][0]
    for t in qgraph.serial(range(max)):
        made[t:] += len[t]
        s += max
    return made, s


def test_parameters_that_have_the_names_of_builtin_functions(check):
    check(named_as_functions_are, lambda: (np.arange(8.0), 3, 2))


def sized_by_a_type(type, int):
    for i in range(type.shape[0] - int):
        type[i] += int


def test_parameters_that_have_the_names_of_types(check):
    check(sized_by_a_type, lambda: (np.arange(8.0), 3))

"""Bad kernels and bad calls: each raises the named class, changes nothing, and says all of what its golden file says.

A case is a function that returns a kernel function and the arguments of the call, or a callable that does the bad thing itself.
``pytest tests/diagnostics --update-goldens`` rewrites the golden files: read the difference before committing it.
"""

from __future__ import annotations

import copy
import ctypes
import enum
import functools
import inspect
import linecache
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import qgraph
from qgraph.compat.numba_cuda import cuda
from qgraph.errors import error_raised
from qgraph.nodes.child_graph import RecordedGraph
from tests.messages import fault_of, made_names

GOLDENS = Path(__file__).parent / "goldens"
SOURCE = Path(__file__).read_text()
POISON = 77

pytestmark = pytest.mark.needs("compiler")


@dataclass(frozen=True)
class Case:
    """``make()`` gives (function, arguments) or a callable; ``error`` is the class expected; ``caret``: source is shown."""

    make: Callable[[], Any]
    error: type[Exception]
    caret: bool


CASES: dict[str, Case] = {}


def bad(error: type[Exception], *, caret: bool = True) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a case under the function's name."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        assert make.__name__ not in CASES
        CASES[make.__name__] = Case(make, error, caret)
        return make

    return register


class Both(NamedTuple):
    first: Any
    second: Any


DICE = qgraph.random.Generator(1)
WEIGHTS = [0.25, 0.5, 0.25]
CONSTANTS = {"scale": 2.0}
MIXED = (1, 0.5)


def floats(n: int = 5) -> np.ndarray:
    return np.arange(float(n))


def ints(n: int = 5) -> np.ndarray:
    return np.arange(n)


def doubled(x):
    x *= 2


@qgraph.func
def reciprocal(v):
    if v == 0:
        raise ZeroDivisionError("no reciprocal")
    return 1 / v


@qgraph.func
def failing(v):
    if v > 2:
        raise ValueError("too much")
    raise NotImplementedError("no such case")


SYNTAX, TYPES, ARGUMENT = qgraph.KernelSyntaxError, qgraph.KernelTypeError, qgraph.ArgumentError
RACE, BACKEND, BASE = qgraph.DataRaceError, qgraph.BackendError, qgraph.QGraphError


# --- syntax that kernels do not have ------------------------------------------------------------------------------------


@bad(SYNTAX)
def syntax_try():
    def kernel(x):
        for i in range(x.shape[0]):
            try:
                x[i] = 1.0
            except ValueError:
                x[i] = 2.0

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_with():
    def kernel(x):
        with open("file") as f:
            x[0] = f

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_lambda():
    def kernel(x):
        for i in range(x.shape[0]):
            f = lambda v: v + 1  # noqa: E731
            x[i] = f(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_lambda_as_kernel():
    return lambda: qgraph.kernel(lambda x: None)(floats())


@bad(SYNTAX)
def syntax_yield():
    def kernel(x):
        for i in range(x.shape[0]):
            yield x[i]

    return kernel, (floats(),)


class NotBuiltIn(Exception):
    pass


@bad(SYNTAX)
def syntax_raise_of_the_users_own():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] < 0:
                raise NotBuiltIn("negative")

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_raise_again():
    def kernel(x):
        if x[0] < 0:
            raise

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_raise_from():
    def kernel(x):
        if x[0] < 0:
            raise ValueError("negative") from KeyError("no reason")

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_raise_of_what_is_computed():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] < 0:
                raise ValueError("negative", x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_raise_with_other_arguments():
    def kernel(x):
        if x[0] < 0:
            raise UnicodeDecodeError("utf-8")

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_assert_with_an_f_string():
    def kernel(x):
        for i in range(x.shape[0]):
            assert x[i] >= 0, f"{i} is negative"

    return kernel, (floats(),)


@bad(error_raised(ZeroDivisionError))
def raised_in_a_func():
    def kernel(x):
        for i, j in qgraph.ndrange(1, x.shape[0]):
            x[i + j] = reciprocal(x[j])

    return kernel, (floats(1),)


@bad(error_raised(OverflowError))
def raised_outside_loops():
    def kernel(x):
        n = 0
        while n < x.shape[0]:
            n += 1
        if n > 4:
            raise OverflowError

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_break():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > 2:
                break
            x[i] += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_return_inside_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > 2:
                return
            x[i] += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_async_def():
    async def kernel(x):
        x[0] = 1.0

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_generator_expression():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = sum(v for v in (1, 2))

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_global():
    def kernel(x):
        global TOTAL
        TOTAL = x[0]

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_nonlocal():
    total = 0

    def kernel(x):
        nonlocal total
        for i in range(x.shape[0]):
            total += i

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_nested_def():
    def kernel(x):
        def inner(v):
            return v + 1

        for i in range(x.shape[0]):
            x[i] = inner(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_class():
    def kernel(x):
        class Inner:
            pass

        x[0] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_del():
    def kernel(x):
        for i in range(x.shape[0]):
            t = x[i]
            del t

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_import():
    def kernel(x):
        import math

        for i in range(x.shape[0]):
            x[i] = math.sin(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_list():
    def kernel(x):
        for i in range(x.shape[0]):
            v = [1.0, 2.0]
            x[i] = v[0]

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_f_string():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = len(f"{i}")

    return kernel, (floats(),)


@bad(RACE)
def syntax_for_over_an_array():
    def kernel(x):
        for v in x:
            x[0] = v

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_for_over_enumerate():
    def kernel(x):
        for i, v in enumerate(x, x.shape[0]):
            x[i - x.shape[0]] = v

    return kernel, (floats(),)


@bad(ARGUMENT)
def slice_of_another_length():
    def kernel(x, y):
        y[1:] = 2 * x[:]

    return kernel, (floats(), floats())


@bad(ARGUMENT)
def slice_of_another_shape():
    def kernel(u, v):
        u[:, 1:] += v.T

    return kernel, (np.ones((3, 5)), np.ones((4, 2)))


@bad(SYNTAX)
def slice_of_more_dimensions():
    def kernel(x, u):
        x[:] = u

    return kernel, (floats(), np.ones((3, 5)))


@bad(ARGUMENT)
def slice_with_a_length_of_the_device():
    def kernel(x, y, n):
        k = n[0]
        x[k:] = y[:k]

    return kernel, (floats(), floats(), ints(1))


@bad(SYNTAX)
def slice_index_is_no_integer():
    def kernel(u):
        u[1.5] = 0

    return kernel, (np.zeros((3, 4)),)


@bad(TYPES)
def an_index_array_of_floats():
    def kernel(x, k):
        x[k * 2.0] = 0

    return kernel, (floats(), ints())


@bad(SYNTAX)
def an_index_array_of_an_unknown_type():
    def kernel(x, k, n):
        s = 0
        for i in range(x.shape[0]):
            s += n[i]
        return x[k + s]

    return kernel, (floats(), ints().astype(np.int32), ints())


@bad(SYNTAX)
def a_mask_of_more_dimensions_than_the_array():
    def kernel(x, u):
        x[u > 0] = 0

    return kernel, (floats(), np.zeros((3, 4)))


@bad(SYNTAX)
def selections_that_are_assigned_together():
    def kernel(x, y):
        x[x > 0] = y[y > 0] = 1

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_mask_that_is_a_part_of_what_is_stored():
    def kernel(m):
        m[m[::-1]] = False

    return kernel, (np.zeros(3, bool),)


@bad(SYNTAX)
def an_update_at_indices_that_kernels_lack():
    def kernel(x, k):
        np.multiply.at(x, k, 2.0)

    return kernel, (floats(), ints())


@bad(SYNTAX)
def a_selection_by_conditions_that_are_numbers():
    def kernel(x, k):
        return np.select([k, x > 0], [x, -x])

    return kernel, (floats(), ints())


@bad(SYNTAX)
def counts_of_numbers_without_a_length():
    def kernel(k):
        return np.bincount(k)

    return kernel, (ints(),)


@bad(SYNTAX)
def a_histogram_of_float32():
    def kernel(x):
        counts, edges = np.histogram(x, 3)
        return counts

    return kernel, (np.ones(4, np.float32),)


@bad(SYNTAX)
def a_histogram_that_is_a_density():
    def kernel(x):
        return np.histogram(x, 3, density=True)[0]

    return kernel, (floats(),)


@bad(qgraph.ArgumentError)
def edges_that_do_not_increase():
    def kernel(x, edges):
        return np.digitize(x, edges)

    return kernel, (floats(), -floats())


@bad(qgraph.ArgumentError)
def an_extreme_of_nothing_that_is_selected():
    def kernel(x):
        return x[x > 10].max()

    return kernel, (floats(),)


@bad(SYNTAX)
def a_selection_that_is_returned():
    def kernel(x):
        return x[x > 0]

    return kernel, (floats(),)


@bad(qgraph.ArgumentError)
def a_mask_of_another_shape():
    def kernel(x, m):
        x[m] = 0

    return kernel, (np.ones(3), np.ones(4, bool))


@bad(SYNTAX)
def slice_makes_a_new_array():
    def kernel(x):
        y = np.rot90(x[1:] + x[:-1], 1)
        x[1:] = y

    return kernel, (floats(),)


@bad(SYNTAX)
def new_array_of_a_size_of_the_device():
    def kernel(x, k):
        t = np.roll(x[: k[0]], 1)
        x[0] = t[0]

    return kernel, (floats(), np.zeros(1, np.int64))


@bad(SYNTAX)
def new_array_of_an_unknown_type():
    def kernel(x):
        s = 0
        for i in range(x.shape[0]):
            s += x[i]
        return x.astype(np.float32) * s

    return kernel, (ints(),)


@bad(SYNTAX)
def slices_together_of_a_matrix():
    def kernel(x, y, u):
        x[:], y[:] = u

    return kernel, (floats(), floats(), np.zeros((2, 5)))


@bad(SYNTAX)
def view_of_one_array_or_another():
    def kernel(x, y, n):
        w = x[1:] if n > 2 else y
        w[0] = 1

    return kernel, (floats(), floats(), 3)


@bad(SYNTAX)
def view_after_a_loop_that_binds_it_again():
    def kernel(x, n):
        w = x[1:]
        for k in qgraph.serial(range(n)):
            w = x[k:]
            w[0] = k
        w[0] = 1

    return kernel, (floats(), 3)


@bad(SYNTAX)
def view_of_an_array_that_changed_places():
    def kernel(x, y, n):
        while True:
            w = x[1:]
            x, y = y, x
            n[0] -= 1
            if n[0] < 0:
                break
        w[0] = 1

    return kernel, (floats(), floats(), ints(1))


@bad(RACE)
def view_read_a_step_behind():
    def kernel(x):
        w = x[1:]
        for i in range(w.shape[0]):
            w[i] = 2 * x[i]

    return kernel, (floats(),)


@bad(SYNTAX)
def view_returned():
    def kernel(x):
        return x[1:]

    return kernel, (floats(),)


@bad(SYNTAX)
def rounding_to_an_array():
    def kernel(x, y):
        y[:] = np.round(x, y)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def rounding_into_an_array():
    def kernel(x, y):
        y[:] = np.round(x, 1, x)

    return kernel, (floats(), floats())


@bad(TYPES)
def rounding_to_a_float():
    def kernel(x):
        x[:] = np.round(x, 1.0)

    return kernel, (floats(),)


@bad(TYPES)
def rounding_a_number_to_a_float():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = round(x[i], y[0])

    return kernel, (floats(), floats())


@bad(SYNTAX)
def slice_with_and():
    def kernel(x):
        x[:] = x > 1 and x < 3

    return kernel, (floats(),)


@bad(SYNTAX)
def slice_reduced_along_an_axis():
    def kernel(u, x):
        x[0] = np.sum(u, axis=0)

    return kernel, (np.ones((3, 5)), floats())


@bad(SYNTAX)
def a_reduction_along_an_axis_that_is_not_there():
    def kernel(u, x):
        x[:] = np.sum(u, axis=2)

    return kernel, (np.ones((3, 5)), floats())


@bad(SYNTAX)
def a_reduction_along_an_axis_of_the_call():
    def kernel(u, x, k):
        x[:] = u.max(axis=k)

    return kernel, (np.ones((3, 5)), floats(), 1)


@bad(SYNTAX)
def a_reduction_with_an_option_of_numpy():
    def kernel(u, x):
        x[:] = np.sum(u, axis=0, where=u > 0)

    return kernel, (np.ones((3, 5)), floats())


@bad(SYNTAX)
def a_deviation_with_an_option_of_numpy():
    def kernel(u, x):
        x[:] = u.std(axis=0, dtype=np.float32)

    return kernel, (np.ones((3, 5)), floats())


@bad(SYNTAX)
def a_median_along_an_axis():
    def kernel(u, x):
        x[:] = np.median(u, axis=0)

    return kernel, (np.ones((3, 5)), floats())


@bad(SYNTAX)
def a_range_of_booleans():
    def kernel(u, x):
        x[:] = np.ptp(u, axis=0)

    return kernel, (np.ones((3, 5), bool), floats())


@bad(SYNTAX)
def a_reduction_along_an_axis_in_an_iteration():
    def kernel(u, x):
        for i in range(u.shape[0]):
            x[i, :] = np.sum(u[i], axis=0)

    return kernel, (np.ones((3, 5, 2)), np.ones((3, 2)))


@bad(SYNTAX)
def an_array_in_loops_that_might_be_serial():
    def kernel(u, x):
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                row = u[i] @ x[j]
                x[i] += row * 2

    return kernel, (np.ones((3, 5, 2)), np.ones((5, 2, 2)))


@bad(SYNTAX)
def a_function_of_numbers_of_an_array():
    def kernel(x, y):
        y[:] = round(x * 2)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_pair_of_arrays():
    def kernel(x, y):
        whole, rest = np.divmod(x, y)
        y[:] = whole + rest

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_ufunc_that_stores():
    def kernel(x, k):
        np.multiply(x, 0.5, out=k)

    return kernel, (floats(), ints())


@bad(SYNTAX)
def an_assigned_shape():
    def kernel(x):
        t = x + 1
        t.shape = (2, 4)

    return kernel, (floats(),)


@bad(SYNTAX)
def an_array_that_shrinks():
    def kernel(x):
        left = x + 1
        for _ in qgraph.serial(range(3)):
            left = left[left > 2]
        return np.sum(left)

    return kernel, (floats(),)


@bad(SYNTAX)
def a_covariance():
    def kernel(u):
        return np.cov(u)

    return kernel, (np.ones((3, 5)),)


@bad(TYPES)
def slice_updated_by_a_wider_type():
    def kernel(n, x):
        n[1:] += 0.5

    return kernel, (ints(), floats())


@bad(ARGUMENT)
def slice_step_of_zero():
    def kernel(x, k):
        x[::k] = 0

    return kernel, (floats(), 0)


@bad(ARGUMENT)
def slice_extreme_of_nothing():
    def kernel(x):
        x[0] = np.max(x[9:])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_statement_without_effect():
    def kernel(x):
        x[0] + 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_unpacking_a_wrong_number_of_axes():
    def kernel(x):
        for i, j in qgraph.ndrange(x.shape[0], 2, 3):
            x[i] = j

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_range_without_arguments():
    def kernel(x):
        for i in range():
            x[i] = 1

    return kernel, (floats(),)


@bad(ARGUMENT)
def call_range_with_float_bounds():
    def kernel(x, a):
        for i in range(1, a / 2):
            x[i] = 1.0

    return kernel, (floats(), 5)


@bad(ARGUMENT)
def call_range_with_a_float():
    def kernel(x):
        for i in range(2.5):
            x[i] = 1

    return kernel, (floats(),)


@bad(TYPES)
def types_a_bound_from_a_float_array():
    def kernel(x, n):
        for i in range(2, n[0]):
            x[i] = 1

    return kernel, (floats(), floats())


@bad(SYNTAX)
def syntax_ndrange_with_three_numbers():
    def kernel(x):
        for i in qgraph.ndrange((0, 5, 2)):
            x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_serial_without_a_range():
    def kernel(x):
        for i in qgraph.serial(5):
            x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_serial_over_a_tuple():
    def kernel(x):
        for colour in qgraph.serial((0, 1)):
            for i in range(colour, x.shape[0], 2):
                x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_for_over_prange():
    def kernel(x):
        for i in numba.prange(1, x.shape[0]):
            x[i] += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def names_an_attribute_that_is_misspelt():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.maximium(x[i], 1)

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_for_over_a_tuple():
    def kernel(x):
        for weight in WEIGHTS:
            for i in range(x.shape[0]):
                x[i] += weight

    return kernel, (floats(),)


@bad(SYNTAX)
def a_loop_over_a_tuple_with_a_name():
    def kernel(x):
        offsets = (0, 1)
        for i in range(x.shape[0]):
            for k in offsets:
                x[i] += k

    return kernel, (floats(),)


@bad(SYNTAX)
def a_list_in_a_global():
    def kernel(x):
        for i in range(x.shape[0]):
            for k in range(3):
                x[i] += WEIGHTS[k]

    return kernel, (floats(),)


@bad(SYNTAX)
def a_dict_in_a_global():
    def kernel(x):
        scale = CONSTANTS["scale"]
        for i in range(x.shape[0]):
            x[i] *= scale

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_serial_over_two_axes_with_one_variable():
    def kernel(x):
        for i in qgraph.serial(qgraph.ndrange(2, 3)):
            for k in range(x.shape[0]):
                x[k] += i

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_cuda_object_as_a_value():
    def kernel(x):
        for i in range(x.shape[0]):
            place = cuda.threadIdx
            x[i] = place.x

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_cuda_atomic():
    def kernel(x):
        for i in range(x.shape[0]):
            cuda.atomic.add(x, 0, 1.0)

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_cuda_intrinsic():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = cuda.threadIdx.x

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_cuda_syncthreads():
    def kernel(x):
        for i in range(x.shape[0]):
            cuda.syncthreads()
            x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_starred_parameter():
    def kernel(*arrays):
        for i in range(3):
            arrays[0][i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_parameters_by_any_name():
    def kernel(**arrays):
        for i in range(3):
            arrays[0][i] = 1

    return kernel, (floats(),)


@bad(SYNTAX, caret=False)
def syntax_no_source():
    space: dict[str, Any] = {}
    exec("def kernel(x):\n    for i in range(3):\n        x[i] = 1\n", space)
    return space["kernel"], (floats(),)


@bad(SYNTAX, caret=False)
def syntax_a_builtin_as_kernel():
    return lambda: qgraph.kernel(len)


# --- names --------------------------------------------------------------------------------------------------------------


@bad(SYNTAX)
def names_a_name_that_does_not_exist():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = no_such_name  # noqa: F821

    return kernel, (floats(),)


@bad(SYNTAX)
def names_an_attribute_that_does_not_exist():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.no_such_function(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def names_a_field_that_does_not_exist():
    @dataclass
    class State:
        x: Any

    def kernel(state):
        for i in range(state.x.shape[0]):
            state.y[i] = 1

    return kernel, (State(floats()),)


@bad(SYNTAX)
def names_read_before_it_is_surely_assigned():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > 2:
                t = 1.0
            x[i] = t

    return kernel, (floats(),)


@bad(SYNTAX)
def names_carried_from_one_iteration_to_the_next():
    def kernel(x):
        for i in range(x.shape[0]):
            if i > 0:
                x[i] = last  # noqa: F821
            last = x[i]  # noqa: F841

    return kernel, (floats(),)


@bad(SYNTAX)
def names_assigned_in_an_inner_loop_that_may_be_empty():
    def kernel(x, n):
        for i in range(x.shape[0]):
            for j in range(n):
                t = j
            x[i] = t

    return kernel, (floats(), 3)


@bad(SYNTAX)
def names_private_name_read_after_the_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            t = x[i] * 2
            x[i] = t
        x[0] = t

    return kernel, (floats(),)


@bad(SYNTAX)
def names_loop_variable_read_after_the_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1
        x[0] = i

    return kernel, (floats(),)


@bad(SYNTAX)
def names_loop_variable_read_in_the_next_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1
        for j in range(x.shape[0]):
            x[j] = i

    return kernel, (floats(),)


@bad(SYNTAX)
def names_recursion():
    @qgraph.func
    def descend(x, n):
        return descend(x, n - 1) + 1

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = descend(x, i)

    return kernel, (floats(),)


@bad(SYNTAX)
def names_recursion_at_kernel_level():
    @qgraph.func
    def again(x):
        for i in range(x.shape[0]):
            x[i] += 1
        again(x)

    def kernel(x):
        again(x)

    return kernel, (floats(),)


@qgraph.func
def needs_two(x, factor):
    for i in range(x.shape[0]):
        x[i] *= factor


@bad(SYNTAX)
def names_a_func_called_with_too_few_arguments():
    def kernel(x):
        needs_two(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def names_a_plain_function_inside_a_loop():
    def helper(v):
        return v + 1

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = helper(x[i])

    return kernel, (floats(),)


# --- do-while -----------------------------------------------------------------------------------------------------------


@bad(SYNTAX)
def do_while_keyword_condition():
    def kernel(x, c):
        while qgraph.graph_do_while(condition=c):
            x[0] += 1
            c[0] -= 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_inside_a_parallel_loop():
    def kernel(x, c):
        for i in range(x.shape[0]):
            while qgraph.graph_do_while(c):
                x[i] += 1
                c[0] -= 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_as_an_if():
    def kernel(x, c):
        if qgraph.graph_do_while(c):
            x[0] += 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_as_a_statement():
    def kernel(x, c):
        qgraph.graph_do_while(c)
        x[0] += 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_negated():
    def kernel(x, c):
        while not qgraph.graph_do_while(c):
            x[0] += 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_with_and():
    def kernel(x, c):
        while qgraph.graph_do_while(c) and x[0] < 5:
            x[0] += 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_of_an_element():
    def kernel(x, c):
        while qgraph.graph_do_while(c[0]):
            x[0] += 1
            c[0] -= 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_of_a_comparison():
    def kernel(x, c):
        while qgraph.graph_do_while(c > 0):
            x[0] += 1

    return kernel, (floats(), ints(1))


@bad(SYNTAX)
def do_while_without_a_flag():
    def kernel(x):
        while qgraph.graph_do_while():
            x[0] += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def do_while_of_a_scalar():
    def kernel(x, c):
        while qgraph.graph_do_while(c):
            x[0] += 1

    return kernel, (floats(), 3)


@bad(SYNTAX)
def do_while_limit_on_the_device():
    def kernel(x, c):
        while qgraph.graph_do_while(c, max_iter=x[0]):
            c[0] -= 1

    return kernel, (ints(), ints(1))


@bad(TYPES)
def do_while_of_floats():
    def kernel(x, c):
        while qgraph.graph_do_while(c):
            x[0] += 1
            c[0] -= 1

    return kernel, (floats(), floats(1))


@bad(ARGUMENT)
def do_while_of_two_elements():
    def kernel(x, c):
        while qgraph.graph_do_while(c):
            x[0] += 1
            c[0] -= 1

    return kernel, (floats(), ints(2))


@bad(ARGUMENT)
def do_while_of_no_elements():
    def kernel(x, c):
        while qgraph.graph_do_while(c):
            x[0] += 1

    return kernel, (floats(), ints(0))


@bad(ARGUMENT)
def do_while_limit_of_zero():
    def kernel(x, c, most):
        while qgraph.graph_do_while(c, max_iter=most):
            x[0] += 1
            c[0] -= 1

    return kernel, (floats(), ints(1), 0)


@bad(SYNTAX, caret=False)
def do_while_outside_a_kernel():
    return lambda: qgraph.graph_do_while(ints(1))


# --- calls --------------------------------------------------------------------------------------------------------------


def fill(x, value=1.0):
    for i in range(x.shape[0]):
        x[i] = value


def add(x, y):
    for i in range(x.shape[0]):
        x[i] += y[i]


def stepped(x, step):
    for i in range(0, x.shape[0], step):
        x[i] = 1


@bad(ARGUMENT, caret=False)
def call_too_few_arguments():
    return add, (floats(),)


@bad(ARGUMENT, caret=False)
def call_too_many_arguments():
    return add, (floats(), floats(), floats())


@bad(ARGUMENT, caret=False)
def call_unknown_keyword():
    x = floats()
    return lambda: qgraph.kernel(fill, backend="cpu")(x, colour=3)


@bad(ARGUMENT, caret=False)
def call_array_of_objects():
    return add, (floats(), np.array([None] * 5))


@bad(ARGUMENT, caret=False)
def call_array_of_strings():
    return add, (floats(), np.array(["a"] * 5))


@bad(ARGUMENT, caret=False)
def call_array_of_records():
    return add, (floats(), np.zeros(5, [("a", float), ("b", int)]))


@bad(ARGUMENT, caret=False)
def call_array_of_dates():
    return add, (floats(), np.zeros(5, "datetime64[s]"))


@bad(ARGUMENT, caret=False)
def call_array_of_the_other_byte_order():
    return add, (floats(), np.zeros(5, np.dtype(float).newbyteorder()))


@bad(ARGUMENT, caret=False)
def call_an_array_that_is_not_aligned():
    return add, (floats(), np.zeros(41, np.uint8)[1:].view(float))


@bad(ARGUMENT, caret=False)
def call_a_masked_array():
    return add, (floats(), np.ma.masked_array(floats(), floats() > 2))


@bad(ARGUMENT, caret=False)
def call_a_matrix():
    return add, (floats(), floats().reshape(1, 5).view(np.matrix))


@bad(ARGUMENT, caret=False)
def call_float16_on_cpu():
    return add, (np.zeros(5, np.float16), np.zeros(5, np.float16))


@bad(ARGUMENT, caret=False)
def call_longdouble():
    return add, (floats(), np.zeros(5, np.longdouble))


@bad(ARGUMENT, caret=False)
def call_a_list():
    return add, (floats(), [1.0, 2.0, 3.0, 4.0, 5.0])


@bad(ARGUMENT, caret=False)
def call_a_dict():
    return add, (floats(), {"y": floats()})


@bad(ARGUMENT, caret=False)
def call_an_unknown_object():
    return add, (floats(), object())


@bad(ARGUMENT, caret=False)
def call_an_object_inside_a_dataclass():
    @dataclass
    class State:
        x: Any
        y: Any

    def kernel(state):
        for i in range(state.x.shape[0]):
            state.x[i] = 1

    return kernel, (State(floats(), (1, object())),)


@bad(ARGUMENT, caret=False)
def call_an_integer_beyond_64_bits():
    return fill, (floats(), 1 << 70)


class OnDevice:
    """What a library's GPU array looks like."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {
            "shape": (5,),
            "typestr": "<f8",
            "data": (0x7F00_0000_0000, False),
            "strides": None,
            "version": 3,
        }


@bad(ARGUMENT, caret=False)
def call_a_device_array_on_cpu():
    return add, (floats(), OnDevice())


@bad(ARGUMENT, caret=False)
def call_host_and_device_arrays_mixed():
    x = floats()
    return lambda: qgraph.kernel(add)(x, OnDevice())


class Tensor:
    """A bfloat16 tensor as PyTorch shows it: its DLPack capsule has a type that NumPy does not know."""

    __module__ = "torch"
    shape = (5,)
    ndim = 1
    requires_grad = False
    is_quantized = False

    class dtype:
        def __str__(self) -> str:
            return "torch.bfloat16"

    dtype = dtype()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("bfloat16 has no NumPy type")


@bad(ARGUMENT, caret=False)
def call_a_bfloat16_tensor():
    return add, (floats(), Tensor())


@bad(ARGUMENT)
def call_a_read_only_array_that_is_written():
    x = floats()
    x.flags.writeable = False
    return add, (x, floats())


@bad(ARGUMENT)
def call_a_zero_step():
    return stepped, (floats(), 0)


@bad(ARGUMENT)
def call_a_constant_zero_step():
    def kernel(x):
        for i in range(0, 5, 0):
            x[i] = 1

    return kernel, (floats(),)


@bad(ARGUMENT)
def call_a_zero_step_inside_a_loop():
    def kernel(x, n):
        for i in range(x.shape[0]):
            for k in range(0, n, 0):
                x[i] += k

    return kernel, (floats(), 3)


@bad(ARGUMENT, caret=False)
def call_513_leaves():
    def kernel(leaves):
        leaves[0][0] = 1

    return kernel, (tuple(floats(1) for _ in range(513)),)


@bad(ARGUMENT)
def call_arrays_that_overlap_in_part():
    whole = floats(6)
    return add, (whole[1:], whole[:-1])


@bad(ARGUMENT)
def call_an_array_that_is_annotated_otherwise():
    def kernel(x: qgraph.Array[np.float32, 2], y: qgraph.Array[np.float32] | None = None):
        x[:] = 0

    return kernel, (np.ones((2, 2)),)


@bad(ARGUMENT)
def call_an_array_of_fewer_dimensions_than_annotated():
    def kernel(x: qgraph.Array[np.float64, 2]):
        x[:] = 0

    return kernel, (floats(),)


@bad(ARGUMENT)
def call_a_written_array_that_overlaps_itself():
    return fill, (np.lib.stride_tricks.as_strided(floats(), (5,), (0,)),)


# --- races --------------------------------------------------------------------------------------------------------------


@bad(RACE)
def race_time_loop():
    def kernel(x, y, steps):
        for t in range(steps):
            for i in range(1, x.shape[0] - 1):
                y[i] = x[i - 1] + x[i + 1]
            for i in range(x.shape[0]):
                x[i] = y[i]

    return kernel, (floats(), floats(), 3)


@bad(RACE)
def race_recurrence():
    def kernel(x):
        for i in range(1, x.shape[0]):
            x[i] = x[i - 1] + 1.0

    return kernel, (floats(),)


@bad(RACE)
def race_in_place_stencil():
    def kernel(u):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    return kernel, (np.zeros((4, 4)),)


@bad(RACE)
def race_one_place_for_all():
    def kernel(x, last):
        for i in range(x.shape[0]):
            last[0] = x[i]

    return kernel, (floats(), floats(1))


@bad(RACE)
def race_two_writes():
    def kernel(x):
        for i in range(x.shape[0] - 1):
            x[i] = 1.0
            x[i + 1] = 2.0

    return kernel, (floats(),)


@bad(RACE)
def race_reading_what_others_add():
    def kernel(x, total):
        for i in range(x.shape[0]):
            total[0] += x[i]
            x[i] = total[0]

    return kernel, (floats(), floats(1))


@bad(RACE)
def race_product_into_one_element_that_is_read():
    def kernel(x, product):
        for i in range(x.shape[0]):
            product[0] *= x[i]
            x[i] = product[0]

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_scalar_is_read():
    def kernel(x):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
            x[i] = total

    return kernel, (floats(),)


@bad(RACE)
def reduction_scalar_is_a_copy():
    def kernel(x, out):
        last = 0.0
        for i in range(x.shape[0]):
            last = x[i]
        out[0] = last

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_in_two_ways():
    def kernel(x, out):
        s = 1.0
        for i in range(x.shape[0]):
            s += x[i]
            s *= 2.0
        out[0] = s

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_with_an_else():
    def kernel(x, out):
        best = 9.0
        worse = 0
        for i in range(x.shape[0]):
            if x[i] < best:
                best = x[i]
            else:
                worse += 1
        out[0] = best + worse

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_of_another_value_than_compared():
    def kernel(x, out):
        best = 9.0
        for i in range(x.shape[0]):
            if x[i] < best:
                best = 2.0 * x[i]
        out[0] = best

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_as_a_conditional_expression():
    def kernel(x, out):
        best = 9.0
        for i in range(x.shape[0]):
            best = x[i] if x[i] < best else 2.0 * best
        out[0] = best

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_by_division():
    def kernel(x, out):
        s = 1.0
        for i in range(x.shape[0]):
            s /= x[i]
        out[0] = s

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_two_constants():
    def kernel(x, out):
        kind = 0
        for i in range(x.shape[0]):
            if x[i] > 1.0:
                kind = 1
            if x[i] > 2.0:
                kind = 2
        out[0] = kind

    return kernel, (floats(), floats(1))


@bad(RACE)
def reduction_with_a_companion_of_its_own():
    def kernel(x, out):
        best = 9.0
        where = 0
        for i in range(x.shape[0]):
            if x[i] < best:
                best, where = x[i], i
            where += 1
        out[0] = best + where

    return kernel, (floats(), floats(1))


@bad(TYPES)
def reduction_and_of_numbers():
    def kernel(x, out):
        s = 1
        for i in range(x.shape[0]):
            s = s and i
        out[0] = s

    return kernel, (floats(), floats(1))


@bad(RACE)
def race_same_array_twice():
    def kernel(a, b):
        for i in range(1, a.shape[0]):
            a[i] = b[i - 1]

    x = floats()
    return kernel, (x, x)


@bad(RACE)
def race_inside_a_func():
    def kernel(x):
        shift(x, 2.0)

    return kernel, (floats(),)


@bad(RACE)
def race_inside_a_func_with_the_kernels_names():
    @qgraph.func
    def along(x, n):
        for i in range(n - 1):
            x[i + 1] = x[i]

    def kernel(x, y, n):
        along(y, n)

    return kernel, (floats(), floats(), 5)


@bad(RACE)
def race_inside_a_device_func():
    @qgraph.func
    def push(y, i):
        y[i + 1] = y[i]

    def kernel(x, y):
        for i in range(x.shape[0] - 1):
            push(x, i)
            y[i] = 0.0

    return kernel, (floats(), floats())


@qgraph.func
def shift(values, factor):
    for k in range(values.shape[0] - 1):
        values[k] = values[k + 1] * factor


# --- types --------------------------------------------------------------------------------------------------------------


@bad(TYPES)
def type_colliding_add_on_int8():
    def kernel(keys, bins):
        for i in range(keys.shape[0]):
            bins[keys[i]] += 1

    return kernel, (ints(), np.zeros(5, np.int8))


@bad(TYPES)
def type_colliding_minimum_on_complex():
    def kernel(keys, bins):
        for i in range(keys.shape[0]):
            bins[keys[i]] = min(bins[keys[i]], 1)

    return kernel, (ints(), np.zeros(5, np.complex64))


@bad(TYPES)
def type_colliding_or_on_floats():
    def kernel(keys, bins):
        for i in range(keys.shape[0]):
            bins[keys[i]] |= 1

    return kernel, (ints(), floats())


@bad(TYPES)
def type_atomic_word_on_int16():
    def kernel(keys, bins):
        for i in range(keys.shape[0]):
            qgraph.atomic_add(bins, keys[i], 1)

    return kernel, (ints(), np.zeros(5, np.int16))


@bad(TYPES)
def type_atomic_or_on_floats():
    def kernel(keys, bins):
        for i in range(keys.shape[0]):
            qgraph.atomic_or_(bins, keys[i], 1)

    return kernel, (ints(), floats())


@bad(TYPES)
def type_atomic_cas_on_floats():
    def kernel(x):
        for i in range(x.shape[0]):
            qgraph.atomic_cas(x, 0, 1.0, 2.0)

    return kernel, (floats(),)


@bad(TYPES)
def type_a_string_in_a_float_array():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = "text"

    return kernel, (floats(),)


@bad(TYPES)
def type_an_unknown_method_of_a_vector():
    def kernel(x):
        for i in range(x.shape[0]):
            v = qgraph.vec(x[i], 1.0)
            x[i] = v.outer(v).norm()

    return kernel, (floats(),)


@bad(TYPES)
def type_an_unknown_attribute_of_a_matrix():
    def kernel(x):
        for i in range(x.shape[0]):
            m = qgraph.mat((x[i], 0.0, 0.0), (0.0, x[i], 1.0))
            x[i] = m.trace

    return kernel, (floats(),)


@bad(TYPES)
def type_an_unknown_method():
    def kernel(x):
        for i in range(x.shape[0]):
            t = x[i] * 2
            x[i] = t.no_such_method()

    return kernel, (floats(),)


@bad(TYPES)
def type_a_numpy_function_numba_lacks():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.i0(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_prange_of_qgraph():
    def kernel(x):
        for i in qgraph.prange(x.shape[0]):
            x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_an_array_of_loop_variables_without_a_name():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.sum(np.array([i, i + 1]))

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_a_power_of_a_vector():
    def kernel(x):
        for i in range(x.shape[0]):
            v = qgraph.vec(x[i], 1.0)
            x[i] = (v**2)[0]

    return kernel, (floats(),)


@bad(TYPES)
def types_of_a_vector_that_a_ufunc_takes():
    def kernel(x):
        for i in range(x.shape[0]):
            v = qgraph.vec(x[i], 1.0)
            x[i] = np.sqrt(v)[0]

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_an_array_that_was_another_one():
    def kernel(x, n):
        v = x.copy()
        for _ in qgraph.serial(range(n)):
            old = v
            v = x / 2
            x[:] = old + v

    return kernel, (floats(), 3)


@bad(SYNTAX)
def syntax_arrays_of_which_one_is_new():
    def kernel(x, n):
        v, old = x.copy(), x.copy()
        for _ in qgraph.serial(range(n)):
            x[:] = old + v
            old = v
            v = x / 2

    return kernel, (floats(), 3)


@bad(TYPES)
def types_that_are_compared():
    def kernel(x):
        if x.dtype == np.float64:
            x[0] = 1

    return kernel, (floats(),)


@bad(TYPES)
def type_of_an_array_without_an_attribute():
    def kernel(x):
        x[0] = x.dtype.subdtype

    return kernel, (floats(),)


@bad(TYPES)
def type_bits_of_a_float():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] << 2

    return kernel, (floats(),)


@bad(TYPES)
def type_invert_of_a_float():
    def kernel(x, f):
        x[0] = ~f

    return kernel, (floats(), 2.5)


@bad(TYPES)
def type_shift_of_a_complex_number():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] <<= 1

    return kernel, (floats().astype(complex),)


@bad(TYPES)
def type_the_larger_of_complex_numbers():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = max(y[i], 2)

    return kernel, (floats(), floats().astype(complex))


@bad(TYPES)
def type_complex_numbers_compared():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 1.0 if y[i] < 2 else 0.0

    return kernel, (floats(), floats().astype(complex))


@bad(TYPES)
def type_the_largest_of_one_number():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = max(i)

    return kernel, (floats(),)


@bad(TYPES)
def type_none_on_one_path():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] if i else None

    return kernel, (floats(),)


@bad(TYPES)
def type_tuples_of_two_lengths():
    def kernel(x):
        for i in range(x.shape[0]):
            p = (1, 2)
            if i > 2:
                p = (1, 2, 3)
            x[i] = p[0]

    return kernel, (floats(),)


@bad(TYPES)
def type_none_or_a_tuple():
    def kernel(x, y):
        for i in range(x.shape[0]):
            t = None
            if i > 2:
                t = (x[i], 2)
            if t is not None:
                y[i] = t[0]

    return kernel, (floats(), floats())


@bad(SYNTAX)
def tuples_of_two_lengths_in_branches():
    def kernel(x, n):
        if n > 3:
            t = (1, 2)
        else:
            t = (3, 4, 5)
        x[0] = t[0]

    return kernel, (floats(), 4)


@bad(SYNTAX)
def a_tuple_of_a_loop_without_iterations():
    def kernel(x, n):
        while n > 0:
            t = (n, n + 1)
            x[0] += t[0]
            n -= 1
        a, b = t
        x[1] = a + b

    return kernel, (floats(), 4)


@bad(SYNTAX)
def a_tuple_in_place_of_none():
    def kernel(x, n):
        t = None
        if n > 3:
            t = (5, 6)
        if t is not None:
            x[0] = t[0]

    return kernel, (floats(), 4)


@bad(SYNTAX)
def tuples_of_two_lengths_in_a_tuple():
    def kernel(x, n):
        x[0] = n
        return 1, (2, 3) if n > 3 else divmod(n, 2) if n > 2 else (n, 2, 3)

    return kernel, (floats(), 4)


@bad(SYNTAX)
def the_value_of_a_func_that_raises():
    def kernel(x):
        s = failing(x.shape[0])
        x[0] = s

    return kernel, (floats(),)


@bad(SYNTAX)
def the_value_of_a_func_that_raises_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] if x[i] > 0 else failing(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def a_star_of_a_part_of_a_row():
    def kernel(x, rows):
        for i in range(x.shape[0]):
            x[i] = np.hypot(*rows[i, :2])

    return kernel, (floats(), np.ones((5, 3)))


@bad(SYNTAX)
def a_star_of_a_tuple_that_varies():
    def kernel(x, n):
        t = (1, 2, 3)
        while n > 0:
            t = (*t[1:], n)
            n -= 1
        return t

    return kernel, (floats(), 3)


@bad(SYNTAX)
def a_named_tuple_of_a_part_of_an_array():
    def kernel(x, n):
        pair = Both(*x[:n])
        x[0] = pair.first

    return kernel, (floats(), 2)


# fmt: off
@bad(TYPES)
def type_a_test_before_its_statement_on_one_line():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > "a": x[i] = 1  # noqa: E701

    return kernel, (floats(),)


@bad(TYPES)
def type_a_statement_behind_its_test_on_one_line():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > 2: x[i] = np.hypot(x[i], "a")  # noqa: E701

    return kernel, (floats(),)


@bad(TYPES)
def type_one_of_several_statements_on_one_line():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i] > 2: x[i] = 1; x[i] = "a"  # noqa: E701, E702

    return kernel, (floats(),)
# fmt: on


@bad(SYNTAX)
def the_variable_of_a_loop_without_iterations_in_its_else():
    def kernel(x, n):
        for k in qgraph.serial(range(n)):
            x[0] += 1
        else:
            s = k
        return s

    return kernel, (floats(), 2)


@bad(SYNTAX)
def a_match_of_a_pair():
    def kernel(x, n):
        for i in range(x.shape[0]):
            match (i, n):
                case (1, k) if k > 2:
                    x[i] = k

    return kernel, (floats(), 2)


@bad(SYNTAX)
def a_case_of_a_float():
    def kernel(x):
        for i in range(x.shape[0]):
            match x[i]:
                case 0.5:
                    x[i] = 1
                case v if v > 3:
                    x[i] = v

    return kernel, (floats(),)


@bad(SYNTAX)
def a_case_of_a_type():
    def kernel(x, n):
        match n:
            case int():
                x[0] = 1

    return kernel, (floats(), 2)


@bad(SYNTAX)
def another_function_of_rows_that_loops_lack():
    def kernel(x, u):
        for i in range(x.shape[0]):
            x[i] = np.nanmedian(u[i])

    return kernel, (floats(), np.ones((5, 3)))


@bad(SYNTAX)
def an_outer_product_in_a_loop():
    def kernel(a, x):
        for i in range(x.shape[0]):
            a[i] = np.outer(x[i], x[i])

    return kernel, (np.ones((5, 3, 3)), np.ones((5, 3)))


@bad(SYNTAX)
def a_text_of_a_number():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = str(i) == "1"

    return kernel, (floats(),)


@bad(SYNTAX)
def names_reduce_of_functools():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = functools.reduce(max, (1, 2, i))

    return kernel, (floats(),)


@bad(TYPES)
def a_new_vector_at_kernel_level():
    def kernel(x, v):
        w = 2 * v
        for i in range(x.shape[0]):
            x[i] = w[0]

    return kernel, (floats(), qgraph.vec(1.0, 2.0))


@bad(SYNTAX)
def different_elements_at_kernel_level():
    def kernel(x):
        x[0] = len(np.unique(x))

    return kernel, (floats(),)


@bad(SYNTAX)
def a_reversed_range_with_a_step_that_is_passed():
    def kernel(x, step):
        for i in qgraph.serial(reversed(range(1, x.shape[0], step))):
            x[i] += 1

    return kernel, (floats(), 2)


@bad(SYNTAX)
def a_reversed_range_with_a_name():
    def kernel(x):
        backwards = reversed(range(x.shape[0]))
        for i in backwards:
            x[i] += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def a_reversed_array():
    def kernel(x, y):
        for v in reversed(x):
            y[0] = v

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_reversed_tuple():
    def kernel(x):
        for i in range(x.shape[0]):
            for k in reversed((1, 2, 3)):
                x[i] = x[i] * 2 + k

    return kernel, (floats(),)


@bad(SYNTAX)
def a_reversed_row_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            for j in reversed(x):
                x[i] += j

    return kernel, (floats(),)


@bad(SYNTAX)
def a_matrix_and_a_method_of_vectors():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i, 0] = x.dot(x[i])

    return kernel, (np.ones((2, 2)),)


@bad(SYNTAX)
def an_element_of_a_tuple_that_varies():
    def kernel(x):
        for i in range(2):
            x[0][i] = x[i][0]

    return kernel, ((floats(), floats()),)


@bad(SYNTAX)
def a_diagonal_that_changed_in_a_product():
    def kernel(a):
        d = np.diag(a)
        a[0, 0] = 7
        return np.outer(d, d)

    return kernel, (np.ones((3, 3)),)


@bad(SYNTAX)
def an_element_that_is_true():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1.0 if (x[i] > 0) is True else 0.0

    return kernel, (floats(),)


@bad(SYNTAX)
def names_of_arrays_that_are_one_object():
    def kernel(x, y):
        if x is not y:
            x[:] = y

    return kernel, (floats(), floats())


@bad(SYNTAX)
def names_a_keyword_that_round_has_not():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = round(x[i], digits=1)

    return kernel, (floats(),)


@bad(TYPES)
def type_a_complex_number_in_a_float_array():
    def kernel(x, z):
        for i in range(x.shape[0]):
            x[i] = z[i]

    return kernel, (floats(), np.zeros(5, complex))


@bad(TYPES)
def type_too_many_indices():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i, 0, 1] = 1

    return kernel, (floats(),)


@bad(TYPES)
def type_a_scalar_indexed():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = y[i]

    return kernel, (floats(), 3.0)


@bad(TYPES)
def type_a_loop_over_values_of_several_types():
    def kernel(x):
        for i in range(x.shape[0]):
            for w in (1, 0.5):
                x[i] += w

    return kernel, (floats(),)


@bad(TYPES)
def type_values_of_several_types_enumerated():
    def kernel(x):
        for i in range(x.shape[0]):
            for k, w in enumerate((1.0, 0.5, 2j)):
                x[i] += k * w.real

    return kernel, (floats(),)


@bad(TYPES)
def type_one_of_values_of_several_types():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = MIXED[i % 2]

    return kernel, (floats(),)


@bad(TYPES)
def type_an_array_as_a_bound():
    def kernel(x, n):
        for i in range(n):
            x[i] = 1

    return kernel, (floats(), ints(1))


@bad(TYPES)
def type_an_array_without_dimensions_as_a_bound_of_ndrange():
    def kernel(x, n):
        for i, j in qgraph.ndrange(x.shape[0], (1, n)):
            x[i] += j

    return kernel, (floats(), np.array(3))


@bad(TYPES)
def type_an_array_as_a_bound_inside_a_loop():
    def kernel(x, n):
        for i in range(x.shape[0]):
            for k in range(0, n):
                x[i] += k

    return kernel, (floats(), ints(1))


@bad(TYPES)
def type_inside_a_func():
    @qgraph.func
    def wrong(v):
        return v + "text"

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = wrong(x[i])

    return kernel, (floats(),)


@bad(TYPES)
def type_a_generator():
    @numba.njit
    def numbers_below(n):
        yield from range(n)

    def kernel(x):
        for i in range(x.shape[0]):
            for k in numbers_below(i):
                x[i] += k

    return kernel, (floats(),)


@bad(TYPES)
def type_inside_an_njit_function():
    @numba.njit
    def wrong(v):
        return v.no_such_field

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = wrong(x[i])

    return kernel, (floats(),)


@bad(TYPES)
def type_integer_to_a_negative_integer():
    def kernel(k, n):
        for i in range(k.shape[0]):
            k[i] = k[i] ** -2

    return kernel, (ints(), 3)


# --- values that cannot be ----------------------------------------------------------------------------------------------


@bad(TYPES)
def type_integer_to_a_negative_name():
    exponent = -2

    def kernel(k):
        power = exponent
        for i in range(k.shape[0]):
            k[i] = k[i] ** power

    return kernel, (ints(),)


@bad(TYPES)
def type_a_scalar_that_is_a_text():
    def kernel(x):
        s = "text"
        if x[0] > 1:
            s = 5
        x[0] = s

    return kernel, (floats(),)


@bad(SYNTAX)
def type_a_scalar_that_becomes_an_array():
    def kernel(x):
        s = 1.0
        while s < 5.0:
            for i in range(x.shape[0]):
                x[i] += 1.0
            s += x[0]
            s = x

    return kernel, (floats(),)


@bad(SYNTAX)
def type_a_scalar_that_becomes_a_tuple():
    def kernel(x):
        s = 1.0
        while s < 5.0:
            for i in range(x.shape[0]):
                x[i] += 1.0
            s = (s, x[0])

    return kernel, (floats(),)


@bad(TYPES)
def type_a_scalar_of_a_uint64_and_an_int64():
    def kernel(u, k):
        s = u[0]
        for i in range(u.shape[0]):
            u[i] += 1
        s = k[0]
        u[1] = s

    return kernel, (ints().astype(np.uint64), ints())


@bad(TYPES)
def type_a_uint64_and_an_int64():
    def kernel(u, k):
        for i in range(u.shape[0]):
            u[i] = (u[i] + k[i]) // 2

    return kernel, (ints().astype(np.uint64), ints())


@bad(TYPES)
def type_match_on_a_float():
    def kernel(x):
        match x[0]:
            case 1:
                for i in range(x.shape[0]):
                    x[i] = 2.0

    return kernel, (floats(),)


@bad(TYPES)
def type_match_on_a_float_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            match x[i]:
                case 1:
                    x[i] = 2.0

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_guard_of_a_text():
    mode = "fast"

    def kernel(x, n):
        match mode:
            case "fast" if n > 2:
                x[:] = 1

    return kernel, (floats(), 3)


@bad(SYNTAX)
def syntax_case_with_a_name_after_a_call():
    def kernel(x):
        for i in range(x.shape[0]):
            match int(x[i]):
                case n if n > 2:
                    x[i] = n

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_match_on_an_unknown_text():
    def kernel(x, n):
        match n:
            case "fast":
                x[0] = 2.0

    return kernel, (floats(), 3)


@bad(SYNTAX)
def syntax_return_a_slice():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1.0
        return x[0], x[1:]

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_return_one_of_two_arrays():
    def kernel(x):
        t, u = qgraph.zeros(3), qgraph.full(3, 1.0)
        if x[0] > 0:
            return t
        return u

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_return_arrays_that_changed_places():
    def kernel(x, y, n):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                y[i] = x[i] + 1
            x, y = y, x
        return x

    return kernel, (floats(), floats(), 3)


@bad(SYNTAX)
def arrays_that_change_places_in_a_loop_over_steps():
    def kernel(f, g, steps):
        for _ in range(steps):
            for i in range(f.shape[0]):
                g[i] = f[i] + 1
            f, g = g, f

    return kernel, (floats(), floats(), 3)


@bad(SYNTAX)
def memory_of_a_loop_over_steps():
    def kernel(x, steps):
        for _ in range(steps):
            n = np.zeros_like(x)
            n += x
            x[:] = n

    return kernel, (floats(), 3)


@bad(SYNTAX)
def syntax_return_memory_of_the_graph():
    def kernel(n):
        t = qgraph.zeros(n, alloc=True)
        return t

    return kernel, (3,)


@bad(SYNTAX)
def syntax_walrus_behind_and():
    def kernel(x):
        if x[0] > 1 and (a := x[1]) > 2:
            x[0] = a

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_walrus_after_what_it_changes():
    def kernel(x):
        a = 1.0
        x[0] = a + (a := x[1])

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_starred_target():
    def kernel(x):
        a, *rest = x.shape
        x[0] = a

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_tuples_of_two_lengths():
    def kernel(x, n):
        t = (1, 2) if n > 2 else (3, 4, 5)
        x[0] = t[0]

    return kernel, (floats(), 3)


@bad(SYNTAX)
def names_a_scalar_assigned_on_some_paths():
    def kernel(x):
        if x[0] > 1:
            s = 5.0
        for i in range(x.shape[0]):
            x[i] = s

    return kernel, (floats(),)


@bad(SYNTAX)
def names_a_scalar_assigned_in_a_branch_with_loops():
    def kernel(x):
        if x[0] > 1:
            s = 5.0
            for i in range(x.shape[0]):
                x[i] += s
        x[0] = s

    return kernel, (floats(),)


@bad(SYNTAX)
def names_the_variable_of_a_serial_loop_that_may_be_empty():
    def kernel(x, n):
        for t in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                x[i] += t
        x[0] = t

    return kernel, (floats(), 3)


@bad(SYNTAX)
def names_the_variable_of_a_loop_of_one_thread_that_may_be_empty():
    def kernel(x, n):
        for t in qgraph.serial(range(n)):
            x[t] += t
        x[0] = t

    return kernel, (floats(), 3)


@bad(SYNTAX)
def names_a_temporary_that_is_gone():
    def kernel(x, n):
        for t in qgraph.serial(range(n)):
            row = qgraph.zeros(3, np.float64)
            for i in range(3):
                row[i] = t
            for i in range(3):
                x[i] += row[i]
        x[0] = row[1]

    return kernel, (floats(), 3)


@qgraph.func
def uses_a_kernel_scalar(value):
    return value * speed  # noqa: F821


@bad(SYNTAX)
def names_a_kernel_scalar_in_a_func():
    def kernel(x):
        speed = x[0] * 2
        for i in range(x.shape[0]):
            x[i] = uses_a_kernel_scalar(x[i]) + speed

    return kernel, (floats(),)


@bad(SYNTAX)
def names_a_global_array_in_static():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.static(GLOBAL[0])

    return kernel, (floats(),)


GLOBAL = np.arange(3.0)
NESTED = (np.arange(3.0),)


@bad(SYNTAX)
def names_an_array_in_a_global_tuple():
    def kernel(x):
        for i in range(3):
            x[i] = NESTED[0][i]

    return kernel, (floats(),)


@bad(SYNTAX)
def names_an_array_in_a_global_tuple_by_number():
    def kernel(x):
        for i in range(3):
            x[i] = NESTED[i % 1][i]

    return kernel, (floats(),)


RECORD = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0]


@bad(SYNTAX)
def names_a_record():
    def kernel(x):
        for i in range(3):
            x[i] = RECORD["b"]

    return kernel, (floats(),)


@bad(SYNTAX)
def names_an_njit_function_of_an_array():
    table = floats()

    @numba.njit
    def look_up(k):
        return table[k]

    def kernel(x):
        for i in range(3):
            x[i] = look_up(i)

    return kernel, (floats(),)


@bad(SYNTAX)
def names_without_a_value():
    def kernel(x):
        for i in range(3):
            x[i] = later

    if kernel.__name__ != "kernel":
        later = 3
    return kernel, (floats(),)


COUNTER = iter(range(100))


@bad(SYNTAX)
def static_of_something_else_each_time():
    def kernel(x):
        for i in range(3):
            x[i] = qgraph.static(next(COUNTER))

    return kernel, (floats(),)


class Changing(type):
    @property
    def state(cls):
        return object()


class Changes(metaclass=Changing):
    pass


@bad(SYNTAX)
def names_an_attribute_that_is_another_each_time():
    def kernel(x):
        for i in range(3):
            x[i] = Changes.state

    return kernel, (floats(),)


@bad(SYNTAX)
def syntax_another_code():
    def kernel(x):
        x[0] = 1

    def other(x):
        x[0] = 2

    made = qgraph.kernel(kernel, backend="cpu")
    kernel.__code__ = other.__code__
    return lambda: made(floats())


@bad(SYNTAX)
def syntax_another_source():
    def kernel(x):
        x[0] = 1

    def other(x):
        x[0] = 2

    kernel.__code__ = other.__code__.replace(co_firstlineno=kernel.__code__.co_firstlineno)
    return kernel, (floats(),)


@bad(ARGUMENT)
def call_a_negative_size():
    def kernel(x, n):
        t = qgraph.zeros(n - 5, np.float64)
        for i in range(x.shape[0]):
            x[i] = t.shape[0]

    return kernel, (floats(), 3)


@bad(ARGUMENT)
def call_a_slice_of_another_shape():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 7.0
        x[1:] = y[:-2] * 2.0

    return kernel, (floats(), floats())


@bad(SYNTAX)
def syntax_a_slice_with_other_dimensions():
    def kernel(x, y):
        x[:] = y

    return kernel, (floats(), np.ones((5, 5)))


# --- backends and options -----------------------------------------------------------------------------------------------


@bad(BACKEND, caret=False)
def backend_unknown():
    return lambda: qgraph.kernel(fill, backend="gpu")


@bad(BACKEND, caret=False)
def backend_unknown_to_set_backend():
    return lambda: qgraph.set_backend("gpu")


@bad(BACKEND, caret=False)
def backend_simulator_too_late():
    return lambda: qgraph.kernel(fill, backend="sim")(floats())


@bad(BACKEND, caret=False)
def backend_cuda_without_a_gpu():
    from qgraph.runtime.driver.driver import device_count

    if device_count() > 0:
        pytest.skip("there is a GPU")
    x = floats()
    return lambda: qgraph.kernel(fill, backend="cuda")(x)


@bad(BASE, caret=False)
def option_conditional():
    return lambda: qgraph.kernel(fill, conditional="sometimes")


@bad(BASE, caret=False)
def option_bounds_check_of_the_process():
    def call():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("QGRAPH_BOUNDS_CHECK", "all")
            qgraph.kernel(fill)

    return call


@bad(qgraph.BoundsError)
def index_out_of_bounds():
    def kernel(x, y, k):
        for i in range(x.shape[0]):
            y[i] = x[i // 2 + k]

    return lambda: qgraph.kernel(kernel, bounds_check=True)(floats(), floats(), 4)


@bad(BASE, caret=False)
def option_block_size():
    return lambda: qgraph.kernel(fill, block_size=0)


@bad(BASE, caret=False)
def option_unknown():
    return lambda: qgraph.kernel(fill, threads=3)


# --- what kernel.check finds --------------------------------------------------------------------------------------------


@bad(RACE)
def check_race():
    def kernel(x, w, order):
        for i in range(order.shape[0]):
            w[i] = x[order[i]]
            x[i] = 2.0

    return lambda: qgraph.kernel(kernel).check(floats(), floats(), np.array([4, 3, 2, 1, 0]))


@bad(RACE)
def check_race_of_one_line():
    def kernel(grid, order):
        part = grid[1:]
        for i, j in qgraph.ndrange(order.shape[0], 2):
            part[order[i], j] = i

    return lambda: qgraph.kernel(kernel).check(np.zeros((4, 2)), np.array([2, 0, 2]))


@bad(qgraph.BoundsError)
def check_bounds():
    def kernel(grid, order):
        for i in range(order.shape[0]):
            grid[i, order[i]] = 1.0

    return lambda: qgraph.kernel(kernel).check(np.zeros((4, 2)), np.array([1, -3]))


@bad(qgraph.BoundsError)
def check_bounds_outside_of_loops():
    def kernel(x, order):
        x[order[0]] = 1.0

    return lambda: qgraph.kernel(kernel).check(floats(0), ints())


@bad(qgraph.UnwrittenError)
def check_unwritten():
    def kernel(x):
        t = qgraph.empty_like(x)
        for i in range(1, x.shape[0]):
            t[i] = x[i]
        for i in range(x.shape[0]):
            x[i] = t[-1 - i]

    return lambda: qgraph.kernel(kernel).check(floats())


# --- words for the host -------------------------------------------------------------------------------------------------


def told(*values: Any) -> None:
    """A function for host callbacks."""


@bad(SYNTAX)
def host_callback_in_a_while():
    def kernel(x):
        n = 0
        while n < 3:
            qgraph.host_callback(told, n)
            n += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_in_a_branch():
    def kernel(x):
        if x[0] > 0:
            qgraph.host_callback(told, x[0])

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_in_a_serial_loop():
    def kernel(x):
        for i in qgraph.serial(range(x.shape[0])):
            qgraph.host_callback(told, i)

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_in_a_parallel_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            qgraph.host_callback(told, x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_in_a_parallel_loop():
    def kernel(x):
        while x[0] < 10:
            for i in range(x.shape[0]):
                x[i] += 1
                qgraph.progress(i, x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_as_a_value():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            told = qgraph.progress(t, x[0])
            x[0] = told

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_without_a_residual():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, every=2)

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_every_number_of_an_array():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, x[0], every=x.shape[0])

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_every_none():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, x[0], every=0)

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_of_a_sum():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, np.sum(x))

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_of_what_may_raise():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t // 2, x[0] + 7 % t)

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_of_a_func():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, reciprocal(x[0]))

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_of_an_array():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(t, x)

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_of_the_variable_of_a_loop_before():
    def kernel(x):
        for t in qgraph.serial(range(3)):
            for i in range(x.shape[0]):
                x[i] += 1
            qgraph.progress(i, x[0])

    return kernel, (floats(),)


@bad(SYNTAX)
def progress_in_a_func_of_a_parallel_loop():
    @qgraph.func
    def raised(x, i):
        qgraph.progress(i, x[i])
        return x[i] + 1

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = raised(x, i)

    return kernel, (floats(),)


@bad(ARGUMENT, caret=False)
def progress_every_none_in_plain_python():
    return lambda: qgraph.progress(1, 2.0, every=0)


def cubes() -> tuple[np.ndarray, np.ndarray]:
    return floats(18).reshape(2, 3, 3), floats(6).reshape(2, 3)


@bad(SYNTAX)
def solution_of_a_part_of_a_matrix_in_a_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i, :i] = np.linalg.solve(a[i, :i, :i], x[i, :i])

    return kernel, cubes()


@bad(SYNTAX)
def solution_of_a_name_of_the_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            matrix = a[i]
            x[i] = np.linalg.solve(matrix, x[i])

    return kernel, cubes()


@bad(SYNTAX)
def solution_of_a_vector_in_a_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(a[i, 0], x[i])

    return kernel, cubes()


@bad(SYNTAX)
def inverse_of_integers_in_a_loop():
    def kernel(a):
        for i in range(a.shape[0]):
            a[i] = np.linalg.inv(a[i])

    return kernel, (ints(8).reshape(2, 2, 2),)


@bad(SYNTAX)
def solution_of_several_types_in_a_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(a[i], x[i])

    a, x = cubes()
    return kernel, (a, x.astype(np.float32))


@bad(SYNTAX)
def complex_inverse_that_is_assigned_to_real_numbers_in_a_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.inv(a[i])

    a, _ = cubes()
    return kernel, (a + 1j, a)


@bad(SYNTAX)
def cholesky_with_an_option_in_a_loop():
    def kernel(a):
        for i in range(a.shape[0]):
            a[i] = np.linalg.cholesky(a[i], upper=True)

    return kernel, cubes()[:1]


@bad(SYNTAX)
def inverses_in_a_loop_that_the_device_bounds():
    def kernel(a, k):
        for i in range(k[0]):
            a[i] = np.linalg.inv(a[i])

    return kernel, (cubes()[0], ints(1))


@bad(SYNTAX)
def inverses_by_a_variable_that_is_assigned_again():
    def kernel(a):
        for i in range(a.shape[0] - 1):
            i = i + 1
            a[i] = np.linalg.inv(a[i])

    return kernel, cubes()[:1]


@bad(ARGUMENT)
def inverses_that_are_not_square():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.inv(a[i])

    return kernel, (floats(12).reshape(2, 2, 3), floats(12).reshape(2, 2, 3))


@bad(qgraph.LinAlgError)
def singular_matrix_in_a_loop():
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(a[i], x[i])

    a, x = cubes()
    return kernel, (np.zeros_like(a), x)


@bad(ARGUMENT)
def product_of_shapes_that_do_not_fit():
    def kernel(a, x, y):
        y[:] = a @ x

    return kernel, (floats(6).reshape(2, 3), floats(4), floats(2))


@bad(ARGUMENT)
def solution_that_does_not_fit_its_target():
    def kernel(a, b, x):
        x[:] = np.linalg.solve(a, b)

    a, b = cubes()
    return kernel, (a, b[0], floats(3))


@bad(ARGUMENT)
def sort_along_an_axis_that_is_not_there():
    def kernel(x, y):
        y[:] = np.sort(x, axis=1)

    return kernel, (floats(), floats())


@bad(ARGUMENT)
def transform_of_nothing():
    def kernel(x, y):
        y[:] = np.fft.fft(x)

    return kernel, (floats(0), np.zeros(0, complex))


@bad(TYPES)
def transform_that_is_assigned_to_real_numbers():
    def kernel(x, y):
        y[:] = np.fft.fft(x)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def sort_of_a_part_of_a_size_of_the_device():
    def kernel(x, k):
        x[: k[0]] = np.sort(x[: k[0]])

    return kernel, (floats(), ints())


@bad(SYNTAX)
def a_reshaped_array_that_is_changed():
    def kernel(x):
        t = x.reshape(1, x.shape[0])
        t[0, 1] = 5.0

    return kernel, (floats(),)


@bad(SYNTAX)
def a_reshaped_array_after_a_change():
    def kernel(x, y):
        t = np.ravel(x)
        x[0] = 5.0
        y[:] = t + 1

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_matrix_rolled_along_no_axis():
    def kernel(u):
        u[:] = np.roll(u, 1)

    return kernel, (np.eye(3),)


@bad(SYNTAX)
def a_matrix_rolled_by_too_many_shifts():
    def kernel(u):
        u[:] = np.roll(u, (1, 2, 3), axis=(0, 1))

    return kernel, (np.eye(3),)


@bad(SYNTAX)
def an_array_word_with_an_unknown_option():
    def kernel(x):
        x[:] = np.linspace(0, 1, 5, retstep=False)

    return kernel, (floats(),)


@bad(SYNTAX)
def an_array_word_of_a_size_of_the_device():
    def kernel(x, k):
        x[0] = np.eye(k[0])[0, 0]

    return kernel, (floats(), ints())


@bad(ARGUMENT)
def arrays_that_cannot_be_joined():
    def kernel(u, v):
        return np.concatenate((u, v), axis=1)

    return kernel, (np.eye(3), np.eye(2))


@bad(ARGUMENT)
def a_shape_with_other_elements():
    def kernel(x):
        return x.reshape(2, 2) + 1

    return kernel, (floats(),)


@bad(SYNTAX)
def a_part_that_is_returned_with_its_array():
    def kernel(x):
        t = x + 1
        return t, t[1:]

    return kernel, (floats(),)


@bad(SYNTAX)
def a_loop_over_pairs_without_names():
    def kernel(x, y):
        for v in zip(x, y):
            x[0] += v[0]

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_solution_in_an_array_that_does_not_exist():
    def kernel(x, y):
        z[:] = np.linalg.solve(x, y)  # noqa: F821

    return kernel, (np.eye(3), floats())


@bad(SYNTAX)
def sort_with_an_option_by_position():
    def kernel(x, y):
        y[:] = np.sort(x, 0, "stable")

    return kernel, (floats(), floats())


@bad(SYNTAX)
def sort_with_an_option_that_kernels_do_not_know():
    def kernel(x, y):
        y[:] = np.sort(x, kind="stable")

    return kernel, (floats(), floats())


@bad(SYNTAX)
def call_that_writes_nothing():
    def kernel(x):
        qgraph.call(doubled, x, writes=())

    return kernel, (floats(),)


class Recorded(RecordedGraph):
    """A recorded graph, of which only is known why it cannot be a child graph."""

    ordinal = 0

    def __init__(self, refused=""):
        self.refused = refused

    def not_in_graph(self):
        return self.refused

    def not_in_body(self):
        return ""

    def add_to(self, graph):
        raise AssertionError

    patch = replace = run = add_to


@bad(SYNTAX)
def recorded_graph_with_arguments():
    g = Recorded()

    def kernel(x):
        g(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def recorded_graph_of_a_part_of_an_array():
    g = Recorded()

    def kernel(x):
        g(reads=x[1:])

    return kernel, (floats(),)


@bad(SYNTAX)
def recorded_graph_with_a_conditional_node():
    g = Recorded("it holds n0 conditional, and a graph with a conditional node cannot be a child graph")

    def kernel(x):
        g(writes=x)

    return kernel, (floats(),)


@bad(BACKEND)
def recorded_graph_on_the_cpu():
    g = Recorded()

    def kernel(x):
        g(writes=x)

    return kernel, (floats(),)


@bad(SYNTAX)
def unique_of_a_matrix():
    def kernel(x, values):
        n = qgraph.unique(x, values)
        values[0] = n

    return kernel, (floats(6).reshape(2, 3), floats())


@bad(SYNTAX)
def unique_in_a_parallel_loop():
    def kernel(x, values):
        for i in range(3):
            values[i] = qgraph.unique(x, values)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def unique_of_a_number():
    def kernel(x, values):
        n = qgraph.unique(x[0], values)
        values[0] = n

    return kernel, (floats(), floats())


@bad(SYNTAX)
def host_callback_of_a_part_of_an_array():
    def kernel(x):
        qgraph.host_callback(told, x[1:])

    return kernel, (floats(),)


@bad(TYPES)
def host_callback_of_an_array_with_gaps():
    def kernel(x):
        qgraph.host_callback(told, x)

    return kernel, (floats()[::2],)


@bad(ARGUMENT)
def host_callback_that_writes_a_read_only_array():
    def kernel(x):
        qgraph.host_callback(told, x, writes=x)

    x = floats()
    x.flags.writeable = False
    return kernel, (x,)


@bad(SYNTAX)
def host_callback_that_writes_what_it_does_not_get():
    def kernel(x, y):
        qgraph.host_callback(told, x, writes=(x, y))

    return kernel, (floats(), floats())


@bad(ARGUMENT)
def host_callback_of_arrays_that_overlap():
    def kernel(x, y):
        qgraph.host_callback(told, x, y, writes=y)

    x = floats()
    return kernel, (x[:-1], x[1:])


@bad(SYNTAX)
def host_callback_of_arrays_that_change_places():
    def kernel(x, y):
        for t in qgraph.serial(range(3)):
            x, y = y, x
        qgraph.host_callback(told, x)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def host_callback_without_a_function():
    def kernel(x):
        qgraph.host_callback()

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_of_a_lambda():
    def kernel(x):
        qgraph.host_callback(lambda value: None, x[0])

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_of_a_number():
    def kernel(x, f):
        qgraph.host_callback(f, x[0])

    return kernel, (floats(), 3)


@bad(SYNTAX)
def host_callback_with_a_keyword():
    def kernel(x):
        qgraph.host_callback(told, value=x[0])

    return kernel, (floats(),)


@bad(SYNTAX)
def host_callback_of_a_c_function_with_a_number():
    def kernel(x, f):
        qgraph.host_callback(f, x[0])

    return kernel, (floats(), ctypes.CFUNCTYPE(None, ctypes.c_void_p)(told))


@bad(SYNTAX)
def host_callback_of_a_c_function_that_writes():
    def kernel(x, f):
        qgraph.host_callback(f, writes=x)

    return kernel, (floats(), ctypes.CFUNCTYPE(None, ctypes.c_void_p)(told))


@bad(SYNTAX)
def host_callback_as_a_value():
    def kernel(x):
        s = qgraph.host_callback(told, x[0])
        x[0] = s

    return kernel, (floats(),)


@bad(SYNTAX)
def event_in_a_loop():
    def kernel(x, event):
        n = 0
        while n < 3:
            for i in range(x.shape[0]):
                x[i] += 1.0
            qgraph.record(event)
            n += 1

    return kernel, (floats(), 7)


@bad(SYNTAX)
def event_that_is_an_array():
    def kernel(x):
        qgraph.wait(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def event_twice():
    def kernel(x, event):
        qgraph.record(event, event)

    return kernel, (floats(), 7)


@bad(ARGUMENT, caret=False)
def event_that_does_not_exist_yet():
    class Lazy:
        __cuda_event__ = 0

    def kernel(x, event):
        qgraph.record(event)

    return kernel, (floats(), Lazy())


@bad(SYNTAX)
def write_value_in_a_while():
    def kernel(x, flag):
        while x[0] > 0:
            x[0] -= 1
            qgraph.write_value(flag, 1)

    return kernel, (ints(), ints(1))


@bad(SYNTAX)
def write_value_in_a_parallel_loop():
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] = 1
            qgraph.write_value(flag, i)

    return kernel, (ints(), ints(1))


@bad(SYNTAX)
def write_value_without_a_value():
    def kernel(flag):
        qgraph.write_value(flag)

    return kernel, (ints(1),)


@bad(SYNTAX)
def write_value_to_an_element():
    def kernel(x):
        qgraph.write_value(x[0], 1)

    return kernel, (ints(),)


@bad(TYPES)
def write_value_to_a_float():
    def kernel(flag):
        qgraph.write_value(flag, 1)

    return kernel, (floats(1),)


@bad(SYNTAX)
def write_value_that_the_kernel_computes():
    def kernel(x, flag):
        s = x[0] + 1
        qgraph.write_value(flag, s)

    return kernel, (ints(), ints(1))


@bad(SYNTAX)
def write_value_of_a_float():
    def kernel(flag):
        qgraph.write_value(flag, 1.5)

    return kernel, (ints(1),)


@bad(TYPES)
def write_value_of_another_type():
    def kernel(flag, n):
        qgraph.write_value(flag, n)

    return kernel, (np.zeros(1, np.int32), 3)


@bad(TYPES)
def write_value_that_does_not_fit():
    def kernel(flag):
        qgraph.write_value(flag, qgraph.static(1 << 31))

    return kernel, (np.zeros(1, np.int32),)


@bad(ARGUMENT)
def write_value_to_several():
    def kernel(flag):
        qgraph.write_value(flag, 1)

    return kernel, (ints(3),)


@bad(ARGUMENT)
def write_value_to_what_is_read_only():
    def kernel(flag):
        qgraph.write_value(flag, 1)

    flag = ints(1)
    flag.flags.writeable = False
    return kernel, (flag,)


# --- temporaries --------------------------------------------------------------------------------------------------------


@bad(SYNTAX)
def temporary_read_after_it_is_freed():
    def kernel(x):
        t = qgraph.zeros(x.shape, alloc=True)
        for i in range(x.shape[0]):
            t[i] = x[i]
        del t
        for i in range(x.shape[0]):
            x[i] = t[i] + 1.0  # noqa: F821

    return kernel, (floats(),)


@bad(SYNTAX)
def temporary_written_after_it_is_freed():
    def kernel(x):
        t = qgraph.zeros(x.shape)
        x[0] = t[0]
        del t
        t[1:] = 1.0  # noqa: F821

    return kernel, (floats(),)


@bad(SYNTAX)
def temporary_summed_after_it_is_freed():
    def kernel(x):
        t = qgraph.zeros(x.shape)
        del t
        x[0] = np.sum(t)  # noqa: F821

    return kernel, (floats(),)


@bad(SYNTAX)
def temporary_freed_twice():
    def kernel(x):
        t = qgraph.zeros(x.shape)
        x[0] = t[0]
        del t
        del t  # noqa: F821

    return kernel, (floats(),)


@bad(SYNTAX)
def temporary_freed_in_a_loop():
    def kernel(x, n):
        for _ in qgraph.serial(range(n)):
            t = qgraph.zeros(x.shape)
            for i in range(x.shape[0]):
                x[i] += t[i]
            del t

    return kernel, (floats(), 3)


@bad(SYNTAX)
def del_of_an_argument():
    def kernel(x):
        x[0] = 1.0
        del x

    return kernel, (floats(),)


@qgraph.func
def forgetful(a):
    b = a * 2.0
    del b
    return a


@bad(SYNTAX)
def del_in_a_device_function():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = forgetful(x[i])

    return kernel, (floats(),)


@bad(SYNTAX)
def alloc_in_a_while():
    def kernel(x):
        n = 0
        while n < 3:
            t = qgraph.empty(x.shape, alloc=True)
            for i in range(x.shape[0]):
                t[i] = x[i]
            for i in range(x.shape[0]):
                x[i] = t[i] + 1.0
            n += 1

    return kernel, (floats(),)


@bad(SYNTAX)
def alloc_in_a_branch():
    def kernel(x, n):
        if n > 0:
            t = qgraph.zeros(x.shape, alloc=True)
            for i in range(x.shape[0]):
                x[i] += t[i]

    return kernel, (floats(), 1)


@bad(SYNTAX)
def alloc_that_is_not_known():
    def kernel(x, alloc):
        t = qgraph.zeros(x.shape, alloc=alloc)
        for i in range(x.shape[0]):
            x[i] += t[i]

    return kernel, (floats(), True)


@bad(SYNTAX)
def alloc_of_other_memory():
    def kernel(x):
        t = qgraph.empty(x.shape, alloc="managed")
        for i in range(x.shape[0]):
            t[i] = x[i]

    return kernel, (floats(),)


@bad(SYNTAX)
def alloc_of_an_array_of_numpy():
    def kernel(x):
        t = np.zeros(3, alloc=True)
        x[0] = t[0]

    return kernel, (floats(),)


@bad(BACKEND, caret=False)
def graph_of_a_kernel_on_the_cpu():
    @qgraph.kernel(backend="cpu")
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += 1.0

    return lambda: kernel.bind(floats()).graph


# --- the tests ----------------------------------------------------------------------------------------------------------


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays_in(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from arrays_in(getattr(value, name))


@functools.cache
def provoke(case: Case) -> Exception:
    """Do the bad thing, once for all tests; check the class, and that no array changed."""
    made = case.make()
    if callable(made):
        with pytest.raises(case.error) as caught:
            made()
        return caught.value
    function, given = made
    held = list(arrays_in(given))
    before = copy.deepcopy(held)
    with pytest.raises(case.error) as caught:
        qgraph.kernel(function, backend="cpu")(*given)
    for old, new in zip(before, held, strict=True):
        np.testing.assert_array_equal(old, new)
    return caught.value


def normalised(message: str) -> str:
    """Without what depends on where this file lies and on its line numbers."""
    text = message.replace(__file__, "FILE")
    text = re.sub(r"FILE:\d+", "FILE:N", text)
    text = re.sub(r"(?m)^ *\d+ \| ", " N | ", text)
    text = re.sub(r"(?m)^ +\| ", "   | ", text)
    text = re.sub(r"(?m)^ +\|$", "   |", text)
    text = re.sub(r"\bline \d+", "line N", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    # What the loader of the driver says is not ours.
    text = re.sub(r"(the cuda backend cannot run here: ).*", r"\1REASON", text)
    return re.sub(r" at /\S+", " at PATH", text) + "\n"


@bad(TYPES)
def an_array_as_a_condition():
    def kernel(x, stop):
        while stop > 0:
            for i in range(x.shape[0]):
                x[i] += 1

    return kernel, (floats(), ints(1))


@qgraph.func
def one_where(flag, i):
    return i if not flag else 1


@bad(TYPES)
def an_array_as_a_condition_in_a_func():
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] = one_where(flag, i)

    return kernel, (floats(), ints(2))


@bad(TYPES)
def type_int_of_an_array():
    def kernel(x, a):
        for i in range(x.shape[0]):
            b = a
            x[i] = x[i] * int(b)

    return kernel, (floats(), np.array(2.0))


@qgraph.func
def times(value, a):
    twice = value * 2
    return twice * float(a)


@bad(TYPES)
def float_of_an_array_in_a_func():
    def kernel(x, a):
        for i in range(x.shape[0]):
            x[i] = times(x[i], a)

    return kernel, (floats(), np.array(2.0))


@bad(TYPES)
def floats_combined_in_an_integer():
    def kernel(x, w):
        for i in range(w.shape[0]):
            x[0] += w[i] * 2

    return kernel, (ints(), floats())


@bad(TYPES)
def floats_subtracted_from_integers_somewhere():
    def kernel(x, places):
        for i in range(places.shape[0]):
            x[places[i]] -= 0.25

    return kernel, (ints(), ints())


@bad(TYPES)
def a_mean_in_place_of_integers():
    def kernel(x, w):
        x *= np.mean(w)

    return kernel, (ints(), floats())


@bad(TYPES)
def a_named_float_in_place_of_integers():
    def kernel(x):
        half = 0.5
        x[1:] -= half

    return kernel, (ints(),)


@bad(TYPES)
def a_wide_integer_in_place_of_narrow_ones():
    def kernel(x):
        x += np.int64(3)

    return kernel, (ints().astype(np.uint8),)


@bad(TYPES)
def a_method_in_place_of_integers():
    def kernel(x, w):
        x -= w.mean() / 4

    return kernel, (ints(), floats())


@bad(qgraph.KernelSyntaxError)
def a_choice_between_named_tuples():
    def kernel(x):
        q = Both(1, 2) if x[0] > 0 else Both(3, x[1])
        return q

    return kernel, (floats(),)


@bad(TYPES)
def a_float_of_a_loop_in_place():
    def kernel(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s += y[i]
        x += s

    return kernel, (ints(), floats())


@bad(TYPES)
def an_integer_of_a_loop_in_place_of_booleans():
    def kernel(x, y):
        count = 0
        for i in range(y.shape[0]):
            if y[i] > 1:
                count += 1
        x |= count

    return kernel, (np.zeros(4, bool), floats())


@bad(qgraph.KernelSyntaxError)
def a_result_of_two_classes():
    def kernel(x):
        p, q = Both(1, 2), (3, 4)
        p, q = q, p
        return p

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_result_of_two_lengths():
    def kernel(x):
        p = 1, (2, 3)
        if x[0] > 0:
            p = 1, (2, 3, 4)
        return p

    return kernel, (floats(),)


@dataclass
class Fields:
    first: Any
    second: Any


@bad(qgraph.KernelSyntaxError)
def a_dataclass_unpacked():
    def kernel(q):
        a, b = q
        a[0] = b

    return kernel, (Fields(floats(), 2.0),)


@bad(qgraph.KernelSyntaxError)
def a_dataclass_made_and_unpacked():
    def kernel(x):
        a, b = Fields(x[0], 2)
        x[1] = a + b

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_dataclass_indexed():
    def kernel(q):
        for i in range(q.first.shape[0]):
            q.first[i] = q[1]

    return kernel, (Fields(floats(), 2.0),)


@bad(TYPES)
def a_boolean_with_a_minus():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = -(x[i] > 0)

    return kernel, (floats(),)


@bad(TYPES)
def type_of_a_function_of_numpy_that_kernels_lack():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.nan_to_num(x[i], nan=1.0)

    return kernel, (floats(),)


@bad(SYNTAX)
def an_array_that_is_made_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            t = np.zeros(x.shape[0])
            x[i] = t[i]

    return kernel, (floats(),)


@bad(SYNTAX)
def a_large_array_in_an_iteration():
    def kernel(x):
        for i in range(x.shape[0]):
            t = np.empty((100, 100))
            x[i] = t[0, 0]

    return kernel, (floats(),)


@bad(SYNTAX)
def an_array_of_an_iteration_of_unknown_type():
    def kernel(x):
        for i in range(x.shape[0]):
            s = x[i] * 2
            t = np.array([s, 1.0])
            x[i] = t[0]

    return kernel, (floats(),)


@qgraph.func
def of_an_iteration(s):
    t = np.zeros(3)
    t[:] = s
    return t


@bad(SYNTAX)
def an_array_of_an_iteration_that_is_returned():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = of_an_iteration(x[i])[0]

    return kernel, (floats(),)


@bad(SYNTAX)
def rows_that_overlap():
    def kernel(u):
        for i in range(u.shape[0]):
            u[i, 1:-1] = u[i, 2:] + u[i, :-2]

    return kernel, (np.zeros((3, 4)),)


@bad(SYNTAX)
def a_difference_of_rows():
    def kernel(x, f):
        for i in range(x.shape[0]):
            for j in range(x.shape[0]):
                d = x[i] - x[j]
                f[i] += d / (d @ d)

    return kernel, (np.zeros((3, 17)), np.zeros((3, 17)))


@bad(SYNTAX)
def a_sum_of_three_rows():
    def kernel(x, f, dt):
        for i in range(x.shape[0]):
            d = x[i] * dt - f[i]
            f[i] = d

    return kernel, (np.zeros((3, 17)), np.zeros((3, 17)), 0.5)


@bad(SYNTAX)
def a_difference_of_parts_of_rows():
    def kernel(x, f):
        for i in range(x.shape[0]):
            d = x[i, 1:] - x[i, :-1]
            f[i] += d @ d

    return kernel, (np.zeros((3, 4)), np.zeros(3))


@bad(SYNTAX)
def the_best_array_of_a_loop():
    def kernel(x, y, n):
        best = x.copy()
        for k in qgraph.serial(range(n)):
            if np.sum(y) > np.sum(best):
                best = y
            y[:] *= 2
        x[:] = best

    return kernel, (floats(), floats(), 3)


@bad(SYNTAX)
def the_array_that_a_branch_chose():
    def kernel(x, y):
        best = x
        if y[0] > 0:
            best = y
        best[0] = 1

    return kernel, (floats(), floats())


@bad(SYNTAX)
def the_array_of_either_branch():
    def kernel(x, y):
        if y[0] > 0:
            best = x
        else:
            best = y
        x[0] = best[1]

    return kernel, (floats(), floats())


@bad(SYNTAX)
def rows_that_change_places():
    def kernel(u, v):
        for i in range(u.shape[0]):
            u[i], v[i] = v[i], u[i]

    return kernel, (np.zeros((3, 4)), np.zeros((3, 4)))


@bad(SYNTAX)
def a_row_that_is_selected_by_a_mask():
    def kernel(u):
        for i in range(u.shape[0]):
            u[i, u[i] > 1] = 0

    return kernel, (np.zeros((3, 4)),)


@bad(SYNTAX)
def a_row_with_a_new_dimension():
    def kernel(u, v):
        for i in range(u.shape[0]):
            u[:] = v[i, :, None]

    return kernel, (np.zeros((3, 4)), np.zeros((3, 3)))


@bad(SYNTAX)
def a_row_of_too_many_dimensions():
    def kernel(u, v):
        for i in range(u.shape[0]):
            u[i] = v * 2

    return kernel, (np.zeros((3, 4)), np.zeros((3, 4)))


@bad(SYNTAX)
def a_function_of_rows_that_loops_lack():
    def kernel(u, x):
        for i in range(u.shape[0]):
            x[i] = np.median(u[i])

    return kernel, (np.zeros((3, 4)), floats(3))


@bad(SYNTAX)
def a_determinant_in_a_loop():
    def kernel(u, x):
        for i in range(x.shape[0]):
            x[i] = np.linalg.det(u)

    return kernel, (np.eye(3), floats(3))


@bad(ARGUMENT)
def rows_of_two_lengths():
    def kernel(u, x):
        for i in range(u.shape[0]):
            u[i] = x * 2

    return kernel, (np.zeros((3, 4)), floats(3))


@bad(ARGUMENT)
def rows_that_begin_at_both_ends():
    def kernel(u, s):
        for i in range(u.shape[0]):
            u[i, s + 2 : 2] = u[i, s:]

    return kernel, (np.zeros((2, 3)), -2)


@bad(RACE)
def rows_that_others_read():
    def kernel(u):
        for i in range(1, u.shape[0]):
            u[i] = u[i - 1] * 2

    return kernel, (np.zeros((3, 4)),)


@bad(SYNTAX)
def a_function_that_not_every_backend_has():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.nextafter(x[i], 1.0)

    return kernel, (floats(),)


@bad(TYPES)
def the_sign_of_a_complex_number():
    def kernel(z):
        for i in range(z.shape[0]):
            z[i] = np.sign(z[i])

    return kernel, (np.zeros(3, complex),)


@bad(TYPES)
def booleans_with_a_plus():
    def kernel(x, y):
        y[:] = +(x > 0)

    return kernel, (floats(), floats())


@bad(qgraph.KernelSyntaxError)
def a_named_tuple_without_a_field():
    def kernel(x):
        q = Both(1)
        x[0] = q.first

    return kernel, (floats(),)


@dataclass
class Tenfold:
    first: Any
    second: Any

    def __post_init__(self):
        self.first = self.first * 10


class Added(Both):
    def __new__(cls, first, second):
        return super().__new__(cls, first + 1, second)


@bad(qgraph.KernelSyntaxError)
def a_dataclass_that_changes_its_fields():
    def kernel(x):
        q = Tenfold(x[1], 2)
        x[0] = q.first

    return kernel, (floats(),)


@qgraph.func
def first_of(both):
    return both.first


@bad(qgraph.KernelSyntaxError)
def a_dataclass_that_changes_its_fields_for_a_func():
    def kernel(x):
        x[0] = first_of(Tenfold(x[1], 2))

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_named_tuple_with_a_constructor():
    def kernel(x):
        q = 1, Added(x[1], 2)
        x[0] = q[1].first

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_named_tuple_with_a_constructor_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = Added(x[i], 2).first

    return kernel, (floats(),)


@bad(TYPES)
def an_array_turned_round_as_a_condition():
    def kernel(x):
        for i in range(x.shape[0]):
            if x.T:
                x[i] = 1

    return kernel, (floats(),)


@bad(TYPES)
def a_part_as_a_condition():
    def kernel(x):
        for i in range(x.shape[0]):
            if x[i:] and i > 2:
                x[i] = 1

    return kernel, (floats(),)


@bad(TYPES)
def a_row_as_a_condition():
    def kernel(x, y):
        for i in range(x.shape[0]):
            y[i] = 1 if x[i] else 2

    return kernel, (np.ones((4, 4)), floats(4))


@bad(TYPES)
def a_named_part_as_a_condition():
    def kernel(x):
        part = x[1:]
        if not part:
            x[0] = 1

    return kernel, (floats(),)


@bad(TYPES)
def a_part_named_in_a_loop_as_a_condition():
    def kernel(x, y):
        for i in range(y.shape[0]):
            row = x[i, :]
            while row > 1:
                y[i] += 1

    return kernel, (np.ones((4, 4)), floats(4))


@qgraph.func
def of_a_row(x, i):
    row = x[0:i]
    return 1 if row else 2


@bad(TYPES)
def a_part_as_a_condition_in_a_func():
    def kernel(x, y):
        for i in range(y.shape[0]):
            y[i] = of_a_row(x, i)

    return kernel, (floats(4), floats(4))


@bad(qgraph.KernelSyntaxError)
def a_whole_array_in_a_parallel_loop():
    def kernel(x):
        for i in range(3):
            x += 1

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_method_of_an_array_as_a_statement():
    def kernel(x):
        x[x > 0].fill(3)

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def rows_sorted_in_place():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i].sort()

    return kernel, (np.ones((2, 2)),)


@bad(qgraph.KernelSyntaxError)
def rows_sorted_in_a_loop():
    def kernel(x, y):
        for i in range(x.shape[0]):
            y[i] = np.sort(x[i])[2]

    return kernel, (np.ones((4, 4)), floats(4))


@bad(qgraph.KernelSyntaxError)
def a_random_number():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.random.normal()

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def vectors_of_two_lengths():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = (qgraph.vec(1, 2) + qgraph.vec(1, 2, 3))[0]

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_vector_for_a_row_of_another_length():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.vec(1, 2)

    return kernel, (floats(6).reshape(2, 3),)


@bad(qgraph.KernelSyntaxError)
def a_component_that_changes():
    def kernel(x):
        for i in range(x.shape[0]):
            v = qgraph.vec(x[i])
            v[0] = 1.0

    return kernel, (floats(6).reshape(2, 3),)


@bad(qgraph.KernelSyntaxError)
def a_vector_of_a_column():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i, 0] = qgraph.vec(x[:, i]).norm()

    return kernel, (floats(9).reshape(3, 3),)


@bad(qgraph.KernelSyntaxError)
def a_row_for_the_name_of_a_vector():
    def kernel(x):
        for i in range(x.shape[0]):
            v = qgraph.vec(0, 0, 1)
            if i > 1:
                v = x[i]
            x[i] = v

    return kernel, (floats(9).reshape(3, 3),)


@bad(qgraph.KernelSyntaxError)
def a_sum_of_vectors():
    def kernel(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += qgraph.vec(x[i])
        return s

    return kernel, (floats(9).reshape(3, 3),)


@bad(TYPES)
def floats_added_to_a_row_of_integers():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += qgraph.vec(1, 2, 3)

    return kernel, (np.ones((2, 3), np.int64),)


@bad(TYPES)
def an_order_of_vectors():
    def kernel(x):
        for i in range(x.shape[0]):
            if qgraph.vec(x[i]) < qgraph.vec(0, 0, 0):
                x[i, 0] = 0.0

    return kernel, (floats(9).reshape(3, 3),)


@bad(qgraph.KernelSyntaxError)
def a_vector_of_a_row_at_kernel_level():
    def kernel(x):
        v = qgraph.vec(x[0])
        x[1, 0] = v[0]

    return kernel, (floats(9).reshape(3, 3),)


@bad(TYPES)
def a_random_number_of_a_float():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.random.normal(0.5, i)

    return kernel, (floats(),)


@bad(TYPES)
def five_random_numbers_of_a_block():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.random.normal(1, i, size=5)[4]

    return kernel, (floats(),)


@bad(TYPES)
def as_many_random_numbers_as_come():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.random.normal(1, i, size=i)[0]

    return kernel, (floats(),)


@bad(TYPES)
def a_random_number_of_16_bits():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.random.uniform(1, i, dtype=np.float16)

    return kernel, (floats(),)


@bad(TYPES)
def a_random_integer_without_a_limit():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = qgraph.random.integers(1, i)

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_generator_in_a_global():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = DICE.normal(i)

    return kernel, (floats(),)


@bad(qgraph.KernelSyntaxError)
def a_random_number_of_python():
    def kernel(x):
        x[0] = random.random()

    return kernel, (floats(),)


@bad(qgraph.QGraphError, caret=False)
def a_block_size_that_is_no_number():
    return lambda: qgraph.kernel(block_size="128")


@bad(qgraph.QGraphError, caret=False)
def an_option_that_is_no_bool():
    return lambda: qgraph.kernel(fuse=1)


# --- new arrays, and what funcs give ------------------------------------------------------------------------------------


MAKERS = {
    "nancumsum": "np.nancumsum(x)",
    "partition": "np.partition(x, 2)",
    "rot90": "np.rot90(u)",
    "logspace": "np.logspace(0, 1, 5)",
    "tensordot": "np.tensordot(u, x, 1)",
}


@qgraph.func
def same_array(v):
    return v


@qgraph.func
def one_of_two(v, w):
    if v[0] > 0:
        return v[1:]
    return w[1:]


@qgraph.func
def from_a_loop(v, w):
    for i in qgraph.serial(range(3)):
        if v[i] > 1:
            return v
    return w


@qgraph.func
def sum_and_largest(v):
    return np.sum(v), np.max(v)


@qgraph.func
def put_first(values):
    values[0] = 2.0


@bad(SYNTAX)
def an_array_from_two_branches():
    def kernel(x, y):
        x[1:] = one_of_two(x, y)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def an_array_from_a_loop():
    def kernel(x, y):
        x[:] = from_a_loop(x, y)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def an_array_of_one_call_or_another():
    def kernel(x, y, n):
        w = same_array(x) if n > 1 else same_array(y)
        x[:] = w

    return kernel, (floats(), floats(), 3)


@bad(SYNTAX)
def a_tuple_of_a_func_as_a_number():
    def kernel(x):
        x[0] = 2 * sum_and_largest(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def a_tuple_of_a_func_for_three_elements():
    def kernel(x):
        x[0], x[1], x[2] = sum_and_largest(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def a_field_of_what_a_func_gives():
    def kernel(x):
        x[0] = sum_and_largest(x).least

    return kernel, (floats(),)


@bad(SYNTAX)
def an_array_unpacked_into_elements():
    def kernel(x, y):
        x[0], x[1] = same_array(y)

    return kernel, (floats(), floats(3))


@bad(SYNTAX)
def a_row_unpacked_into_too_few_names():
    def kernel(x, y):
        for i in range(y.shape[0]):
            a, b = y[i]
            x[i] = a + b

    return kernel, (floats(), np.ones((5, 3)))


@bad(SYNTAX)
def a_part_of_unknown_length_unpacked():
    def kernel(x, y):
        for i in range(y.shape[0]):
            a, b = y[i, :2]
            x[i] = a + b

    return kernel, (floats(), np.ones((5, 3)))


@bad(SYNTAX)
def an_array_for_one_element():
    def kernel(x, y):
        x[0] = same_array(y)

    return kernel, (floats(), floats())


@bad(TYPES)
def type_an_array_for_one_element_in_a_loop():
    def kernel(x, y):
        for i in range(3):
            x[i] = y

    return kernel, (floats(), floats())


@bad(SYNTAX)
def an_element_of_a_tuple_that_is_assigned():
    def kernel(x, y):
        put_first((x, y))

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_size_that_a_branch_changes():
    def kernel(x):
        n = x.shape[0]
        if x[0] > 1:
            n = 2
        t = qgraph.zeros(n)
        x[0] = t[0]

    return kernel, (floats(),)


@bad(SYNTAX)
def a_temporary_like_a_part_of_a_length_of_the_device():
    def kernel(x, k):
        t = qgraph.empty_like(x[k[0] :])
        t[:] = 2.0

    return kernel, (floats(), ints())


@bad(TYPES)
def a_new_array_as_a_condition():
    def kernel(x):
        if np.arange(5) > x:
            x[0] = 1.0

    return kernel, (floats(),)


# --- numbers that CPython or NumPy computes in another way ----------------------------------------------------------------


@bad(TYPES)
def type_a_function_of_bytes_is_a_float16():
    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = np.sqrt(k[i])

    return kernel, (np.arange(5, dtype=np.int8), floats())


@bad(TYPES)
def type_an_integer_or_a_float_is_stored_as_an_integer():
    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = max(k[i], 0.5)

    return kernel, (ints(), ints())


@bad(TYPES)
def type_an_integer_on_one_path_and_a_float_on_the_other_is_counted():
    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = int(k[i] if k[i] > 2 else 0.5)

    return kernel, (ints(), floats())


@bad(TYPES)
def type_numpys_integer_or_pythons_is_multiplied_beyond_the_one():
    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = max(k[i], 5) * 1000000000

    return kernel, (np.arange(5, dtype=np.int32), ints())


@bad(TYPES)
def type_numpys_integer_on_one_path_and_pythons_on_the_other_with_another_type():
    def kernel(k, h, y):
        for i in range(y.shape[0]):
            t = 0
            if h[i] > 3:
                t = k[i]
            y[i] = t + h[i]

    return kernel, (np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int8), ints())


@bad(TYPES)
def type_a_function_of_numpy_of_numpys_integer_or_pythons():
    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = np.square(max(k[i], 5))

    return kernel, (np.arange(5, dtype=np.uint16), ints())


@bad(TYPES)
def type_numpys_integer_or_pythons_inside_a_func():
    @qgraph.func
    def doubled(v):
        return -v

    def kernel(k, y):
        for i in range(y.shape[0]):
            y[i] = doubled(k[i] if k[i] > 3 else 3)

    return kernel, (np.arange(5, dtype=np.uint8), ints())


@bad(TYPES)
def type_negative_elements_may_be_least_of_what_has_no_sign():
    def kernel(h, e):
        for i in range(e.shape[0]):
            h[i % 2] = min(h[i % 2], e[i])

    return kernel, (np.ones(2, np.uint32), ints())


@bad(TYPES)
def type_a_negative_number_is_least_of_what_has_no_sign():
    def kernel(h, e):
        for i in range(e.shape[0]):
            h[i % 2] = min(h[i % 2], np.int64(-1))

    return kernel, (np.ones(2, np.uint32), ints())


@bad(TYPES)
def type_mixed_signs_beside_a_checked_divisor():
    def kernel(u, e, size):
        for i in range(e.shape[0]):
            e[i] = e[i] + u[(i + 1) % size] * (7 // size) ** size

    return kernel, (np.ones(2, np.uint64), ints(), 3)


@bad(TYPES)
def type_a_negative_literal_is_least_of_what_has_no_sign():
    def kernel(h):
        for i in range(10):
            qgraph.atomic_min(h, i % 2, -1)

    return kernel, (np.ones(2, np.uint32),)


@bad(TYPES)
def type_narrow_elements_may_be_least_of_what_has_no_sign():
    def kernel(h, e):
        for i in range(e.shape[0]):
            h[0] = min(h[0], e[i])

    return kernel, (np.ones(2, np.uint64), np.arange(5, dtype=np.int16))


@bad(TYPES)
def type_round_of_a_float_that_may_be_pythons_or_numpys():
    def kernel(x):
        t = 0.0
        for i in range(x.shape[0]):
            t += x[i]
        return round(t, 2)

    return kernel, (floats(),)


@bad(TYPES)
def what_a_func_makes_as_a_condition():
    def kernel(x):
        while same_array(x) < 3:
            x[0] += 1.0

    return kernel, (floats(),)


@bad(SYNTAX)
def a_prefix_sum():
    def kernel(x, y):
        y[:] = 2 * np.nancumsum(x)

    return kernel, (floats(), floats())


@bad(SYNTAX)
def a_matrix_times_a_vector():
    def kernel(u, x, y):
        y[:] = 2 * np.tensordot(u, x, 1)

    return kernel, (np.eye(5), floats(), floats())


@bad(SYNTAX)
def a_copy_with_a_name():
    def kernel(x):
        c = np.asfortranarray(x)
        x[0] = c[1]

    return kernel, (floats(),)


@bad(SYNTAX)
def a_reshaped_array_and_a_size():
    def kernel(x):
        n = x.shape[0]
        w = np.resize(x, (n, 1))
        t = qgraph.zeros(n)
        x[0] = t[0] + w[0, 0]

    return kernel, (floats(),)


@bad(TYPES)
def type_round_of_a_python_float_to_some_digits():
    def kernel(f, n):
        return round(f, n)

    return kernel, (0.5, 2)


@bad(ARGUMENT)
def call_a_shift_by_a_negative_number():
    def kernel(n):
        return n << (n - 6)

    return kernel, (5,)


@bad(ARGUMENT)
def call_a_range_shifted_by_a_negative_number():
    def kernel(x, n):
        for i in range(8 >> n):
            x[i] = 1.0

    return kernel, (floats(), -1)


class OneBased(np.ndarray):
    def __getitem__(self, index):
        return super().__getitem__(index - 1)


@bad(ARGUMENT, caret=False)
def call_an_array_that_indexes_in_its_own_way():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1.0

    return kernel, (floats().view(OneBased),)


@bad(TYPES)
def type_a_row_on_one_path_and_a_string_on_another():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = y[i] if x[i] > 0 else "text"

    return kernel, (np.zeros(4), np.zeros((4, 4)))


@bad(TYPES)
def type_none_indexed():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] += 2.0 * y[i]

    return kernel, (np.zeros(4), None)


@bad(TYPES)
def type_a_loop_variable_indexed():
    def kernel(x):
        for i in range(x.shape[0]):
            i[0] = 3

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_the_length_of_a_number():
    def kernel(x, n):
        for i in range(x.shape[0]):
            x[i] = len(n)

    return kernel, (np.zeros(4), 3)


@bad(TYPES)
def type_a_number_that_is_written():
    def kernel(n):
        for i in range(3):
            n[i] = i

    return kernel, (3,)


@bad(TYPES)
def type_an_element_of_a_number_in_a_func():
    @qgraph.func
    def element(x, i):
        return x[i]

    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = element(y, i)

    return kernel, (np.zeros(4), 2.5)


@bad(TYPES)
def type_an_array_is_printed():
    def kernel(x):
        print("the middle is", x[1:3])

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_vector_is_printed_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            print(i, qgraph.vec(x[i], 1.0))

    return kernel, (np.zeros(4),)


@bad(SYNTAX)
def return_of_a_range():
    def kernel(x):
        x[0] = 1
        return range(3)

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_function_is_returned():
    def kernel(x):
        x[0] = 1
        return len

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_method_is_returned():
    def kernel(x):
        return x.sum

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_an_integer_of_seventy_bits():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 2**70 - i

    return kernel, (np.zeros(4),)


@bad(SYNTAX)
def an_integer_of_a_hundred_thousand_bits():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = (1 << 100_000) % 7

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_bound_is_none():
    def kernel(x, n):
        for i in range(1, n):
            x[i] = 0

    return kernel, (np.zeros(4), None)


@bad(TYPES)
def type_a_bound_is_a_text():
    def kernel(x):
        for i in qgraph.serial(range("4")):
            x[i] = 0

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_one_of_several_returned_values():
    def kernel(x):
        return abs(-3), max(x[0], 1.0), ~x[0]

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_method_that_arrays_have_elsewhere():
    def kernel(x):
        return x.item(2)

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_of_a_loop_in_one_line():
    def kernel(x):
        for i in range(x.shape[0]): x[i, 0] = 1  # noqa: E701  # fmt: skip

    return kernel, (np.zeros(4),)


@bad(SYNTAX)
def any_of_python():
    def kernel(x):
        return any(x)

    return kernel, (np.zeros(4),)


@bad(SYNTAX)
def print_with_a_separator():
    def kernel(x):
        print(x[0], x[1], sep=", ")

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_text_that_is_formatted():
    def kernel(x):
        for i in range(x.shape[0]):
            s = "%d" % i
            x[i] = s == "(1)"

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_a_range_that_is_indexed():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = range(3, 10)[i]

    return kernel, (np.zeros(4),)


@bad(TYPES)
def type_none_that_is_added():
    def kernel(x, n):
        x[:] = x + n

    return kernel, (np.zeros(4), None)


@bad(TYPES)
def type_none_in_an_array():
    def kernel(x, n):
        for i in range(x.shape[0]):
            x[i] = n

    return kernel, (np.zeros(4), None)


@bad(TYPES)
def type_a_bound_that_is_a_text():
    def kernel(x, n):
        x[:n] = 1

    return kernel, (np.zeros(4), "3")


@bad(SYNTAX)
def a_shorter_tuple_for_a_row_in_a_loop():
    def kernel(u):
        for i in range(u.shape[0]):
            u[i] = (2.0,)

    return kernel, (np.zeros((3, 2)),)


@bad(SYNTAX)
def a_row_at_a_counter_in_a_statement():
    def kernel(u, n):
        u[qgraph.atomic_add(n, 0, 1)] += u[2]

    return kernel, (np.zeros((3, 2)), np.zeros(1, np.int64))


class Side(enum.IntFlag):
    LEFT = 1
    RIGHT = 2


@bad(SYNTAX)
def the_other_flags():
    def kernel(x):
        for i in range(3):
            x[i] &= ~(Side.LEFT | 4)

    return kernel, (np.arange(3),)


@bad(SYNTAX)
def the_other_flags_for_a_whole_array():
    def kernel(x):
        x[1:] &= ~Side.LEFT

    return kernel, (np.arange(3),)


@bad(SYNTAX)
def a_power_at_a_counter():
    def kernel(u, n):
        for i in range(3):
            u[qgraph.atomic_add(n, 0, 1), 0] **= 2

    return kernel, (np.zeros((3, 2)), np.zeros(1, np.int64))


@bad(TYPES)
def type_a_tuple_for_a_row_in_a_loop():
    def kernel(u):
        for i in range(u.shape[0]):
            u[i] += i, 2.0

    return kernel, (np.zeros((3, 2)),)


@bad(SYNTAX)
def arrays_in_a_tuple_for_a_part():
    def kernel(u, x, y):
        u[:] = x, y

    return kernel, (np.zeros((2, 5)), floats(), floats())


@bad(SYNTAX)
def a_product_in_place():
    def kernel(x, y):
        x @= y.T + 1

    return kernel, (np.eye(3), np.eye(3))


@bad(SYNTAX)
def a_product_in_place_in_a_loop():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] @= y

    return kernel, (np.zeros((4, 3, 3)), np.eye(3))


@bad(TYPES)
def type_a_float_in_place_by_dots():
    def kernel(flag):
        flag[...] += 1.5

    return kernel, (np.array(3),)


@bad(TYPES)
def type_a_text_in_the_place_of_an_array():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1

    return kernel, ("hello",)


@bad(TYPES)
def type_none_that_is_assigned():
    def kernel(x, y):
        x[:] = y

    return kernel, (None, np.zeros(4))


@bad(TYPES)
def type_a_number_with_a_method_of_arrays():
    def kernel(x, y):
        x[0] = y.sum()

    return kernel, (np.zeros(4), 3.0)


@bad(TYPES)
def type_a_number_with_a_length():
    def kernel(x, n):
        for i in range(len(n)):
            x[i] = 1

    return kernel, (np.zeros(4), 3)


@bad(SYNTAX)
def none_on_one_path_in_the_place_of_an_array():
    def kernel(x, y, n):
        if n > 0:
            for i in range(y.shape[0]):
                x[i] = 1

    return kernel, (np.zeros(4), None, 1)


@bad(TYPES)
def type_a_number_of_numpys_with_a_method():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i].argsort()

    return kernel, (np.zeros(4),)


@bad(SYNTAX)
def names_an_attribute_of_an_array_that_is_misspelt():
    def kernel(x):
        for i in range(x.shpae[0]):
            x[i] = 1

    return kernel, (floats(),)


@bad(TYPES)
def type_an_attribute_of_an_array_of_an_iteration():
    def kernel(x):
        for i in range(x.shape[0]):
            t = np.zeros(3)
            x[i] = t.szie

    return kernel, (floats(),)


@bad(SYNTAX)
def a_list_that_is_made():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = list(range(3))[1]

    return kernel, (floats(),)


@bad(SYNTAX)
def the_class_of_a_number():
    def kernel(x, n):
        if isinstance(n, int):
            x[0] = 1

    return kernel, (floats(), 3)


@bad(SYNTAX)
def numbers_sorted_by_python():
    def kernel(x):
        x[:] = sorted(x)

    return kernel, (floats(),)


@bad(SYNTAX)
def the_larger_by_a_key():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = max(x[i], -2.0, key=abs)

    return kernel, (floats(),)


@bad(SYNTAX)
def a_power_with_a_modulus():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = pow(i, 2, 3)

    return kernel, (floats(),)


@bad(SYNTAX)
def a_logarithm_with_a_base():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = math.log(x[i] + 1, 2)

    return kernel, (floats(),)


@bad(SYNTAX)
def too_many_arguments_of_a_function():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = math.sqrt(x[i], 2)

    return kernel, (floats(),)


@bad(SYNTAX)
def too_many_arguments_of_len():
    def kernel(x):
        for i in range(len(x, 1)):
            x[i] = 1

    return kernel, (floats(),)


@bad(SYNTAX)
def too_few_arguments_of_a_ufunc():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.maximum(x[i])

    return kernel, (floats(),)


@bad(TYPES)
def type_too_many_values_in_a_loop():
    def kernel(x):
        for i in range(x.shape[0]):
            a, b = i, 2, 3
            x[i] = a + b

    return kernel, (floats(),)


@bad(TYPES)
def type_a_method_of_a_text():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = len("{}".format(i))  # noqa: UP032

    return kernel, (floats(),)


@bad(TYPES)
def type_a_field_that_a_tuple_has_not():
    def kernel(x):
        for i in range(x.shape[0]):
            both = Both(x[i], 1)
            x[i] = both.third

    return kernel, (floats(),)


@bad(TYPES)
def type_a_product_of_numbers_as_matrices():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] @ x[i]

    return kernel, (floats(),)


@bad(TYPES)
def type_a_field_that_is_no_array():
    def kernel(pair, x):
        for i in range(pair.first.shape[0]):
            x[i] = 1

    return kernel, (Both(5, 1), floats())


@bad(SYNTAX)
def an_element_of_an_array_without_axes_that_stays_one():
    def kernel(x):
        y = x[...]
        x[()] = 3
        return y * 1

    return kernel, (np.array(5.0),)


@bad(SYNTAX)
def an_element_that_stays_an_array_in_a_loop():
    def kernel(x, out):
        for i in range(x.shape[0]):
            y = x[i, ...]
            x[i] = 3
            out[i] = y

    return kernel, (floats(), floats())


@bad(RACE)
def race_of_dots():
    def kernel(total, x):
        for i in range(x.shape[0]):
            total[...] += x[i]

    return kernel, (np.array(0.0), floats())


@bad(SYNTAX)
def a_method_of_a_text_that_is_passed():
    def kernel(x, mode):
        if mode.startswith("s"):
            x[0] = 1

    return kernel, (floats(), "sub")


@bad(TYPES)
def type_of_what_an_error_depends_on():
    def kernel(x):
        if x.dtype == np.int64:
            raise ValueError("no integers")
        x[0] = 1

    return kernel, (floats(),)


@pytest.mark.parametrize("name", CASES)
def test_message(name, request):
    case = CASES[name]
    error = provoke(case)
    assert type(error) is case.error
    said = normalised(str(error))
    golden = GOLDENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(said)
    assert golden.exists(), f"no golden file; qgraph said:\n{said}"
    assert said == golden.read_text()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if issubclass(case.error, BASE)])
def test_every_message_says_where_and_what_to_do(name):
    case = CASES[name]
    error = provoke(case)
    assert error.hint, "no hint: what should be written instead?"
    if case.caret:
        assert error.span is not None
        assert error.span.file == __file__
        text = linecache.getline(error.span.file, error.span.line)
        assert text.strip()
        assert f"{error.span.file}:{error.span.line}:" in str(error)
        assert "^" in str(error)
        # The caret stands under something, not under indentation.
        assert text.encode()[error.span.column : error.span.column + 1].strip()


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("type_")])
def test_a_type_error_points_at_the_statement_that_numba_refused(name):
    lines, first = inspect.getsourcelines(CASES[name].make)
    span = provoke(CASES[name]).span
    assert first < span.line < first + len(lines)
    assert not linecache.getline(span.file, span.line).lstrip().startswith(("def ", "@", "return kernel"))


TYPE_ERRORS = [name for name, case in CASES.items() if case.error is TYPES]


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_cuda_says_the_same_of_the_same_line(name):
    made = CASES[name].make()
    assert isinstance(made, tuple)
    kernel, arguments = made
    on_cpu = provoke(CASES[name])
    with pytest.raises(TYPES) as caught:
        qgraph.kernel(backend="cuda")(getattr(kernel, "__wrapped__", kernel)).ptx(*arguments)
    assert (caught.value.found, caught.value.span.line) == (on_cpu.found, on_cpu.span.line)


NEW_ARRAYS = """
import numpy as np
import qgraph

def kernel(x, y, u, z, out):
    {statement}
"""


@pytest.mark.parametrize("statement", ["out[:] = {}", "out[:] = 2 * ({})", "w = {}", "out[0] = {}", "w = {}[1:]"])
@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
def test_a_new_array_is_refused_with_what_to_write_instead(statement, made, tmp_path):
    path = tmp_path / "kernels.py"
    source = NEW_ARRAYS.format(statement=statement.format(made))
    path.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, path, "exec"), names)
    arguments = floats(), floats(), np.eye(5), np.zeros(5, complex), floats()
    with pytest.raises(SYNTAX) as caught:
        qgraph.kernel(backend="cpu")(names["kernel"]).plan(*arguments)
    error = caught.value
    assert made in error.found
    assert not fault_of(error, source)
    if not statement.startswith("out[0]"):
        assert "is a new array" in error.found
        assert any(word in error.hint for word in ("for i in", "t = qgraph.", "[::-1]", "[:, None]", "before the call"))


@pytest.mark.parametrize("name", CASES)
def test_no_golden_has_a_name_that_its_reader_did_not_write(name):
    assert made_names((GOLDENS / f"{name}.txt").read_text(), SOURCE) == []


def test_every_golden_belongs_to_a_case():
    assert {path.stem for path in GOLDENS.glob("*.txt")} == set(CASES)


def test_messages_of_numba_are_shortened_to_the_users_line():
    for name in [name for name in CASES if name.startswith("type_")]:
        message = str(provoke(CASES[name]))
        assert len(message.splitlines()) <= 16, f"{name}:\n{message}"
        assert "During: " not in message, name
        assert "site-packages" not in message, name


def test_a_failed_call_can_be_repeated_and_the_kernel_still_works():
    kernel = qgraph.kernel(add, backend="cpu")
    for _ in range(2):
        with pytest.raises(ARGUMENT):
            kernel(floats())
    x = floats()
    kernel(x, floats())
    assert (x == 2 * floats()).all()
    with pytest.raises(ARGUMENT):
        kernel(x, np.array([None] * 5))
    assert (x == 2 * floats()).all()


def test_the_class_tree():
    for error in (SYNTAX, TYPES, ARGUMENT, RACE, BACKEND, qgraph.BoundsError, qgraph.CudaError):
        assert issubclass(error, BASE)
        assert error is not BASE

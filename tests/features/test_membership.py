"""`in` and `not in` tuples: types that differ, what is the same object, and what functions compute."""

import numpy as np
import pytest

import qgraph


def in_tuples_of_several_types(x, f, out):
    k = x[1]
    if k in (1, 2.0):
        out[0, 3] = 1
    for i in range(x.shape[0]):
        out[i, 0] = x[i] in (1, 2.5)
        out[i, 1] = 2 if f[i] not in (x[0], 2.5, 7) else 3
        out[i, 2] = x[i] & 3 in (f[0], True)


def test_membership_in_a_tuple_of_numbers_of_several_types(check):
    check(in_tuples_of_several_types, lambda: (np.array([1, 2, 3]), np.array([1.0, 2.5, 4]), np.full((3, 4), 77.0)))


NAN = float("nan")


def in_tuples_of_nans(x, out, s, p):
    k = x[1]
    if k in (2.0, k):
        out[0, 4] = 1
    if s not in (s, 2.0):
        out[1, 4] = 1
    for i in range(x.shape[0]):
        t = x[i]
        out[i, 0] = t in (2.0, t)
        out[i, 1] = x[i] in (x[i], 2.0)
        out[i, 2] = NAN in (1.0, NAN) and t not in (NAN,)
        out[i, 3] = s in (s,) and p[0] in (1.0, p[0]) and p[0] not in (p[1], 2.0)


def test_membership_finds_the_same_object_whatever_it_equals(check):
    check(in_tuples_of_nans, lambda: (np.array([1.0, NAN, 2.0]), np.full((3, 5), 7.0), NAN, (np.float64(NAN), 3.0)))


@qgraph.func
def doubled(a):
    return a * 2.0


def in_tuples_with_calls(x, out):
    for i in range(x.shape[0]):
        t = x[i]
        out[i, 0] = np.int8(x[i]) in (3, abs(x[i]), 2.5)
        out[i, 1] = x[i] in (np.uint64(3), np.float32(4), True)
        out[i, 2] = t in (doubled(t), 3)


def test_membership_of_and_in_what_functions_compute(check):
    check(in_tuples_with_calls, lambda: (np.array([0, 1, 3, 4, 100]), np.full((5, 3), 7.0)))


def in_a_tuple_with_its_own_divisor(x, out):
    for i in qgraph.serial(range(x.shape[0])):
        n = int(x[i])
        out[i] = 3 in (3, 6 // n)


def test_all_that_is_in_a_tuple_is_computed(rig):
    with pytest.raises(qgraph.ArgumentError, match="divides an integer by zero"):
        rig.run(rig.kernel(in_a_tuple_with_its_own_divisor), np.array([1, 0]), np.zeros(2))


def membership_of_a_call(x, out):
    for i in range(x.shape[0]):
        out[i] = doubled(x[i]) in (1, 2.5)


def test_membership_of_what_a_func_computes_in_several_types_is_refused(rig):
    with pytest.raises(qgraph.KernelTypeError, match=r"a tuple of values of several types(.|\n)*name before: t = f\(x\)"):
        rig.kernel(membership_of_a_call)(*map(rig.device, (np.arange(3.0), np.zeros(3))))

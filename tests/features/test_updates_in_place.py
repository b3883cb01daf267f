"""Updates of arrays and elements in place by numbers of other types: which NumPy refuses, which convert."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def of_a_named_sum(x, y):
    s = np.sum(y)
    x += s


def of_a_sum_on_a_path(x, y):
    s = 3
    if y[0] > 100:
        s = np.sum(y)
    x[1:] += s


def of_a_loops_sum(x, y):
    s = 0
    for i in range(y.shape[0]):
        s += y[i]
    x[x == 0] += s


def of_a_rows_sum(x, y):
    for i in range(x.shape[0]):
        s = np.sum(y)
        x[i] += s


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("function", [of_a_named_sum, of_a_sum_on_a_path, of_a_loops_sum, of_a_rows_sum])
def test_unsigned_arrays_are_not_updated_in_place_by_numpys_signed_integers(rig, function, dtype):
    x, y = np.zeros((3, 2), dtype), np.arange(5)
    with pytest.raises(qgraph.KernelTypeError, match="elements without a sign are updated in place"):
        rig.kernel(function)(rig.device(x), rig.device(y))


def by_other_integers(x, y, n, signed):
    most = np.max(x)
    x -= most
    x += n
    t = int(np.sum(y))
    x += t
    x += y.shape[0]
    q = len(x) * 2
    x += q
    s = np.sum(y)
    signed += s
    for i in range(x.shape[0]):
        k = np.max(x[i])
        x[i] -= k
        x[i] += i
        for j in range(3):
            r = j * 2
            x[i] += r


def test_arrays_updated_in_place_by_pythons_integers_and_by_those_that_numpy_takes(check):
    check(by_other_integers, lambda: (np.arange(6, dtype=np.uint8).reshape(3, 2), np.arange(5), 3, np.zeros(4, np.int8)))


def bits_at(x, k, v):
    np.bitwise_or.at(x, k, v)


def bits_of_elements(x, k, v):
    for i in range(k.shape[0]):
        x[i] ^= v[i]


def bits_that_collide(x, k, v):
    for i in range(k.shape[0]):
        x[k[i]] &= v[i]


def bits_of_all(x, k, v):
    for i in range(k.shape[0]):
        x[0] |= v[i]


def bits_of_all_on_the_right(x, k, v):
    for i in range(k.shape[0]):
        x[0] = v[i] ^ x[0]


_BITS = [bits_at, bits_of_elements, bits_that_collide, bits_of_all, bits_of_all_on_the_right]


@pytest.mark.parametrize(("one", "other"), [(np.int64, np.uint64), (np.uint64, np.int64), (np.int32, np.uint64)])
@pytest.mark.parametrize("function", _BITS)
def test_bits_of_a_uint64_and_of_an_integer_with_a_sign_are_refused(rig, function, one, other):
    with pytest.raises(qgraph.KernelTypeError, match="a uint64 and an integer with a sign"):
        rig.kernel(function)(*map(rig.device, (np.ones(3, one), np.array([0, 1, 0]), np.ones(3, other))))


@pytest.mark.parametrize(("one", "other"), [(np.int32, np.uint32), (np.uint32, np.uint64), (np.int32, np.int64)])
def test_bits_of_wider_integers_and_of_others_of_their_kind(check, one, other):
    values = np.array([np.iinfo(other).max, 2, np.iinfo(other).max - 5], other)
    check(bits_at, lambda: (np.array([7, 8, 9], one), np.array([0, 1, 0]), values))


def sums_and_bits_of_all(x, k, v):
    for i in range(v.shape[0]):
        x[0] += v[i]
        x[1] |= k[i]
        x[2] ^= 6
        x[3] &= v[i] > 1


@pytest.mark.parametrize(("one", "other"), [(np.int64, np.uint64), (np.uint64, np.int64)])
def test_sums_of_all_may_have_another_sign_and_bits_meet_pythons_integers(check, one, other):
    check(sums_and_bits_of_all, lambda: (np.array([1, 2, 3, 7], one), np.array([4, 1, 8], one), np.array([2, 5, 1], other)))

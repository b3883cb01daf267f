"""Numbers of several types in one expression: of which type the result is."""

from __future__ import annotations

import numpy as np
import pytest

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

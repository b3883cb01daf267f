"""What Python calls on the CPU: it looks at arrays before it runs anything, and at nothing where it is told nothing."""

from __future__ import annotations

import ast
import sys

import numpy as np
import pytest
from numba.core import types

from qgraph.ir.functions import Function
from qgraph.lowering.numba_backend import cpu, cpu_runtime


@pytest.fixture(scope="module")
def add():
    tree = ast.parse("def add(x, n, y):\n    for i in range(n):\n        x[0, i] += y[i]").body[0]
    kinds = (types.float64[:, ::1], types.int64, types.Array(types.float64, 1, "A", readonly=True))
    code = Function("add", tree, {}, "<kernel>")
    return cpu.compile_control(code, kinds, watched=3, float_type="float64", fastmath=False).call


def arrays():
    y = np.arange(10.0)[::2]
    y.flags.writeable = False
    return np.zeros((2, 5)), y


def test_where_nothing_is_told_nobody_looks(add):
    x, y = arrays()
    assert add(x, 5, y, 0) is True
    np.testing.assert_array_equal(x, [y, np.zeros(5)])


def test_the_arrays_of_the_words(add):
    x, y = arrays()
    words, _held = cpu_runtime.places_of([x, y])
    for times in (1, 2):
        assert add(x, 5, y, words.ctypes.data) is True
        np.testing.assert_array_equal(x[0], times * y)
    # Others of the same memory are as good.
    assert add(x[:], 5, y[:], words.ctypes.data) is True


OTHERS = {
    "a list": lambda x, y: (x, [1.0]),
    "None": lambda x, y: (None, y),
    "a number": lambda x, y: (1.0, y),
    "a subclass": lambda x, y: (x.view(np.memmap), y),
    "another array": lambda x, y: (x.copy(), y),
    "another dtype": lambda x, y: (x.view(np.int64), y),
    "another order of bytes": lambda x, y: (x.view(">f8"), y),
    "fewer axes": lambda x, y: (x.reshape(10), y),
    "more axes": lambda x, y: (x.reshape(1, 2, 5), y),
    "one more axis behind": lambda x, y: (x, np.lib.stride_tricks.as_strided(y, (5, 1), (16, 8), writeable=False)),
    "no axes": lambda x, y: (np.array(1.0), y),
    "another shape": lambda x, y: (x.reshape(5, 2), y),
    "shorter": lambda x, y: (x, y[:4]),
    "other strides": lambda x, y: (x, np.lib.stride_tricks.as_strided(y, (5,), (8,), writeable=False)),
    "one that may be written": lambda x, y: (x, np.lib.stride_tricks.as_strided(y.base, (5,), (16,))),
    "swapped": lambda x, y: (y, x),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_arrays(add, change):
    x, y = arrays()
    words, _held = cpu_runtime.places_of([x, y])
    first, second = change(x, y)
    assert add(first, 5, second, words.ctypes.data) is False
    assert not x.any()
    assert add(x, 5, y, words.ctypes.data) is True


def test_arguments_that_are_missing_or_no_numbers_are_errors(add):
    x, y = arrays()
    for arguments in ((), (x, 5, y), (x, 5, y, 0, 0), (x, None, y, 0), (x, 5, y, -1), (x, 5, y, "0")):
        with pytest.raises((TypeError, OverflowError)):
            add(*arguments)
    assert not x.any()


def test_no_reference_is_left_or_lost(add):
    x, y = arrays()
    words, held = cpu_runtime.places_of([x, y])
    address = words.ctypes.data
    before = [sys.getrefcount(each) for each in (x, y, *held)]
    for _ in range(100):
        add(x, 5, y, address)
        add(x, 5, y, 0)
        add(y, 5, x, address)
    assert [sys.getrefcount(each) for each in (x, y, *held)] == before

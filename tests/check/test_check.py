"""``kernel.check`` where nothing is wrong, answers that depend on the order, what is not looked into, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest

import qgraph
from benchmarks.long_kernels import arrays, long_function
from qgraph.__main__ import main
from qgraph.checking.orders import differs
from tests.check import planted_races
from tests.conftest import thorough

pytestmark = pytest.mark.needs("compiler")


@qgraph.func
def shifted(row, k):
    """An index of its own, counted from the end."""
    return row[k - row.shape[0]]


@numba.njit
def doubled(row):
    """Nobody looks in here."""
    for k in range(row.shape[0]):
        row[k] *= 2.0


@qgraph.kernel
def right(x, y, idx, h, a, s):
    """Loops without a fault, of many kinds."""
    w = x[1:-1]
    t = qgraph.zeros(x.shape[0])
    for i in range(x.shape[0]):
        t[i] = x[-1 - i]
        s[0] += x[i]
    for i in range(idx.shape[0]):
        h[idx[i]] += 1
        if idx[i] < x.shape[0] and x[idx[i]] >= 0.0:
            y[i] = shifted(x, idx[i]) + t[i]
    for i in range(w.shape[0]):
        w[i] = y[i] + shifted(a[i % a.shape[0]], 1)
    for i in range(a.shape[0]):
        a[i, 1:] += np.sum(a[i])
        k = 0
        while k < a.shape[1] and a[i, k] < 3.0:
            k += 1
        a[i, 0] = k
    for i in range(idx.shape[0]):
        t[idx[i]] = 1.0
    x[0] = t[0]
    best, where = x[0], 0
    for i in range(x.shape[0]):
        if x[i] > best:
            best, where = x[i], i
    return best, where


def arguments():
    idx = np.array([3, 1, 0, 1, 7])
    return np.arange(8.0), np.zeros(8), idx, np.zeros(8, np.int64), np.arange(12.0).reshape(4, 3), np.zeros(1)


def test_nothing_is_found_and_nothing_is_changed():
    args = arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = right.check(*args)
    for before, after in zip(arguments(), args, strict=True):
        np.testing.assert_array_equal(before, after)
    assert (report.kernel, report.loops, report.orders, report.unchecked) == ("right", 7, 3, ())
    assert report.accesses > 100
    assert "no race" in str(report)


@qgraph.kernel
def compacted(x, out, count):
    """The order of what is kept is free."""
    for i in range(x.shape[0]):
        if x[i] > 2.0:
            k = qgraph.atomic_add(count, 0, 1)
            out[k] = x[i]


def test_an_answer_that_depends_on_the_order():
    with pytest.warns(qgraph.OrderDependentWarning, match=r"compacted\(\) depends on the order of iterations: `out` is"):
        compacted.check(np.arange(6.0), np.zeros(6), np.zeros(1, np.int64))


@qgraph.kernel
def summed(x, out):
    """A sum of floats by atomics, apart in the last places."""
    for i in range(x.shape[0]):
        out[i % 3] += x[i]


def test_sums_in_another_order_are_no_other_answer():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert summed.check(np.random.default_rng(1).standard_normal(1000) * 1e6, np.zeros(3)).orders == 3


@qgraph.kernel
def first_of_equal(x):
    """Ties go as in program order."""
    best, where = x[0], 0
    for i in range(x.shape[0]):
        if x[i] > best:
            best, where = x[i], i
    return best, where


@qgraph.kernel
def converged(x, r):
    """The last places of a sum decide how often the loop runs."""
    turns, rest = 0, 1.0
    while rest > 1e-15:
        rest = 0.0
        for i in range(x.shape[0]):
            rest += x[i]
        rest = abs(rest)
        for i in range(x.shape[0]):
            r[i] = rest
            x[i] = 0.5 * x[i]
        turns += 1
    return turns


def test_reductions_are_no_question_of_order():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first_of_equal.check(np.array([0.0, 1.0, 0.0, 1.0, 1.0])).orders == 3
        assert converged.check(np.array([1.0, 1e-16, -1.0, 1e-16]), np.zeros(4)).orders == 3


@qgraph.kernel
def updated_twice(total, x):
    """The first update never runs, and says nothing about where the others are."""
    for i in range(x.shape[0]):
        if not True and i != 2:
            total[()] += 1
        else:
            total[()] += x[i]
        qgraph.atomic_add(total, (), 3)


def test_updates_of_one_element_are_all_atomic_or_all_a_reduction():
    args = np.array(8), np.arange(3)
    assert "are atomic" in str(updated_twice.plan(*args))
    updated_twice.check(*args)


def test_what_differs():
    assert differs(np.array([1, 2]), np.array([1, 3]))
    assert differs(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-6]))
    assert not differs(np.array([1.0, 2.0]), np.array([1.0 + 1e-9, 2.0]))
    assert not differs(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert differs(np.array([np.nan]), np.array([1.0]))
    assert differs(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert differs(np.array([1j]), np.array([1.0 + 0j]))


@qgraph.kernel
def opaque(a, x, idx):
    """A function of Numba's gets rows, and one loop races."""
    for i in range(a.shape[0]):
        doubled(a[i])
    for i in range(idx.shape[0]):
        x[idx[i]] = a[i, 0]


def test_what_is_not_looked_into_is_said():
    a = np.arange(6.0).reshape(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = opaque.check(a, np.zeros(3), np.arange(3))
    assert len(report.unchecked) == 1
    assert "`doubled(a[i])`" in report.unchecked[0]
    with pytest.raises(qgraph.DataRaceError) as caught:
        opaque.check(a, np.zeros(3), np.array([0, 1, 1]))
    assert caught.value.unchecked == report.unchecked
    assert caught.value.__notes__ == [f"not checked: {report.unchecked[0]}"]


def test_all_findings_are_told_in_order():
    idx = planted_races.INDICES.copy()
    with pytest.raises(qgraph.DataRaceError) as caught:
        several.check(np.zeros(4), np.zeros(4), idx, np.array([0, 9]))
    assert [type(each).__name__ for each in caught.value.findings] == ["DataRaceError", "DataRaceError", "BoundsError"]
    assert "i = 1 and i = 3" in str(caught.value)


@qgraph.kernel
def several(x, y, idx, far):
    """Three faults."""
    for i in range(idx.shape[0]):
        x[idx[i]] = i
    for i in range(idx.shape[0]):
        y[idx[i]] = i
    for i in range(far.shape[0]):
        x[far[i]] = 0.0
    for i in range(far.shape[0]):
        y[far[i]] = 0.0


@qgraph.kernel
def surely(x):
    """A race for any sizes above one."""
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1]


def test_a_refused_call_is_a_finding():
    with pytest.raises(qgraph.DataRaceError) as caught:
        surely.check(np.zeros(4))
    assert caught.value.findings == (caught.value,)


def test_command(capsys):
    place = "tests.check.test_check:summed"
    assert main(["check", place, "--args", "np.zeros(4), np.zeros(3)"]) == 0
    assert "summed: 8 accesses in 1 parallel loop" in capsys.readouterr().out
    place = "tests.check.planted_races:of_vectors"
    assert main(["check", place, "--args", "1, *vectors()"]) == 1
    assert "DataRaceError: different iterations of this parallel loop write" in capsys.readouterr().err


def test_an_assertion_ends_a_check_as_it_ends_the_kernel():
    from tests.features import raising_kernels

    kernel = qgraph.kernel(raising_kernels.checked)
    x, y = np.arange(6.0), np.zeros(6)
    kernel.check(x, y, 10.0)
    with pytest.raises(AssertionError, match=r"the assertion `x\[i\] < limit` failed: too large, where i = 3\n"):
        kernel.check(x, y, 2.5)
    assert not y.any()
    loops = qgraph.kernel(raising_kernels.endless)
    with pytest.raises(AssertionError, match="where i = 5\n"):
        loops.check(np.arange(6.0), np.ones(1, np.int64))


@qgraph.kernel
def inside_of_a_matrix(m):
    for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
        m[i, j] = -1


def test_complex_numbers_stand_at_multiples_of_8_bytes():
    """A store compares the bits, on the stack, as one integer of 128: at a multiple of 8 it crashed, without optimisation."""
    program = "import numpy; from tests.check.test_check import inside_of_a_matrix as k; k.check(numpy.ones((4, 5), complex))"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "NUMBA_OPT": "0"}, check=True, timeout=300)


@pytest.mark.parametrize("kind", ["signs", *thorough("terms", "array_terms", "kernel_elifs")])
def test_deep_code(kind):
    """Deeper than Python's limit of calls within calls lets functions go that call themselves for each level."""
    assert qgraph.kernel(long_function(kind, 350)).check(*arrays()).accesses

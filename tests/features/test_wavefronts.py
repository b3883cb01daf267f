"""Nests of serial loops along wavefronts, `fuse=True`: Gauss-Seidel, dynamic programming, factorisations."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.dispatch import variant
from qgraph.options import BACKENDS

FRONTS = "along fronts of {}"
# What becomes of fronts whose iterations need only their own: a thread goes through all of them.
INSIDE = "`serial front` runs inside of each"


@pytest.fixture(autouse=True)
def on_every_backend(monkeypatch):
    """The CPU keeps the order: it takes fronts here, where each backend shall give what plain Python does."""
    monkeypatch.setattr(variant, "_IN_FRONTS", BACKENDS)


def gauss_seidel(x, y):
    for i in qgraph.serial(range(1, y.shape[0] - 1)):
        for j in qgraph.serial(range(1, y.shape[1] - 1)):
            y[i, j] = 0.25 * (y[i - 1, j] + y[i + 1, j] + y[i, j - 1] + y[i, j + 1]) + x[i, j]


def nine_points(x, y):
    for i in qgraph.serial(range(1, y.shape[0] - 1)):
        for j in qgraph.serial(range(1, y.shape[1] - 1)):
            above = y[i - 1, j - 1] + y[i - 1, j] + y[i - 1, j + 1]
            below = y[i + 1, j - 1] + y[i + 1, j] + y[i + 1, j + 1]
            y[i, j] = (above + y[i, j - 1] + y[i, j] + y[i, j + 1] + below) / 9 + x[i, j]


def sweeps(x, y):
    for _ in qgraph.serial(range(3)):
        for i in qgraph.serial(range(y.shape[0] - 2, 0, -1)):
            for j in qgraph.serial(range(1, y.shape[1] - 1)):
                y[i, j] += 0.5 * (y[i + 1, j] - y[i, j - 1]) * x[i, j]
        y *= 0.5


def both_down(x, y):
    for i in qgraph.serial(range(y.shape[0] - 2, -1, -1)):
        for j in qgraph.serial(range(y.shape[1] - 2, -1, -1)):
            y[i, j] = x[i, j] + 0.5 * (y[i + 1, j] + y[i, j + 1])


def common_subsequence(x, y):
    n, m = y.shape
    for i in qgraph.serial(range(1, n)):
        for j in qgraph.serial(range(1, m)):
            if (x[i, 0] > 0) == (x[0, j] > 0):
                y[i, j] = y[i - 1, j - 1] + 1.0
            else:
                y[i, j] = max(y[i - 1, j], y[i, j - 1])


def of_columns(x, y):
    for i in qgraph.serial(range(1, y.shape[0] - 1)):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = x[i, j] + 0.5 * y[i, j - 1] + 0.25 * x[i + 1, j - 1]


def brackets(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n - 1, -1, -1)):
        for j in qgraph.serial(range(i + 1, n)):
            y[i, j] = max(y[i, j], y[i, j - 1])
            if i + 1 < n:
                fits = 1.0 if x[i, 0] > x[0, j] else 0.0
                y[i, j] = max(y[i, j], y[i + 1, j - 1] + fits)
            for k in range(i + 1, j):
                y[i, j] = max(y[i, j], y[i, k] + y[k + 1, j])


def cholesky(x, y):
    y[:] = x @ x.T
    for i in range(y.shape[0]):
        y[i, i] += y.shape[0]
    for i in qgraph.serial(range(y.shape[0])):
        for j in qgraph.serial(range(i)):
            y[i, j] = (y[i, j] - np.dot(y[i, :j], y[j, :j])) / y[j, j]
        y[i, i] = np.sqrt(y[i, i] - np.dot(y[i, :i], y[i, :i]))


def lu(x, y):
    for i in range(y.shape[0]):
        y[i, i] += y.shape[0]
    for i in qgraph.serial(range(y.shape[0])):
        for j in qgraph.serial(range(i)):
            y[i, j] = (y[i, j] - y[i, :j] @ y[:j, j]) / y[j, j]
        for j in range(i, y.shape[0]):
            y[i, j] -= y[i, :i] @ y[:i, j]


def in_its_order(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in qgraph.serial(range(n)):
            y[i, j] += x[j, i]
        y[0, i] *= 2.0


def around_the_edges(x, y):
    for i in qgraph.serial(range(y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = x[i - 1, j - 2] - 0.5 * y[i, j - 1]


def read_once_more(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1] - 1)):
            y[i, j] = y[i - 1, j + 1] * 0.5 + y[i, j - 1]
            x[i, j] = y[i, j] - 1.0


def three_deep(x, y):
    n = max(min(y.shape[0], 9), 1)
    z = np.zeros((n, n, n))
    z[: y.shape[0], : y.shape[0]] = x[:n, :n, None]
    for i in qgraph.serial(range(1, n)):
        for j in qgraph.serial(range(1, n)):
            for k in qgraph.serial(range(1, n)):
                z[i, j, k] = (z[i - 1, j, k] + z[i, j - 1, k] + z[i, j, k - 1]) * 0.5
    y[:n, :n] = z[: y.shape[0], : y.shape[0], n - 1]


def with_names(x, y):
    n = min(y.shape[0], 6)
    for i in qgraph.serial(range(1, n)):
        for j in qgraph.serial(range(1, n - 1)):
            left, above = y[i, j - 1], y[i - 1, j]
            both = left + above
            if both > x[i, j]:
                both *= 0.5
            y[i, j] = both


def parts_of_other_ranges(x, y):
    for i in qgraph.serial(range(2, y.shape[0] - 1)):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = 0.5 * y[i, j - 1] + x[0, j]
        for k in range(y.shape[1]):
            x[i, k] += 1.0


def forward(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        for j in qgraph.serial(range(i)):
            y[i, 0] -= x[i, j] * y[j, 0] / 8.0
        y[i, 0] /= x[i, i] * x[i, i] + 1.0


KERNELS = {
    gauss_seidel: FRONTS.format("i + j"),
    nine_points: FRONTS.format("2*i + j"),
    sweeps: FRONTS.format("-i + j"),
    both_down: FRONTS.format("-i - j"),
    common_subsequence: FRONTS.format("i + j"),
    of_columns: INSIDE,
    brackets: FRONTS.format("-i + j"),
    cholesky: FRONTS.format("j, i"),
    lu: FRONTS.format("j, i"),
    in_its_order: FRONTS.format("j, i"),
    around_the_edges: INSIDE,
    with_names: FRONTS.format("i + j"),
    read_once_more: FRONTS.format("2*i + j"),
    three_deep: FRONTS.format("j + k"),
    parts_of_other_ranges: "serial i",
    forward: FRONTS.format("j, i"),
}


def matrices(n, seed=0):
    x, y = np.random.default_rng((seed, n)).normal(size=(2, n, n))
    return x, y


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 37])
@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_each_gives_what_the_loops_give(check, function, n):
    x, y = matrices(n)
    qgraph.kernel(function).reference(x, y)
    check(function, lambda: matrices(n), fuse=True, tolerance=1e-11, noop=np.array_equal(y, matrices(n)[1]))


@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_which_fronts_there_are(function, rig):
    assert KERNELS[function] in str(rig.kernel(function, fuse=True).plan(*matrices(7)))
    assert "front" not in str(rig.kernel(function).plan(*matrices(7)))


def test_a_cpu_takes_them_in_order(monkeypatch):
    monkeypatch.undo()
    plans = [str(qgraph.kernel(backend=name, fuse=True)(gauss_seidel).plan(*matrices(5))) for name in ("cpu", "cuda")]
    assert ["front" in plan for plan in plans] == [False, True]


# --- what stays in order ---


def of_a_number(x, y):
    last = 0.0
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            last = y[i, j - 1] + 0.5 * last
            y[i, j] = last + x[i, j]


def of_a_sum(x, y):
    total = 0.0
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] += y[i, j - 1]
            total += x[i, j]
    y[0, 0] = total


def of_the_last(x, y):
    kept = 0.0
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            kept = y[i, j - 1] + x[i, j]
            y[i, j] = kept
    y[0, 0] = kept


def of_the_variables(x, y):
    i = j = 0
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i, j - 1] + x[i, j]
    y[0, 0] = 10 * i + j


def from_part_to_part(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        scale = x[i, i]
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i, j - 1] * scale


def all_that_was_before(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i - 1, y.shape[1] - 1] + y[i, j - 1]


def anywhere(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[int(abs(x[i, j])), int(abs(x[j, i]))] + 1.0


def with_an_end(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            if x[i, j] > 1.0:
                break
            y[i, j] += y[i, j - 1]


def as_far_as_the_data_say(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, int(abs(x[i, 0])) + 1)):
            y[i, j] += y[i, j - 1]


def against_the_order(x, y):
    for i in qgraph.serial(range(y.shape[0] - 1)):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i + 1, 0] + y[i, j - 1] + x[i, j]
        y[i + 1, 0] = y[i, 3] + y[i, 5]


def of_the_inner_variable(x, y):
    j = 0
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i, j - 1] + x[i, j]
        y[i, 0] = 1.0 * j


def of_a_variable_that_changes(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(1, n)):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = y[i, j - 1] + x[i, j]
            i = min(i + 1, n - 1)


def of_a_bound_that_changes(x, y):
    last = 2
    for i in qgraph.serial(range(1, y.shape[0])):
        last = (i * 3) % 5 + 2
        for j in qgraph.serial(range(1, last)):
            y[i, j] = y[i - 1, j] + y[i, j - 1]


IN_ORDER = (
    *(of_the_inner_variable, of_a_variable_that_changes, of_a_bound_that_changes),
    *(of_a_number, of_a_sum, of_the_last, of_the_variables, from_part_to_part, all_that_was_before, anywhere, with_an_end),
    *(as_far_as_the_data_say, against_the_order),
)


@pytest.mark.parametrize("function", IN_ORDER, ids=lambda function: function.__name__)
def test_what_stays_in_order(check, function):
    kernel = check(function, lambda: matrices(8, 1), fuse=True, tolerance=1e-12)
    assert "front" not in str(kernel.plan(*matrices(8, 1)))


def of_two(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = x[i - 1, j] + 0.5 * y[i, j - 1]


def of_two_in_rows(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1] - 1)):
            y[i, j] = x[i - 1, j + 1] + 0.5 * y[i, j - 1]


@pytest.mark.parametrize(("function", "fronts"), [(of_two, "i + j"), (of_two_in_rows, "2*i + j")])
def test_arrays_that_share_memory(rig, function, fronts):
    """One array is two arguments: then the rows need each other; of parts of one nobody proves anything."""
    kernel, found, expected = rig.kernel(function, fuse=True), matrices(7)[0], matrices(7)[0]
    rig.run(kernel, found, found)
    function(expected, expected)
    np.testing.assert_allclose(found, expected, 1e-12)
    assert FRONTS.format(fronts) in str(kernel.plan(found, found))
    assert INSIDE in str(kernel.plan(*matrices(7)))
    if rig.backend != "cuda":
        found, expected = matrices(8)[0], matrices(8)[0]
        assert "front" not in str(kernel.plan(found[:-1], found[1:]))
        kernel(found[:-1], found[1:])
        function(expected[:-1], expected[1:])
        np.testing.assert_allclose(found, expected, 1e-12)


def of_another_part(y, u, v):
    n = y.shape[0]
    for i in qgraph.serial(range(1, n)):
        u[i] = y[0, i] + 1
        for j in qgraph.serial(range(1, n)):
            y[i, j] = y[i, j - 1] + v[i]


def test_parts_that_meet_in_arrays_that_overlap(check, backend):
    """Each of the parts touches one of the two."""

    def some(shift):
        def given():
            x = np.arange(20.0)
            return np.arange(64.0).reshape(8, 8), x[:8], x[shift : shift + 8]

        return given

    for shift in (1, 10) if backend != "cuda" else (10,):
        kernel = check(of_another_part, some(shift), fuse=True)
        assert ("front" in str(kernel.plan(*some(shift)()))) is (shift == 10)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_integers_are_the_same_to_the_last_bit(check, dtype):
    def integers():
        return tuple(np.random.default_rng(3).integers(0, 100, (2, 9, 9)).astype(dtype))

    kernel = check(whole, integers, fuse=True)
    assert FRONTS.format("i + j") in str(kernel.plan(*integers()))


def whole(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        for j in qgraph.serial(range(1, y.shape[1])):
            y[i, j] = max(y[i - 1, j], y[i, j - 1]) ^ x[i, j]


def substituted(a, b):
    for i in qgraph.serial(range(a.shape[0])):
        for j in qgraph.serial(range(a.shape[1])):
            a[i, j] -= a[i, :j] @ b[:j]


def test_lengths_that_differ_are_an_error_still(rig):
    kernel = rig.kernel(substituted, fuse=True)
    a, b = np.random.default_rng(0).normal(size=(6, 6)), np.linspace(0, 1, 6)
    found, expected = a.copy(), a.copy()
    rig.run(kernel, found, b)
    substituted(expected, b)
    np.testing.assert_allclose(found, expected, 1e-12)
    with pytest.raises(qgraph.ArgumentError, match="different lengths"):
        kernel(rig.device(a), rig.device(b[:3]))
        qgraph.synchronize()

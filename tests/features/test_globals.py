"""Arrays in global and closure variables: arguments that no caller passes."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import qgraph

# On cuda they are NumPy arrays all the same, which are copied in and out.
pytestmark = pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")

TABLE = np.arange(5)
WEIGHTS = np.array([0.5, 2.0, 3.0])
COUNTS = np.zeros(4, np.int64)
SELF = sys.modules[__name__]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Every test may write and rebind the arrays."""
    for name in ("TABLE", "WEIGHTS", "COUNTS"):
        monkeypatch.setattr(SELF, name, getattr(SELF, name).copy())


def compare(rig, kernel, args, *names):
    """The kernel and plain Python do the same to the arguments and to the globals ``names``."""
    before = {name: getattr(SELF, name) for name in names}
    expected, actual = args(), args()
    copies = {name: array.copy() for name, array in before.items()}
    for name, copy in copies.items():
        setattr(SELF, name, copy)
    wanted = kernel.reference(*expected)
    for name, array in before.items():
        setattr(SELF, name, array)
    result = rig.run(kernel, *actual)
    for got, want in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    for name, copy in copies.items():
        assert getattr(SELF, name) is before[name]
        np.testing.assert_array_equal(before[name], copy)
    assert result == wanted


def look_up(x):
    for i in range(x.shape[0]):
        x[i] = TABLE[x[i] % TABLE.shape[0]] * 10 + len(TABLE)


def test_a_global_array_is_read(rig):
    kernel = rig.kernel(look_up)
    compare(rig, kernel, lambda: (np.arange(9),), "TABLE")
    TABLE[:] = [7, 5, 3, 2, 1]  # in place: the same object
    compare(rig, kernel, lambda: (np.arange(9),), "TABLE")
    assert kernel.stats.compilations == 1


def test_a_name_that_is_bound_to_another_array(rig, monkeypatch):
    kernel = rig.kernel(look_up)
    for _ in range(3):
        compare(rig, kernel, lambda: (np.arange(9),), "TABLE")
    monkeypatch.setattr(SELF, "TABLE", np.array([4, 3, 9, 1, 1, 1, 8]))
    for _ in range(3):
        compare(rig, kernel, lambda: (np.arange(9),), "TABLE")
    assert kernel.stats.compilations == 1
    monkeypatch.setattr(SELF, "TABLE", np.array([4, 3, 9], np.int32))
    compare(rig, kernel, lambda: (np.arange(9),), "TABLE")
    assert kernel.stats.compilations == 2


def count(x):
    total = 0
    for i in range(x.shape[0]):
        COUNTS[x[i] % 4] += 1
        total += x[i]
    COUNTS[0] += total
    COUNTS[2:] = COUNTS[2:] * 2
    return total, COUNTS[0]


def test_a_global_array_is_written(rig):
    kernel = rig.kernel(count)
    for _ in range(3):
        compare(rig, kernel, lambda: (np.arange(11),), "COUNTS")
    assert kernel.stats.compilations == 1


@qgraph.func
def weight(k):
    return WEIGHTS[k]


@qgraph.func
def weighted(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * weight(i % 3) + SELF.TABLE[1]
    return s


def through_funcs(x, TABLE):
    total = weighted(x)
    while total > 10.0:
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + TABLE[i] * WEIGHTS[0] - weight(2) * 0.125
        total = weighted(x) - 8.0
    x[0] = total


def test_arrays_of_funcs_and_modules(rig):
    kernel = rig.kernel(through_funcs)
    compare(rig, kernel, lambda: (np.arange(6.0), np.full(6, 0.25)), "WEIGHTS", "TABLE")


def slices(x):
    part = WEIGHTS[1:]
    part[:] = part * 2
    COUNTS[:] = 5
    WEIGHTS[0] = np.sum(x)
    for i in range(part.shape[0]):
        x[i] += part[i] + WEIGHTS[0]
    return WEIGHTS[0], np.max(COUNTS)


def test_slices_and_views_of_global_arrays(rig):
    kernel = rig.kernel(slices)
    for _ in range(2):
        compare(rig, kernel, lambda: (np.arange(6.0),), "WEIGHTS", "COUNTS")


def closure(table):
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += table[i]
            table[i] = 7

    def rebind(other):
        nonlocal table
        table = other

    return kernel, rebind


def test_a_closure_array(rig):
    first, second = np.arange(4) * 10, np.arange(4) * 100
    function, rebind = closure(first)
    kernel = rig.kernel(function)
    x = np.zeros(4, np.int64)
    rig.run(kernel, x)
    assert x.tolist() == [0, 10, 20, 30]
    assert first.tolist() == [7] * 4
    rebind(second)
    rig.run(kernel, x)
    assert x.tolist() == [0, 110, 220, 330]
    assert second.tolist() == [7] * 4
    assert kernel.stats.compilations == 1


def test_two_kernels_of_one_function_have_their_own_closures(rig):
    for factor in (10, 100):
        table = np.arange(4) * factor
        x = np.zeros(4, np.int64)
        rig.run(rig.kernel(closure(table)[0]), x)
        assert x.tolist() == [0, factor, 2 * factor, 3 * factor]


def passed_too(x):
    for i in range(TABLE.shape[0]):
        x[i] = TABLE[i] + 1


def test_the_same_array_as_an_argument(rig, monkeypatch):
    if rig.backend == "cuda":
        monkeypatch.setattr(SELF, "TABLE", rig.device(TABLE))
    rig.kernel(passed_too)(TABLE)
    assert qgraph.to_numpy(TABLE).tolist() == [1, 2, 3, 4, 5]


def test_an_array_on_the_device(rig, monkeypatch):
    monkeypatch.setattr(SELF, "COUNTS", rig.device(COUNTS))
    x = rig.device(np.arange(11))
    kernel = qgraph.kernel(count) if rig.backend == "cuda" else rig.kernel(count)
    assert kernel(x) == (55, 58)
    assert qgraph.to_numpy(COUNTS).tolist() == [58, 3, 6, 4]
    assert kernel.last_launch.path.startswith(rig.backend)


def now_a_number(x):
    for i in range(x.shape[0]):
        x[i] += CHANGING


CHANGING: object = 5


def adds_from(x):
    for i in range(x.shape[0]):
        x[i] += CHANGING[i]  # type: ignore[index]


def test_an_array_that_becomes_a_number_and_back(rig, monkeypatch):
    numbers, arrays = rig.kernel(now_a_number), rig.kernel(adds_from)
    for value in (5, np.array([3, 4]), 2, np.array([7, 8])):
        monkeypatch.setattr(SELF, "CHANGING", value)
        right, wrong = (numbers, arrays) if isinstance(value, int) else (arrays, numbers)
        x = np.zeros(2, np.int64)
        with pytest.raises((qgraph.QGraphError, TypeError, ValueError)):  # NumPy says it on the simulator
            rig.run(wrong, x)
        rig.run(right, x)
        assert x.tolist() == np.broadcast_to(value, 2).tolist()


def test_bind_owns_the_arrays_of_now(rig, monkeypatch):
    kernel = rig.kernel(adds_from)
    monkeypatch.setattr(SELF, "CHANGING", rig.device(np.array([1, 2])))
    x = rig.device(np.zeros(2, np.int64))
    bound = kernel.bind(x)
    monkeypatch.setattr(SELF, "CHANGING", rig.device(np.array([10, 20])))
    bound.launch()
    bound.launch()
    assert qgraph.to_numpy(x).tolist() == [2, 4]
    kernel(x)
    assert qgraph.to_numpy(x).tolist() == [12, 24]


def in_one_type_or_the_other(x, mode: qgraph.Static):
    s = 0.0
    for i in range(x.shape[0]):
        s += 0.1
        if qgraph.static(mode == "double"):
            x[i] += WEIGHTS[i]
    return s


def test_the_float_type_follows_the_arrays_in_use(rig):
    kernel = rig.kernel(in_one_type_or_the_other)
    for mode in ("single", "double", "single"):
        result = rig.run(kernel, np.zeros(3, np.float32), mode)
        assert (abs(result - 0.3) < 1e-12) == (mode == "double")
        assert abs(result - 0.3) < 1e-6


def test_plan_names_the_array():
    text = str(qgraph.kernel(look_up).plan(np.arange(3)))
    assert "TABLE" in text


def in_static(x):
    for i in range(x.shape[0]):
        x[i] = qgraph.static(TABLE[0])


def wrong_kind(x):
    for i in range(x.shape[0]):
        x[i] = CHANGING[i]  # type: ignore[index]


HOLDER = types.SimpleNamespace(table=np.arange(3))
PAIR = (np.arange(3), np.arange(4))


def in_a_tuple(x):
    for i in range(x.shape[0]):
        x[i] = PAIR[0][i]


def test_what_is_refused(rig, monkeypatch):
    x = np.arange(3)
    with pytest.raises(qgraph.KernelSyntaxError, match=r"`TABLE\[...\]` is not known at compile time"):
        rig.run(rig.kernel(in_static), x)
    monkeypatch.setattr(SELF, "CHANGING", np.array(["a", "b", "c"]))
    with pytest.raises(qgraph.ArgumentError, match="argument `CHANGING`"):
        rig.run(rig.kernel(wrong_kind), x)
    with pytest.raises(qgraph.KernelSyntaxError, match="an array inside a global object"):
        rig.run(rig.kernel(in_a_tuple), x)
    readonly = np.arange(4)
    readonly.flags.writeable = False
    monkeypatch.setattr(SELF, "COUNTS", readonly)
    with pytest.raises(qgraph.ArgumentError, match="`COUNTS` is read-only"):
        rig.run(rig.kernel(count), x)

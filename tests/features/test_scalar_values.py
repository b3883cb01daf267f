"""``qgraph.scalar``: a value that is updated between launches; and numbers that a bound launch takes anew."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def scaled(x, alpha):
    for i in range(x.shape[0]):
        x[i] = x[i] * alpha[()] + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "complex128"])
def test_updates_are_seen(rig, dtype):
    alpha = qgraph.scalar(dtype, 2, backend=rig.backend)
    kernel = rig.kernel(scaled)
    x = rig.device(np.arange(10).astype(dtype))
    wanted = np.arange(10).astype(dtype)
    for value in (2, 3, 1, 0, 2):
        alpha.update(value)
        kernel(x, alpha)
        wanted = (wanted * np.dtype(dtype).type(value) + 1).astype(dtype)
    np.testing.assert_array_equal(qgraph.to_numpy(x), wanted)
    assert alpha.value == 2
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1
    other = qgraph.scalar(dtype, 5, backend=rig.backend)
    kernel(x, other)
    assert kernel.stats.compilations == 1
    assert other.shape == ()
    assert other.dtype == dtype


def test_a_bound_launch_sees_updates(rig):
    alpha = qgraph.scalar(np.float64, 2.0, backend=rig.backend)
    x = rig.device(np.ones(5))
    bound = rig.kernel(scaled).bind(x, alpha)
    for value in (2.0, 0.5, 3.0):
        alpha.update(value)
        bound.launch()
    np.testing.assert_array_equal(qgraph.to_numpy(x), ((1 * 2 + 1) * 0.5 + 1) * 3 + 1)


def test_of_a_reference():
    alpha = qgraph.scalar(np.float32, 0.5, backend="cpu")
    x = np.ones(3)
    qgraph.kernel(scaled).reference(x, alpha)
    np.testing.assert_array_equal(x, 1.5)


def kept(y, alpha):
    t = alpha + 1.0
    u = t
    t += 1.0
    y[0] = u
    y[1] = t
    for i in range(2, y.shape[0]):
        y[i] = alpha * i


def test_as_a_number(rig):
    x, y = np.zeros(6), rig.device(np.zeros(6))
    kernel = rig.kernel(kept)
    kernel.reference(x, qgraph.scalar(np.float64, 2.5, backend="cpu"))
    kernel(y, qgraph.scalar(np.float64, 2.5, backend=rig.backend))
    np.testing.assert_array_equal(x, [3.5, 4.5, 5, 7.5, 10, 12.5])
    np.testing.assert_array_equal(qgraph.to_numpy(y), x)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int32", 2**31), ("uint8", -1), ("uint8", 256), ("float64", 1j), ("int64", 1.5), ("int64", "three"), ("float32", [1.0])],
)
def test_what_a_type_does_not_hold(rig, dtype, value):
    with pytest.raises(qgraph.ArgumentError, match="is no value of"):
        qgraph.scalar(dtype, value, backend=rig.backend)
    alpha = qgraph.scalar(dtype, 1, backend=rig.backend)
    with pytest.raises(qgraph.ArgumentError, match="is no value of"):
        alpha.update(value)
    assert alpha.value == 1


# --- bound launches ----------------------------------------------------------------------------------------------------


def stepped(x, n, alpha=1.0):
    for i in range(n):
        x[i] += alpha


def test_a_bound_launch_takes_other_numbers(rig):
    x = rig.device(np.zeros(6))
    bound = rig.kernel(stepped).bind(x, 4, alpha=0.5)
    wanted = np.zeros(6)
    for numbers in ({}, {"alpha": 2.0}, {}, {"n": 6, "alpha": 1.0}, {"n": 0}, {}, {}):
        bound.launch(**numbers)
        wanted[: numbers.get("n", 4)] += numbers.get("alpha", 0.5)
    np.testing.assert_array_equal(qgraph.to_numpy(x), wanted)


def shifted(x, k):
    for i in range(k, x.shape[0]):
        x[i] = x[i - k] + 1


def test_other_numbers_are_judged(rig):
    x = rig.device(np.zeros(6))
    bound = rig.kernel(shifted).bind(x, 6)
    bound.launch(k=5)
    with pytest.raises(qgraph.DataRaceError):
        bound.launch(k=1)
    bound.launch()
    np.testing.assert_array_equal(qgraph.to_numpy(x), [0, 0, 0, 0, 0, 1])


def test_what_a_bound_launch_does_not_take(rig):
    x = rig.device(np.zeros(6))
    bound = rig.kernel(stepped).bind(x, 4)
    for numbers, words in (
        ({"beta": 1.0}, "no argument `beta`"),
        ({"alpha": 1}, "launched with int"),
        ({"x": rig.device(np.ones(6))}, "`x` was bound as \\w+, no number"),
        ({"n": 4.0}, "launched with float"),
    ):
        with pytest.raises(qgraph.ArgumentError, match=words):
            bound.launch(**numbers)
    assert not qgraph.to_numpy(x).any()


def used_as_a_number(x, w, a, k):
    s = a + 1.0
    t = -a if a > k else a * k
    for i in range(x.shape[0]):
        x[i] = a * i + abs(a) + min(a, 3.0) + (a if k < 3 else 1.0) + w[k % 4] + float(k)
    for i in range(x.shape[0]):
        x[i] += s + t + np.sqrt(a) + (i + k) % 3
    for i in range(x.shape[0]):
        x[i] += a
        w[i] = k
        u = 1.0
        u *= a
        x[i] -= u + np.where(a > 1, a, 2.0) * np.clip(a, 0.0, 2.0) + int(a)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_an_array_without_axes_is_a_number_in_arithmetic(rig, dtype):
    rig.check(
        used_as_a_number,
        lambda: (np.zeros(5), np.arange(5.0), np.array(2.25, "float32").astype(dtype), np.array(2)),
        tolerance=1e-6,
    )


def rounded(x, a):
    x[0] = round(a)


def test_what_python_refuses_of_an_array_without_axes(rig):
    x, a = np.zeros(1), np.array(2.5)
    kernel = rig.kernel(rounded)
    with pytest.raises(TypeError):
        kernel.reference(x, a)
    with pytest.raises(qgraph.QGraphError, match="round"):
        kernel(rig.device(x), rig.device(a))


def changed_by_another_name(x, a):
    for i in range(x.shape[0]):
        t = a
        t += 1
        x[i] = t[()]


def test_another_name_of_an_array_without_axes_is_no_copy(rig):
    x, a = rig.device(np.zeros(4)), rig.device(np.array(2.5))
    with pytest.raises(qgraph.DataRaceError, match="write the same element `t`"):
        rig.kernel(changed_by_another_name)(x, a)
    assert not qgraph.to_numpy(x).any()


def summed(x, a):
    for i in range(x.shape[0]):
        a[()] += x[i]


@qgraph.func
def add(a, value):
    a[()] += value


def summed_by_a_func(x, a):
    for i in range(x.shape[0]):
        add(a, x[i])


def copied(x, a):
    for i in range(x.shape[0]):
        t = a[()]
        t += 1
        x[i] = t


@pytest.mark.parametrize("function", [summed, summed_by_a_func, copied])
def test_the_element_of_an_array_without_axes_is_a_number(rig, function):
    rig.check(function, lambda: (np.arange(10.0), np.array(2.5)))


def whole(x, a):
    for i in range(x.shape[0]):
        a[...] = x[i]


def test_all_of_an_array_without_axes_is_one_element(rig):
    with pytest.raises(qgraph.DataRaceError):
        rig.kernel(whole)(rig.device(np.zeros(4)), rig.device(np.array(2.5)))

"""Arrays in host callbacks: what the function gets, what it may write, and the order of both with everything around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def note(*values):
    SEEN.append([value.copy() if isinstance(value, np.ndarray) else value for value in values])


def twice(x, *_others):
    x *= 2


def finish(kernel, *args):
    """Call the kernel and wait: what a host callback raised is raised here at the latest."""
    result = kernel(*args)
    qgraph.synchronize()
    return result


def compare(rig, function, *arrays, numbers=(), **options):
    """Run the kernel on the backend and as plain Python: arrays and what callbacks noted are the same."""
    given = [rig.device(array.copy(order="A")) for array in arrays]
    finish(rig.kernel(function, **options), *given, *numbers)
    seen = list(SEEN)
    SEEN.clear()
    expected = [array.copy(order="A") for array in arrays]
    qgraph.kernel(function).reference(*expected, *numbers)
    for found, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(found), wanted)
    assert len(seen) == len(SEEN)
    for found, wanted in zip(seen, SEEN, strict=True):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            # A number arrives as Python's.
            assert getattr(a, "dtype", None) == (b.dtype if isinstance(b, np.ndarray) else None)
    SEEN.clear()


def around(x, m, a):
    for i in range(x.shape[0]):
        x[i] += a
    qgraph.host_callback(note, x, a, m, x[1], "text")
    for i, j in qgraph.ndrange(*m.shape):
        m[i, j] = -1
    qgraph.host_callback(note, m, x)


@pytest.mark.parametrize("options", [{}, {"graph": False}, {"conditional": "host"}])
def test_the_function_gets_the_elements_of_that_point(rig, options):
    compare(rig, around, np.arange(5.0), np.arange(6, dtype=np.int16).reshape(2, 3), numbers=(0.5,), **options)


def changed(x, y, m):
    for i in range(x.shape[0]):
        x[i] += 1
        y[i] = x[i]
    qgraph.host_callback(twice, x, y)
    for i in range(x.shape[0]):
        y[i] += x[i]
    qgraph.host_callback(twice, m, x, writes=m)
    for i in range(x.shape[0]):
        y[i] += m[1, 0]


@pytest.mark.parametrize("options", [{}, {"graph": False}, {"conditional": "host"}])
def test_what_the_function_writes_is_there_afterwards(rig, options):
    compare(rig, changed, np.arange(5.0), np.zeros(5), np.arange(6.0).reshape(2, 3), **options)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "complex128"])
def test_every_type_and_shape(rig, dtype):
    def kernel(x, m, f, none, single):
        qgraph.host_callback(note, x, m, f, none, single, writes=())
        qgraph.host_callback(turned, f, m)
        qgraph.host_callback(note, x, m, f, none, single)

    arrays = [np.arange(5), np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(3, 2))]
    arrays += [np.zeros((0, 3)), np.array(3)]
    compare(rig, kernel, *(array.astype(dtype) for array in arrays))


def turned(f, m):
    f[...] = m.T[::-1]


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_temporaries_and_globals(rig):
    def kernel(x, out):
        t = qgraph.empty_like(x)
        t[:] = x + WEIGHTS[0]
        qgraph.host_callback(twice, t)
        qgraph.host_callback(note, WEIGHTS, t, writes=())
        out[:] = t

    compare(rig, kernel, np.arange(4.0), np.zeros(4))


WEIGHTS = np.array([2.0, 3.0])


def test_a_func_passes_its_own_arrays(rig):
    @qgraph.func
    def report(a, f):
        t = qgraph.zeros(a.shape[0])
        t[:] = a
        qgraph.host_callback(f, t, a, writes=(t,))
        a[:] = t

    def kernel(x, y):
        report(x, twice)
        report(y, twice)

    compare(rig, kernel, np.arange(4.0), np.arange(7.0))


def kept(x, writes_nothing):
    with pytest.raises(ValueError, match="read-only"):
        writes_nothing[0] = 1
    x[0] = writes_nothing[0] + 5


def test_what_is_not_named_cannot_be_written(rig):
    def kernel(x, y):
        qgraph.host_callback(kept, x, y, writes=(x,))

    compare(rig, kernel, np.arange(3.0), np.arange(3.0))


@pytest.mark.needs("host_arrays")
def test_a_read_only_array_counts_as_read(rig):
    def kernel(x, y):
        qgraph.host_callback(kept, x, y)

    y = np.arange(3.0)
    y.flags.writeable = False
    x = np.zeros(3)
    finish(rig.kernel(kernel), x, y)
    assert x.tolist() == [5, 0, 0]


def test_each_launch_has_its_own_sizes(rig):
    def kernel(x, a):
        for i in range(x.shape[0]):
            x[i] += a
        qgraph.host_callback(note, x)
        qgraph.host_callback(twice, x)

    k = rig.kernel(kernel)
    sizes = (3, 5, 0, 4, 1000, 3)
    arrays = [rig.device(np.zeros(n)) for n in sizes]
    for number, x in enumerate(arrays):
        k(x, float(number))
    bound = k.bind(arrays[1], 1.0)
    for _ in range(3):
        bound.launch()
    qgraph.synchronize()
    assert [len(seen[0]) for seen in SEEN] == [*sizes, 5, 5, 5]
    assert all((seen[0] == number).all() for number, seen in enumerate(SEEN[:6]))
    assert [seen[0][0] for seen in SEEN[6:]] == [3, 7, 15]
    assert [qgraph.to_numpy(x)[:1].tolist() for x in arrays] == [[0], [30], [], [6], [8], [10]]
    assert k.stats.compilations == 1


def test_one_array_under_two_names(rig):
    def plain(x, y):
        qgraph.host_callback(both, x, y)
        qgraph.host_callback(both, x, y, writes=y)
        for i in range(x.shape[0]):
            y[i] += x[i]

    x, expected = rig.device(np.arange(4.0)), np.arange(4.0)
    finish(rig.kernel(plain), x, x)
    plain(expected, expected)
    np.testing.assert_array_equal(qgraph.to_numpy(x), expected)
    assert SEEN == [(True, True)] * 4


def both(x, y):
    y += 1
    y[:] = 2 * x + y[::-1]
    SEEN.append((x.flags.writeable, y.flags.writeable))


def test_parts_of_one_array_that_overlap_are_refused_before_anything_runs(rig):
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 7.0
        qgraph.host_callback(note, x, y)

    def reading(x, y):
        qgraph.host_callback(note, x, y, writes=())

    z = rig.device(np.arange(6.0))
    with pytest.raises(qgraph.ArgumentError, match="share memory"):
        rig.kernel(kernel)(z[:4], z[2:])
    assert qgraph.to_numpy(z).tolist() == [0, 1, 2, 3, 4, 5]
    finish(rig.kernel(reading), z[:4], z[2:])
    assert [array.tolist() for array in SEEN[0]] == [[0, 1, 2, 3], [2, 3, 4, 5]]


def test_a_callback_may_call_the_kernel_again(rig):
    if rig.backend == "cuda":
        pytest.skip("host callbacks may not use CUDA")

    def kernel(x):
        qgraph.host_callback(again, x)
        qgraph.host_callback(note, x)

    k = rig.kernel(kernel)

    def again_(x):
        if len(x) > 2:
            k(x[2:].copy())
            x[0] = 9

    INNER.append(again_)
    finish(k, np.arange(5.0))
    assert [seen[0].tolist() for seen in SEEN] == [[4], [9, 3, 4], [9, 1, 2, 3, 4]]


INNER: list[Any] = []


def again(x):
    INNER[-1](x)


def spoil(x):
    x[0] = 8
    raise LookupError("spoilt")


def test_an_exception_leaves_what_was_written(rig):
    def kernel(x):
        qgraph.host_callback(spoil, x)

    k = rig.kernel(kernel)
    x = rig.device(np.arange(3.0))
    for _ in range(2):
        with pytest.raises(LookupError, match="spoilt"):
            finish(k, x)
    assert qgraph.to_numpy(x)[0] == 8


def test_the_plan():
    def kernel(x, y, z):
        for i in range(z.shape[0]):
            z[i] = 1.0
        qgraph.host_callback(note, x, y, x, writes=y)
        for i in range(z.shape[0]):
            z[i] += x[i]
        for i in range(z.shape[0]):
            y[i] += 1

    plan = qgraph.kernel(kernel).plan(*(np.zeros(3) for _ in range(3)))
    copies = [node.label for node in plan.nodes if node.kind == "memcpy"]
    assert copies == ["memcpy of x for note(...)", "memcpy of y for note(...)", "memcpy of y back from note(...)"]
    # Copies wait for nothing but what wrote their arrays, and only who needs y waits for it.
    assert plan.edges == ((0, 3), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6))

"""``qgraph.unique``: the elements and counts of ``np.unique``, as many as the data have."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from tests.conftest import POISON


@pytest.fixture(autouse=True)
def _library(request):
    # A sort and a sum of a library's.
    if "backend" in request.fixturenames and request.getfixturevalue("backend") == "cuda":
        pytest.importorskip("torch")


def counted(x, values, counts):
    n = qgraph.unique(x, values, counts)
    return n


def expected(x):
    """What NumPy says of ``x``, in arrays that were poisoned."""
    values, counts = np.full_like(x, POISON), np.full(len(x), POISON)
    found, numbers = np.unique(x, return_counts=True)
    values[: len(found)], counts[: len(found)] = found, numbers
    return len(found), values, counts


def compare(rig, kernel, x):
    given = [rig.device(each) for each in (x, np.full_like(x, POISON), np.full(len(x), POISON))]
    n = kernel(*given)
    wanted, values, counts = expected(x)
    assert n == wanted
    np.testing.assert_array_equal(qgraph.to_numpy(given[1]), values)
    np.testing.assert_array_equal(qgraph.to_numpy(given[2]), counts)


ARRAYS = [
    [3, 1, 3, 2, 1, 1, 9],
    [],
    [5],
    [4, 4, 4],
    [*range(20, 0, -1)],
    [*np.random.default_rng(0).integers(0, 9, 100)],
]


@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_it_is_numpys(rig, dtype):
    kernel = rig.kernel(counted)
    for array in ARRAYS:
        compare(rig, kernel, np.array(array, dtype))
    assert kernel.stats.compilations == 1


def test_all_nans_are_one(rig):
    kernel = rig.kernel(counted)
    nan, inf = np.nan, np.inf
    for array in ([nan, 1, nan, -inf, inf, nan, inf], [nan], [nan, nan], [1, nan]):
        compare(rig, kernel, np.array(array, np.float32))


def test_plain_python_is_numpys_too():
    for array in ([3.0, 1, np.nan, 3, np.nan], [], [True, False, True], [1j, 2, 1j]):
        x = np.array(array)
        values, counts = np.full_like(x, POISON), np.full(len(x), POISON)
        n, *wanted = expected(x)
        assert qgraph.unique(x, values, counts) == n
        np.testing.assert_array_equal(values, wanted[0])
        np.testing.assert_array_equal(counts, wanted[1])


def test_parts_conversions_and_in_place(check):
    def kernel(x, m, out, places):
        n = qgraph.unique(x[::2], out[1:])
        w = m[1]
        out[0] = n + qgraph.unique(w, w, counts=places)
        return n

    def args():
        x, m = np.array([3, 0, 3, 0, 1, 0]), np.array([[0.0, 0, 0], [7, 5, 7]])
        return x, m, np.full(9, POISON, np.float32), np.full(4, POISON, np.int8)

    check(kernel, args)


def test_in_device_loops_and_branches(check):
    def kernel(x, values, counts, turns):
        n = x.shape[0]
        while n > 3:
            n = qgraph.unique(x, values, counts)
            for i in range(x.shape[0]):
                x[i] = x[i] // 2
            turns[0] += n
        if turns[0] > 5:
            turns[1] = qgraph.unique(counts, counts)

    check(kernel, lambda: (np.array([19, 3, 8, 5, 5, 8, 2]), *(np.full(9, POISON) for _ in range(3))))


@pytest.mark.parametrize("room", [(2, 9), (9, 2)])
def test_too_little_room_is_told(rig, room):
    def kernel(x, values, counts):
        n = qgraph.unique(x, values, counts)
        counts[-1] = n

    arrays = [rig.device(each) for each in (np.arange(4.0), np.zeros(room[0]), np.zeros(room[1], np.int64))]
    with pytest.raises(qgraph.ArgumentError, match="has length 4, and .* has length 2"):
        rig.kernel(kernel)(*arrays)
        qgraph.synchronize()
    with pytest.raises(ValueError, match="could not broadcast"):
        qgraph.unique(*(qgraph.to_numpy(each) for each in arrays))


def test_neither_it_nor_its_loops_are_in_doubt():
    x = np.arange(4.0)
    plan = qgraph.kernel(counted).plan(x, x.copy(), np.zeros(4, np.int64))
    assert {task.verdict.kind for task in plan.tasks if task.verdict is not None} <= {"independent", "asserted"}
    assert [node.kind for node in plan.nodes].count("library") == 2


@pytest.mark.needs("compiler")
def test_its_kernels_compile_for_a_device():
    x = np.arange(4, dtype=np.float32)
    texts = qgraph.kernel(counted, backend="cuda").ptx(x, x.copy(), np.zeros(4, np.int64))
    assert len(texts) > 3
    # The comparisons of a float32 array are its own.
    assert not any(".f64" in text for text in texts.values())

"""A loop of which nothing proves that it is parallel runs, and says so: once, at the caller's line, with both accesses."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import qgraph

pytestmark = pytest.mark.filterwarnings("default::qgraph.AssumedParallelWarning")


def told(call):
    """What ``call`` warns of, every time that it does."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [each for each in found if issubclass(each.category, qgraph.AssumedParallelWarning)]


def scatter_args():
    return np.zeros(6), np.arange(6)


def test_it_is_told_once_at_the_callers_line(rig):
    @qgraph.kernel(backend=rig.backend)
    def scatter(x, index):
        for i in range(index.shape[0]):
            x[index[i]] = i

    held = [rig.device(each) for each in scatter_args()]
    (warning,) = told(lambda: scatter(*held))
    assert warning.filename == __file__
    text = str(warning.message)
    assert "`x[index[i]]` is written here" in text
    assert "qgraph.parallel(range(index.shape[0]))" in text
    assert "qgraph.serial(range(index.shape[0]))" in text
    assert text.count("-->") == 2
    # The same loop, for arguments of other types too.
    assert told(lambda: scatter(*held)) == []
    assert told(lambda: scatter(rig.device(np.zeros(6, np.float32)), held[1])) == []


def test_as_an_error_it_comes_before_anything_runs_and_comes_again(rig):
    @qgraph.kernel(backend=rig.backend)
    def scatter(x, index):
        for i in range(index.shape[0]):
            x[index[i]] = i + 1

    x, index = (rig.device(each) for each in scatter_args())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(qgraph.AssumedParallelWarning, match="nothing proves"):
                scatter(x, index)
    np.testing.assert_array_equal(qgraph.to_numpy(x), np.zeros(6))


def test_both_accesses_are_shown(rig):
    @qgraph.kernel(backend=rig.backend)
    def relax(x, index):
        for i in range(index.shape[0]):
            x[i] = x[index[i]] + 1

    (warning,) = told(lambda: relax(*(rig.device(each) for each in scatter_args())))
    assert "`x[i]` is written here" in str(warning.message)
    assert "`x[index[i]]` is read here" in str(warning.message)


def test_a_minimum_by_hand_is_told_to_be_an_atomic_one(rig):
    @qgraph.kernel(backend=rig.backend)
    def nearest(best, key, value):
        for i in range(key.shape[0]):
            if value[i] < best[key[i]]:
                best[key[i]] = value[i]

    arguments = np.full(3, 9.0), np.arange(6) % 3, np.arange(6.0)
    (warning,) = told(lambda: nearest(*map(rig.device, arguments)))
    assert "`best[key[i]] = min(best[key[i]], value[i])` is atomic" in str(warning.message)


def test_doubt_is_told_for_the_arguments_that_it_is_about(rig):
    @qgraph.kernel(backend=rig.backend)
    def steps(x, lo, hi, step):
        for i in range(lo, hi, step):
            x[i] = i

    x = rig.device(np.zeros(9))
    # No index counts from the end, or none meets another one then: proved.
    assert told(lambda: [steps(x, lo, hi, step) for lo, hi, step in ((0, 9, 2), (3, 8, 1), (8, 0, -1), (-3, 6, 2))]) == []
    (warning,) = told(lambda: steps(x, -5, 6, 2))
    assert warning.filename == __file__
    assert told(lambda: steps(x, -6, 8, 2)) == []


def test_the_authors_word_and_order_are_silent(rig):
    @qgraph.kernel(backend=rig.backend)
    def scatter(x, index):
        for i in qgraph.parallel(range(index.shape[0])):
            x[index[i]] = i
        for i in qgraph.serial(range(index.shape[0])):
            x[index[i]] = i

    assert told(lambda: scatter(*(rig.device(each) for each in scatter_args()))) == []


# --- data that decides indices, and still no word -----------------------------------------------------------------------


def marks(seen, index, count):
    for i in range(index.shape[0]):
        seen[index[i]] = 1
    for i in range(index.shape[0]):
        if index[i] > 2:
            seen[index[i]] = 7
            count[0] = True


def compaction(x, kept, at, where):
    for i in range(x.shape[0]):
        if x[i] % 3 == 0:
            k = qgraph.atomic_add(at, 0, 1)
            kept[k] = x[i]
            where[k] = i


def pairs(x, kept, at):
    for i in range(x.shape[0]):
        k = qgraph.atomic_add(at, 0, 2)
        kept[k] = x[i]
        kept[k + 1] = -x[i]


def packed(x, out):
    for i in range(x.shape[0]):
        p = 3 * i
        for _ in range(3):
            out[p] = x[i] + p
            p += 1


def test_constant_marks_and_counted_places_are_independent(rig):
    rig.check(marks, lambda: (np.zeros(9, np.int64), np.arange(6), np.zeros(1, bool)))
    rig.check(packed, lambda: (np.arange(5), np.full(15, 77)))


def test_compaction_is_independent_in_any_order(rig):
    kernel = rig.kernel(compaction)
    x, kept, at, where = map(rig.device, (np.arange(20), np.full(20, -1), np.zeros(1, np.int64), np.full(20, -1)))
    assert told(lambda: kernel(x, kept, at, where)) == []
    kept, where, count = qgraph.to_numpy(kept), qgraph.to_numpy(where), int(qgraph.to_numpy(at)[0])
    assert sorted(kept[:count]) == list(range(0, 20, 3))
    np.testing.assert_array_equal(kept[:count], where[:count])
    kernel = rig.kernel(pairs)
    x, kept, at = map(rig.device, (np.arange(1, 9), np.zeros(16, np.int64), np.zeros(1, np.int64)))
    assert told(lambda: kernel(x, kept, at)) == []
    found = qgraph.to_numpy(kept).reshape(8, 2)
    assert sorted(found[:, 0]) == list(range(1, 9))
    np.testing.assert_array_equal(found[:, 0], -found[:, 1])


# --- other processes ----------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, warnings
import numpy as np
import qgraph

@qgraph.kernel(backend="cpu")
def kernel(x, index):
    for i in range(index.shape[0]):
        x[index[i]] = i
    for i in range(x.shape[0] // 2):
        x[2 * i] = x[2 * i + 1]

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    kernel(np.zeros(6), np.arange(6))
print(sum(each.category is qgraph.AssumedParallelWarning for each in found), "islpy" in sys.modules)
"""


def test_a_warm_cache_tells_it_too_and_needs_no_isl(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "QGRAPH_CACHE": "1", "QGRAPH_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"}
    environment.pop("QGRAPH_BACKEND", None)
    lines = [
        subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert lines == [["1", "True"], ["1", "False"]]


def marks_what_is_read(k):
    for v in k:
        k[v] = 1


def test_an_element_of_a_loop_over_an_array_is_told_by_its_name(backend):
    with pytest.warns(qgraph.AssumedParallelWarning) as told:
        qgraph.kernel(marks_what_is_read, backend=backend)(qgraph.asarray(np.arange(3), backend=backend))
    assert "`v` is read here" in str(told[0].message)
    assert "position]" not in str(told[0].message)


def rows_added_by_label(x, labels, sums):
    for i in range(x.shape[0]):
        w = x[i, 0] + 2
        sums[labels[i]] -= x[i] * w
        sums[labels[i], 1:] += x[i, :-1]
        sums[labels[i]] += 1


def rows_into_one(x, labels, sums):
    for i in range(x.shape[0]):
        sums[0] += x[i]


def a_number_added_by_label(x, labels, sums):
    for i in range(x.shape[0]):
        w = x[i, 0]
        sums[labels[i]] += w


def elements_added_by_label(x, labels, sums):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            sums[labels[i], k] += x[i, k]


def labelled(dtype):
    return np.arange(12, dtype=dtype).reshape(6, 2), np.array([0, 1, 0, 2, 1, 1]), np.zeros((3, 2), dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("function", [rows_added_by_label, rows_into_one, a_number_added_by_label, elements_added_by_label])
def test_rows_are_updated_by_atomics_where_iterations_meet(rig, function, dtype):
    assert told(lambda: rig.check(function, lambda: labelled(dtype))) == []
    assert "atomic" in str(rig.kernel(function).plan(*labelled(dtype)))


def test_of_integers_a_row_and_a_number_of_an_unknown_type_are_no_atomics_yet(rig):
    assert told(lambda: rig.check(rows_into_one, lambda: labelled(np.int64))) == []
    (warning,) = told(lambda: rig.run(rig.kernel(a_number_added_by_label), *labelled(np.int64)))
    assert str(warning.message).endswith("`+=` of single elements, in a loop over those of a row, is atomic")


def one_iteration_at_most(x, y):
    for i in range(x[0] % 4, 1):
        y[0] = y[x[1]] + i
        x[i] = 3
    for i in range(x[1] & 3, 1):
        y[x[1]] = i + 7


def test_a_loop_of_one_iteration_at_most_needs_no_proof(rig):
    kernel = rig.kernel(one_iteration_at_most)
    for first in (4, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rig.compare(kernel, lambda first=first: (np.array([first, 4]), np.arange(6.0)))


def two_iterations(x, y):
    for i in range(x[0] % 4, 2):
        y[x[i]] = i


def test_a_loop_of_two_iterations_needs_one(rig):
    assert len(told(lambda: rig.run(rig.kernel(two_iterations), np.array([4, 4]), np.arange(6.0)))) == 1

"""Repeated calls on the CPU: the compiled code sees every change that makes a call another one."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.dispatch.dispatch_cache import MAX_RECENT
from qgraph.errors import ArgumentError
from qgraph.runtime.values.prepared_call import CHANGED


def fill(x, y):
    for i in range(x.shape[0]):
        x[i] = y[i] + 1


def fill_plane(x):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        x[i, j] += 10 * i + j


def repeated(function, *arguments, **options):
    """A kernel whose last call is tried before anything else."""
    kernel = qgraph.kernel(backend="cpu", **options)(function)
    for _ in range(4):
        kernel(*arguments)
    assert kernel._recent.last.next.run(arguments) is not CHANGED
    return kernel


def is_another(kernel, *arguments):
    return kernel._recent.last.next.run(arguments) is CHANGED


def test_the_same_call_again():
    x, y = np.zeros(5), np.arange(5.0)
    kernel = repeated(fill, x, y)
    y += 1
    kernel(x, y)
    np.testing.assert_array_equal(x, y + 1)
    assert kernel.stats.compilations == 1
    assert kernel.last_launch.path == "cpu"


def parts(x, y):
    t = np.sqrt(x) * y
    u = t[1:] - t[:-1]
    for i in range(y.shape[0]):
        y[i] += 1
    return u, (t.sum(), t), u.max()


def test_arrays_that_a_call_returns_are_new_ones_each_time():
    x, y = np.arange(5.0), np.ones(5)
    kernel = repeated(parts, x, y)
    known = []
    for turn in range(3):
        x[:] = np.arange(5.0) + turn
        before = y.copy()
        found = kernel(x, y)
        np.testing.assert_array_equal(y, before + 1)
        known.append((found, qgraph.kernel(parts).reference(x.copy(), before)))
        for (u, (total, t), most), (u2, (total2, t2), most2) in known:
            np.testing.assert_allclose(u, u2)
            np.testing.assert_allclose(t, t2)
            np.testing.assert_allclose([total, most], [total2, most2])
    arrays = [array for (u, (_, t), _), _ in known for array in (u, t)]
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations([x, y, *arrays], 2))
    assert kernel.stats.compilations == 1
    # Nobody but the caller has them.
    left = weakref.ref(found[0])
    assert not is_another(kernel, x, y)
    del found, known, arrays, u, u2, t, t2
    assert left() is None


@pytest.mark.parametrize("other", [np.ones(6), np.ones((5, 1)), np.ones(5, np.float32), np.ones(10)[::2]])
def test_a_call_that_returns_other_arrays(other):
    x = np.arange(5.0)
    assert is_another(repeated(parts, x, np.ones(5)), x, other)


def itself(x):
    t = x * 2
    x[:] = t
    return x, t


def test_an_argument_that_is_returned_is_itself():
    kernel, x = qgraph.kernel(backend="cpu")(itself), np.ones(3)
    for turn in range(1, 6):
        found, t = kernel(x)
        assert found is x
        assert found.tolist() == t.tolist() == [2.0**turn] * 3


def counted(x):
    t = x * 2
    for _k in qgraph.serial(range(50)):
        t += 1
    return t.sum(), t[::-1] + 0


def test_threads_have_temporaries_of_their_own():
    x, wrong = np.random.default_rng(0).random(30000), []
    kernel = repeated(counted, x)
    wanted = x[::-1] * 2 + 50

    def run():
        for _ in range(30):
            if abs(kernel(x)[1] - wanted).max() > 1e-9:
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def empty_maximum(x, k):
    return x + 1, np.max(x[: k[0]])


def test_a_fault_of_a_call_that_returns_arrays():
    x, k = np.arange(4.0), np.array([2])
    kernel = repeated(empty_maximum, x, k)
    k[0] = 0
    for _ in range(2):
        with pytest.raises(ArgumentError, match="without elements"):
            kernel(x, k)
    k[0] = 3
    assert kernel(x, k)[1] == 2


def test_code_that_was_let_go_does_not_run_again():
    x, y = np.zeros(5), np.arange(5.0)
    kernel = repeated(fill, x, y)
    (specialisation,) = kernel._cache.specialisations.values()
    specialisation.close()
    assert is_another(kernel, x, y)
    kernel(x, y)
    assert specialisation.executable is not None


FACTOR = 2.0


def of_a_global(x):
    for i in range(x.shape[0]):
        x[i] = FACTOR


def test_a_global_that_was_compiled_in_and_changed(monkeypatch):
    x = np.zeros(5)
    kernel = repeated(of_a_global, x)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert is_another(kernel, x)
    kernel(x)
    assert x.tolist() == [3.0] * 5


def others():
    x, y = np.zeros(6), np.arange(6.0)
    yield "other array", x, y.copy()
    yield "shorter", x[:3], y[:3]
    yield "other dtype", x, y.astype(np.float32)
    yield "integers of the same size", x, y.view(np.int64)
    yield "other layout", np.zeros(12)[::2], y
    yield "the same array twice", x, x
    yield "too many axes", x, y.reshape(6, 1)
    yield "no array", x, [1.0] * 6
    yield "None", x, None
    yield "a number", x, 1.0
    yield "bytes swapped", x, y.astype(">f8")
    yield "a subclass", x, y.view(np.memmap)
    yield "swapped", y, x


@pytest.mark.parametrize(("x", "y"), [pytest.param(x, y, id=name) for name, x, y in others()])
def test_other_arguments(x, y):
    first = np.zeros(6), np.arange(6.0)
    kernel = repeated(fill, *first)
    first[0][:] = -1
    assert is_another(kernel, x, y)
    assert (first[0] == -1).all()


def test_another_number_of_arguments():
    kernel = repeated(fill, np.zeros(3), np.zeros(3))
    assert is_another(kernel)
    assert is_another(kernel, np.zeros(3))
    with pytest.raises(qgraph.ArgumentError):
        kernel(np.zeros(3))


@pytest.mark.filterwarnings("ignore:Setting the")
def test_shape_and_strides_set_in_place():
    memory = np.zeros(12)
    x = memory.reshape(2, 6)
    kernel = repeated(fill_plane, x)
    for shape in ((3, 4), (4, 3), (6, 2), (2, 6)):
        x.shape = shape
        x[:] = 0
        kernel(x)
        np.testing.assert_array_equal(x, 10.0 * np.arange(shape[0])[:, None] + np.arange(shape[1]))
    square = np.zeros((3, 3))
    kernel = repeated(fill_plane, square)
    square.strides = (8, 24)
    assert is_another(kernel, square)


@pytest.mark.filterwarnings("ignore:Setting the")
def test_a_dtype_set_in_place():
    x, y = np.zeros(3), np.arange(3.0)
    kernel = repeated(fill, x, y)
    y.dtype = np.int64
    y[:] = 5, 6, 7
    kernel(x, y)
    assert x.tolist() == [6, 7, 8]


def test_an_array_resized_in_place():
    x, y = np.zeros(4), np.arange(4.0)
    kernel = repeated(fill, x, y)
    # Nothing refers to the arrays, so NumPy may move them.
    x.resize(4000, refcheck=False)
    y.resize(4000, refcheck=False)
    y[:] = np.arange(4000)
    kernel(x, y)
    np.testing.assert_array_equal(x, y + 1)


def test_an_array_that_may_not_be_written_any_more():
    x, y = np.zeros(4), np.arange(4.0)
    kernel = repeated(fill, x, y)
    x.flags.writeable = False
    before = x.copy()
    y += 5
    with pytest.raises(qgraph.QGraphError, match=r"read-only|readonly"):
        kernel(x, y)
    np.testing.assert_array_equal(x, before)
    x.flags.writeable = True
    kernel(x, y)
    np.testing.assert_array_equal(x, y + 1)
    y.flags.writeable = False
    kernel(x, y)
    assert kernel.stats.compilations == 2


def test_arrays_that_may_not_be_written_and_strided_ones_are_repeated():
    x, y = np.zeros((4, 6))[:, ::2], np.arange(12.0).reshape(4, 3)
    y.flags.writeable = False

    def copy(x, y):
        for i, j in qgraph.ndrange(*y.shape):
            x[i, j] = y[i, j]

    kernel = repeated(copy, x, y)
    np.testing.assert_array_equal(x, y)
    # Only the strides are others.
    memory = np.zeros((4, 9))
    kernel = repeated(copy, memory[:, ::2][:, :3], y)
    assert is_another(kernel, memory[:, ::3], y)
    assert not is_another(kernel, memory[:, :6:2], y)


def test_arrays_that_begin_to_share_memory():
    def both(x, y, z):
        for i in range(x.shape[0]):
            x[i] = y[i] + 1
        for i in range(x.shape[0]):
            z[i] = y[i]

    x, y, z = np.zeros(4), np.zeros(4), np.zeros(4)
    kernel = repeated(both, x, y, z)
    kernel(x, x, z)
    assert z.tolist() == x.tolist()
    kernel = repeated(fill, x, x)
    assert is_another(kernel, x, y)
    assert is_another(kernel, y, y)


def test_an_array_of_which_only_the_length_is_used():
    def count(x, y):
        for i in range(y.shape[0]):
            x[i] += 1

    x, y = np.zeros(8), np.zeros(3)
    kernel = repeated(count, x, y)
    assert is_another(kernel, x, np.zeros(3))
    x[:] = 0
    kernel(x, np.zeros(5))
    assert x.sum() == 5


@dataclass
class Pair:
    x: Any
    h: float


def test_arrays_in_structures():
    def scaled(pair, parts):
        for i in range(pair.x.shape[0]):
            pair.x[i] = parts[0][i] * pair.h

    pair, parts = Pair(np.zeros(3), 2.0), (np.arange(3.0), np.zeros(2))
    kernel = repeated(scaled, pair, parts)
    pair.h = 3.0
    kernel(pair, parts)
    assert pair.x.tolist() == [0, 3, 6]
    kernel = repeated(scaled, pair, parts)
    old, pair.x = pair.x, np.zeros(3)
    old[:] = -1
    kernel(pair, parts)
    assert pair.x.tolist() == [0, 3, 6]
    assert (old == -1).all()
    kernel = repeated(scaled, pair, parts)
    assert is_another(kernel, pair, (parts[0].copy(), parts[1]))


def test_arrays_are_not_kept_alive():
    x, y = np.zeros(100), np.zeros(100)
    kernel = repeated(fill, x, y)
    alive = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [each() for each in alive] == [None, None]
    for _ in range(5):
        x, y = np.zeros(100), np.arange(100.0)
        kernel(x, y)
        np.testing.assert_array_equal(x, y + 1)


def test_new_arrays_in_the_same_memory():
    memory = np.zeros(8)
    kernel = repeated(fill, memory[:4], memory[4:])
    memory[:] = 1
    assert not is_another(kernel, memory[:4], memory[4:])
    assert memory.tolist() == [2] * 4 + [1] * 4
    assert is_another(kernel, memory[:4], memory[3:7])


def test_numbers_are_compared_by_value():
    def add(x, a):
        for i in range(a):
            x[i] += 1

    x = np.zeros(6)
    kernel = repeated(add, x, 2)
    assert is_another(kernel, x, 3)
    assert is_another(kernel, x, 2.0)
    assert is_another(kernel, x, True)
    x[:] = 0
    kernel(x, 5)
    assert x.sum() == 5


def test_calls_in_turn_are_both_known():
    x, y = np.zeros(4), np.zeros(4)
    kernel = qgraph.kernel(backend="cpu")(fill)
    for _ in range(10):
        kernel(x, y)
        kernel(y, x)
    assert (x[0], y[0]) == (19, 20)
    assert kernel.stats.replays == 20
    assert kernel.stats.compilations == 1


def test_a_cleared_kernel_compiles_again():
    x, y = np.zeros(4), np.zeros(4)
    kernel = repeated(fill, x, y)
    kernel.clear_cache()
    y += 1
    kernel(x, y)
    assert (x == 2).all()
    assert kernel.stats.compilations == 2


def test_a_call_whose_executable_was_evicted():
    x, y = np.zeros(4), np.zeros(4)
    kernel = repeated(fill, x, y)
    (specialisation,) = kernel._cache.specialisations.values()
    kernel._cache._retire(specialisation)
    assert is_another(kernel, x, y)
    y += 1
    kernel(x, y)
    assert (x == 2).all()
    assert kernel.stats.compilations == 2


def test_a_closure_number_that_changes():
    x, y = np.zeros(4), np.zeros(4)
    scale = 2.0

    def scaled(x, y):
        for i in range(x.shape[0]):
            x[i] = y[i] + scale

    kernel = repeated(scaled, x, y)
    assert (x == 2).all()
    scale = 3.0
    kernel(x, y)
    assert (x == 3).all()


def test_a_fault_is_raised_each_time():
    def power(x, k):
        for i in range(x.shape[0]):
            x[i] = 3 ** k[i]

    x, k = np.zeros(4, np.int64), np.ones(4, np.int64)
    kernel = repeated(power, x, k)
    k[2] = -1
    for _ in range(3):
        with pytest.raises(qgraph.ArgumentError, match="negative power"):
            kernel(x, k)
    k[2] = 2
    kernel(x, k)
    assert x.tolist() == [3, 3, 9, 3]


def test_results_of_threads():
    def total(x):
        s = 0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    arrays = [np.full(50_000, k) for k in range(4)]
    kernel = qgraph.kernel(backend="cpu")(total)
    wrong = []

    def work(k):
        # Often enough in a row to be the last call, and then in turn with the others.
        wrong.extend(found for _ in range(100) if (found := kernel(arrays[k])) != 50_000 * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert kernel.stats.replays == 400


def test_an_array_of_another_object_of_its_dtype():
    x, y = np.zeros(5), np.arange(5.0)
    own = pickle.loads(pickle.dumps(np.dtype(np.float64).newbyteorder("<")))
    z = np.frombuffer(bytearray(y), own)
    kernel = repeated(fill, x, z)
    np.testing.assert_array_equal(x, y + 1)
    assert not is_another(kernel, x, z)


def test_a_call_that_is_forgotten_is_let_go_of():
    kernel = qgraph.kernel(backend="cpu")(fill)
    sets = [(np.zeros(5), np.arange(5.0)) for _ in range(MAX_RECENT + 2)]
    # These name each other.
    for _ in range(4):
        for each in sets[:2]:
            kernel(*each)
    held = weakref.ref(next(iter(kernel._recent._calls.values())).run)
    assert held() is not None
    gc.disable()
    try:
        for each in sets[2:]:
            for _ in range(3):
                kernel(*each)
        assert held() is None
    finally:
        gc.enable()


def test_a_bound_call_after_the_cache_was_cleared():
    kernel = qgraph.kernel(backend="cpu")(fill)
    x, y = np.zeros(5), np.arange(5.0)
    bound = kernel.bind(x, y)
    first = bound.launch
    first()
    kernel.clear_cache()
    assert kernel.stats.executables == 0
    for run in (first, lambda: bound.launch()):
        x[:] = -1
        run()
        np.testing.assert_array_equal(x, y + 1)
        assert kernel.stats.executables == 1
    # What was built is what it launches from then on.
    assert bound.launch is not first
    assert kernel.stats.compilations == 2


def shifted(x, y):
    t = qgraph.zeros(y.shape[0], np.float64)
    t[:-1] = y[1:] + y[:-1]
    x[:] = t * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda x: setattr(x, "shape", (1, 1, 1, 1, 2, 3)), "another shape"),
        (lambda x: setattr(x, "shape", (2, 3)), "another shape"),
        (lambda x: setattr(x, "dtype", np.int64), "dtype"),
        (lambda x: x.resize(500, refcheck=False), "memory"),
        (lambda x: x.setflags(write=False), "written"),
    ],
)
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning")
def test_an_array_that_is_bound_and_changed_in_place(change, why):
    """The compiled code would read what is no shape any more."""
    x, y = np.zeros(6), np.arange(6.0)
    bound = qgraph.kernel(backend="cpu")(fill).bind(x, y)
    bound.launch()
    np.testing.assert_array_equal(x, y + 1)
    change(x)
    before = x.copy()
    for _ in range(2):
        with pytest.raises(ArgumentError, match=why):
            bound.launch()
    np.testing.assert_array_equal(x, before)


@dataclass
class Scaling:
    x: Any
    y: Any
    factor: float


def scaled_shift(pair):
    t = qgraph.zeros(pair.y.shape[0], np.float64)
    t[:-1] = pair.y[1:] + pair.y[:-1]
    pair.x[:] = t * pair.factor


def scaled(pair):
    for i in range(pair.x.shape[0]):
        pair.x[i] = pair.y[i] * pair.factor


def test_what_is_bound_with_temporaries_is_refused_when_it_was_changed_in_place():
    x, y = np.zeros(6), np.arange(6.0)
    bound = qgraph.kernel(backend="cpu")(shifted).bind(x, y)
    for _ in range(3):
        x[:] = 0
        bound.launch()
        np.testing.assert_array_equal(x, [2, 6, 10, 14, 18, 0])
    x.setflags(write=False)
    with pytest.raises(ArgumentError, match="written"):
        bound.launch()
    x.setflags(write=True)
    bound.launch()
    y.resize(3, refcheck=False)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="memory"):
            bound.launch()


@pytest.mark.parametrize(("function", "expected"), [(scaled, [0, 2, 4, 6]), (scaled_shift, [2, 6, 10, 0])])
def test_what_was_bound_is_launched_whatever_became_of_the_struct(function, expected):
    x = np.zeros(4)
    pair = Scaling(x, np.arange(4.0), 2.0)
    bound = qgraph.kernel(backend="cpu")(function).bind(pair)
    pair.x, pair.factor = np.full(4, 77.0), 10.0
    for _ in range(2):
        x[:] = 0
        bound.launch()
        np.testing.assert_array_equal(x, expected)
        assert (pair.x == 77).all()

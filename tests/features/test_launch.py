"""Many calls of one kernel: what is built once, what may change, threads, binding, and memory."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph

POISON = 77


def two_stages(x, y, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * a + 1.0
    for i in range(y.shape[0]):
        y[i] += x[i]


def args(n, a=2.0, dtype=np.float64):
    return lambda: (np.arange(n).astype(dtype), np.full(n, 3, dtype), a)


def counts(kernel):
    stats = kernel.stats
    return stats.compilations, stats.graph_builds


def test_256_then_1024_elements_through_one_graph(rig):
    kernel = rig.check(two_stages, args(256))
    rig.compare(kernel, args(1024))
    rig.compare(kernel, args(256))
    assert counts(kernel) == (1, 1)
    assert kernel.stats.replays >= 3


def test_everything_may_change_between_calls(rig):
    kernel = rig.kernel(two_stages)
    held = []
    for n in (5, 0, 17, 300, 1, 64):
        for a in (0.5, 2, -1.0):
            made = args(n, float(a))()
            held.append(made)
            rig.run(kernel, *made)
            x = np.arange(float(n)) * a + 1.0
            np.testing.assert_allclose(made[0], x)
            np.testing.assert_allclose(made[1], x + 3)
    assert counts(kernel) == (1, 1)


def test_swapped_arrays(rig):
    kernel = rig.kernel(two_stages)
    x, y = rig.device(np.arange(8.0)), rig.device(np.arange(8.0) * 10)
    px, py = np.arange(8.0), np.arange(8.0) * 10
    for turn in range(6):
        kernel(x, y, 2.0)
        px[:] = px * 2.0 + 1.0
        py += px
        x, y, px, py = y, x, py, px
        np.testing.assert_array_equal(qgraph.to_numpy(x), px, err_msg=str(turn))
        np.testing.assert_array_equal(qgraph.to_numpy(y), py, err_msg=str(turn))
    assert counts(kernel) == (1, 1)


def test_a_new_type_compiles_once(rig):
    kernel = rig.kernel(two_stages)
    for _ in range(2):
        rig.compare(kernel, args(9))
        rig.compare(kernel, args(9, dtype=np.float32))
    assert counts(kernel) == (2, 2)


def test_an_int_where_a_float_was_is_right(rig):
    kernel = rig.check(two_stages, args(9, 2.0))
    rig.compare(kernel, args(9, 3))
    rig.compare(kernel, args(9, 2.5))


def test_graph_false_gives_the_same_answer(rig):
    kernel = rig.check(two_stages, args(50), graph=False)
    rig.compare(kernel, args(7))
    if rig.backend == "cuda":
        assert kernel.last_launch.path == "cuda-stream"


def test_options_give_the_same_answer(rig):
    rig.check(two_stages, args(500), block_size=64)
    rig.check(two_stages, args(50), fastmath=True)


def test_last_launch_names_the_path(rig):
    kernel = rig.check(two_stages, args(50))
    assert kernel.last_launch.path == {"cpu": "cpu", "sim": "sim", "cuda": "cuda-graph"}[rig.backend]
    assert isinstance(kernel.last_launch.reason, str)
    assert (kernel.last_launch.tasks, kernel.last_launch.nodes) == (2, 2)


def test_bind_replays_with_its_own_arrays(rig):
    kernel = rig.kernel(two_stages)
    x, y = rig.device(np.arange(8.0)), rig.device(np.zeros(8))
    bound = kernel.bind(x, y, 2.0)
    px, py = np.arange(8.0), np.zeros(8)
    for _ in range(3):
        bound.launch()
        px = px * 2.0 + 1.0
        py = py + px
    np.testing.assert_array_equal(qgraph.to_numpy(x), px)
    np.testing.assert_array_equal(qgraph.to_numpy(y), py)
    # A call with other arrays in between leaves the binding alone.
    kernel(rig.device(np.zeros(3)), rig.device(np.zeros(3)), 5.0)
    bound.launch()
    np.testing.assert_array_equal(qgraph.to_numpy(x), px * 2.0 + 1.0)
    assert counts(kernel) == (1, 1)


def test_bind_checks_its_arguments_at_once(rig):
    with pytest.raises(qgraph.ArgumentError):
        rig.kernel(two_stages).bind(rig.device(np.zeros(3)))


def test_two_bindings_of_one_kernel(rig):
    kernel = rig.kernel(two_stages)
    pairs = [(rig.device(np.full(4, float(k))), rig.device(np.zeros(4))) for k in range(2)]
    bound = [kernel.bind(x, y, 2.0) for x, y in pairs]
    for one in (0, 1, 1):
        bound[one].launch()
    assert (qgraph.to_numpy(pairs[0][0]) == 1.0).all()
    assert (qgraph.to_numpy(pairs[1][0]) == 7.0).all()


def test_arrays_are_not_kept_alive(rig):
    kernel = rig.kernel(two_stages)
    if rig.backend == "cuda":
        x = qgraph.asarray(np.arange(8.0), backend="cuda")
    else:
        x = np.arange(8.0)
    gone = weakref.ref(x)
    kernel(x, rig.device(np.zeros(8)), 2.0)
    qgraph.synchronize()
    del x
    gc.collect()
    assert gone() is None
    # The graph whose arrays died runs with new ones.
    rig.compare(kernel, args(8))
    assert counts(kernel) == (1, 1)


def test_an_error_leaves_the_kernel_usable(rig):
    kernel = rig.check(two_stages, args(8))
    x = rig.device(np.arange(8.0))
    with pytest.raises(qgraph.ArgumentError):
        kernel(x, np.array([object()] * 8), 2.0)
    assert (qgraph.to_numpy(x) == np.arange(8.0)).all()
    rig.compare(kernel, args(8))


def test_clear_cache_forgets_and_works_again(rig):
    kernel = rig.check(two_stages, args(8))
    did, forgotten = kernel.last_launch, weakref.ref(kernel._ran.specialisation)
    kernel.clear_cache()
    gc.collect()
    assert forgotten() is None
    assert kernel.last_launch == did
    rig.compare(kernel, args(8))


def iterate(x, counter, total):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] += 1.0
        for i in range(x.shape[0]):
            total[0] += 1
        counter[()] -= 1


@dataclass
class Settings:
    x: Any
    scale: Any
    pair: Any


def apply(settings):
    for i in range(settings.x.shape[0]):
        settings.x[i] = settings.scale * i + settings.pair[0]


def test_fields_of_the_same_object_may_change_between_calls(rig):
    kernel = rig.kernel(apply)
    settings = Settings(rig.device(np.zeros(6)), 2.0, (1.0, 0))
    kernel(settings)
    kernel(settings)
    assert qgraph.to_numpy(settings.x).tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    settings.scale = 3.0
    kernel(settings)
    assert qgraph.to_numpy(settings.x).tolist() == [1.0, 4.0, 7.0, 10.0, 13.0, 16.0]
    settings.pair = (0.5, 0)
    kernel(settings)
    assert qgraph.to_numpy(settings.x)[1] == 3.5
    settings.x = rig.device(np.zeros(2))
    kernel(settings)
    assert qgraph.to_numpy(settings.x).tolist() == [0.5, 3.5]
    settings.x = rig.device(np.zeros(2, np.int32))
    kernel(settings)
    assert qgraph.to_numpy(settings.x).tolist() == [0, 3]


def reciprocal(x, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.0 + np.copysign(1.0, a)


def test_equal_scalars_that_are_not_the_same(rig):
    kernel, x = rig.kernel(reciprocal), rig.device(np.zeros(3))
    for a, sign in ((0.0, 1.0), (-0.0, -1.0), (0.0, 1.0), (np.float32(-0.0), -1.0), (0.0, 1.0), (-0.0, -1.0)):
        kernel(x, a)
        kernel(x, a)
        assert (qgraph.to_numpy(x) == sign).all()


def type_of(x, a):
    for i in range(x.shape[0]):
        x[i] = (a + 2147483647) + i


def test_equal_scalars_of_other_types(rig):
    kernel, x = rig.kernel(type_of), rig.device(np.zeros(3))
    for a in (1, 1.0, True, 1):
        kernel(x, a)
        kernel(x, a)
        assert qgraph.to_numpy(x).tolist() == [2147483648.0, 2147483649.0, 2147483650.0]
    kernel(x, float("nan"))
    kernel(x, float("nan"))
    assert np.isnan(qgraph.to_numpy(x)).all()


@pytest.mark.needs("host_arrays")
def test_the_same_array_made_read_only(rig):
    kernel = rig.kernel(two_stages)
    x, y = np.arange(4.0), np.zeros(4)
    for _ in range(2):
        kernel(x, y, 2.0)
    x.flags.writeable = False
    with pytest.raises(qgraph.ArgumentError, match="read-only"):
        kernel(x, y, 2.0)
    assert x.tolist() == [3.0, 7.0, 11.0, 15.0]
    x.flags.writeable = True
    kernel(x, y, 2.0)
    assert x.tolist() == [7.0, 15.0, 23.0, 31.0]


def row_sums(x, out):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[1]):
            s += x[i, j]
        out[i] = s


@pytest.mark.needs("host_arrays")
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_the_same_array_with_another_shape(rig):
    kernel = rig.kernel(row_sums)
    x, out = np.arange(8.0).reshape(2, 4), np.zeros(4)
    for shape in ((2, 4), (4, 2), (1, 8), (2, 4)):
        x.shape = shape
        out[:] = 0
        kernel(x, out)
        assert out[: shape[0]].tolist() == x.sum(axis=1).tolist()


def test_the_same_names_swapped_or_the_same_array_twice_after_a_replay(rig):
    kernel = rig.kernel(two_stages)
    x, y = rig.device(np.arange(4.0)), rig.device(np.zeros(4))
    kernel(x, y, 1.0)
    kernel(x, y, 1.0)
    kernel(x, x, 1.0)
    assert qgraph.to_numpy(x).tolist() == [6.0, 8.0, 10.0, 12.0]
    kernel(y, x, 1.0)
    assert qgraph.to_numpy(y).tolist() == [4.0, 6.0, 8.0, 10.0]
    assert qgraph.to_numpy(x).tolist() == [10.0, 14.0, 18.0, 22.0]


@pytest.mark.needs("threads")
def test_threads_calling_one_kernel(rig):
    kernel = rig.kernel(iterate)
    rig.run(kernel, np.zeros(4), np.array(1), np.zeros(1, np.int64))
    failures = []

    def work(seed):
        try:
            for turn in range(25):
                n, count = 50 + 37 * seed + turn, 1 + (seed + turn) % 4
                x, total = np.zeros(n), np.zeros(1, np.int64)
                rig.run(kernel, x, np.array(count), total)
                assert (x == count).all()
                assert total[0] == n * count
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert counts(kernel) == (1, 1)


@pytest.mark.needs("threads")
def test_threads_that_compile_at_once(rig):
    kernel = rig.kernel(two_stages)
    barrier = threading.Barrier(3)
    failures = []

    def work(dtype):
        try:
            barrier.wait()
            rig.compare(kernel, args(40, dtype=dtype))
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(dtype,)) for dtype in (np.float64, np.float64, np.float32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert counts(kernel) == (2, 2)


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.needs("speed")
def test_10_000_replays_with_flat_memory(rig):
    kernel = rig.kernel(two_stages)
    x, y = rig.device(np.zeros(64)), rig.device(np.zeros(64))
    other = rig.device(np.zeros(64))

    def replay(times):
        for turn in range(times):
            kernel(x, y if turn % 2 else other, 0.5)

    replay(1_000)
    qgraph.synchronize()
    before = resident_bytes()
    replay(10_000)
    qgraph.synchronize()
    assert resident_bytes() - before < 2_000_000
    assert counts(kernel) == (1, 1)
    assert kernel.stats.replays >= 11_000


class Looks:
    """Counts the calls that are looked at closely, those of no recognised arguments."""

    def __init__(self, kernel, monkeypatch):
        self.count = 0
        self._run = kernel._run
        monkeypatch.setattr(kernel, "_run", self)

    def __call__(self, *arguments):
        self.count += 1
        return self._run(*arguments)


def test_numbers_are_recognised_by_value(monkeypatch):
    kernel = qgraph.kernel(backend="cpu")(two_stages)
    x, y = np.zeros(8), np.zeros(8)
    for _ in range(3):
        kernel(x, y, 0.5)
    looks = Looks(kernel, monkeypatch)
    half = 0.25
    for _ in range(3):
        kernel(x, y, half * 2.0)
    assert looks.count == 0
    # Equal, and yet not the same.
    for other in (0.0, -0.0):
        for _ in range(3):
            kernel(x, y, other)
    x[:] = -1.0
    looks.count = 0
    kernel(x, y, np.float64(0.5))
    kernel(x, y, 1)
    assert looks.count == 2


def signs(x, a):
    for i in range(x.shape[0]):
        x[i] = a


def test_minus_zero_is_not_taken_for_zero(rig):
    kernel = rig.kernel(signs)
    x = rig.device(np.ones(3))
    for _ in range(3):
        for zero in (0.0, -0.0):
            for _ in range(3):
                kernel(x, float(str(zero)))
                assert (np.signbit(qgraph.to_numpy(x)) == np.signbit(zero)).all()


def test_a_new_default_backend_counts_for_recognised_arguments(monkeypatch):
    from qgraph.runtime.arguments.backends import DEFAULTS

    kernel = qgraph.kernel(two_stages)
    x, y = np.zeros(8), np.zeros(8)
    monkeypatch.setattr(DEFAULTS, "backend", "cpu")
    for _ in range(3):
        kernel(x, y, 0.5)
    looks = Looks(kernel, monkeypatch)
    kernel(x, y, 0.5)
    assert looks.count == 0
    monkeypatch.setattr(DEFAULTS, "backend", None)
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    kernel(x, y, 0.5)
    assert looks.count == 1


def nothing():
    pass


def keyword(x, *, a=1.0):
    for i in range(x.shape[0]):
        x[i] += a


def test_calls_with_other_arguments_than_the_ones_that_came_back(rig):
    """What was recognised counts for complete positional arguments, and for those only."""
    kernel = rig.kernel(two_stages)
    x, y = rig.device(np.zeros(8)), rig.device(np.zeros(8))
    for _ in range(4):
        kernel(x, y, 0.0)
    for wrong in ((), (x,), (x, y), (x, y, 0.0, 0.0)):
        with pytest.raises(qgraph.ArgumentError):
            kernel(*wrong)
    with pytest.raises(qgraph.ArgumentError):
        kernel(x, y, 0.0, b=1)
    kernel(x, a=4.0, y=y)
    np.testing.assert_array_equal(qgraph.to_numpy(x), 5.0)
    np.testing.assert_array_equal(qgraph.to_numpy(y), 4 + 5)
    kernel(x, y, 0.0)
    np.testing.assert_array_equal(qgraph.to_numpy(y), 4 + 5 + 1)
    assert kernel.stats.replays == 6


def test_a_kernel_without_arguments_takes_none(rig):
    kernel = rig.kernel(nothing)
    for _ in range(4):
        kernel()
    with pytest.raises(qgraph.ArgumentError):
        kernel(1)


def test_keyword_only_arguments_that_come_back(rig):
    kernel = rig.kernel(keyword)
    x = rig.device(np.zeros(5))
    for _ in range(4):
        kernel(x)
        kernel(x, a=10.0)
    np.testing.assert_array_equal(qgraph.to_numpy(x), 44.0)


def test_sets_of_arguments_in_turn(rig):
    kernel = rig.kernel(two_stages)
    sets = [(rig.device(np.full(4, float(k))), rig.device(np.zeros(4)), float(k)) for k in range(3)]
    expected = [(float(k), 0.0) for k in range(3)]
    for turn in [0, 0, 0, 1, 1, 1, 0, 1, 2, 2, 0, 0, 2, 1, 1, 0]:
        kernel(*sets[turn])
        x, y = expected[turn]
        expected[turn] = x * turn + 1, y + x * turn + 1
        assert kernel.last_launch.tasks == 2
    for (x, y, _), (px, py) in zip(sets, expected, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(x), px)
        np.testing.assert_array_equal(qgraph.to_numpy(y), py)
    assert kernel.stats.replays == 16

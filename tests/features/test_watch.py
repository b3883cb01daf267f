"""``qgraph.progress`` and ``qgraph.watch``: the history is what plain Python would tell; without a watch nothing is there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import linecache
import math
import re
import sys
import textwrap
import threading
import time
import types
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.kernel import Kernel
from qgraph.operations.progress_ring import ITERATION, ROWS, RUN, WORDS, publish
from qgraph.watching import watch as module
from qgraph.watching.display import curve, heights, in_notebook, svg_curve
from qgraph.watching.rings import Ring
from qgraph.watching.watched_kernel import WatchedKernel
from tests.conftest import THOROUGH, thorough


def halving(x: Any, tolerance: float) -> int:
    it = 0
    delta = tolerance + 1.0
    while delta > tolerance:
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        it += 1
        qgraph.progress(it, delta)
    return it


def every_third(x: Any, tolerance: float) -> int:
    it = 0
    delta = tolerance + 1.0
    while delta > tolerance:
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        it += 1
        qgraph.progress(residual=math.sqrt(delta), iteration=it, every=3)
    return it


def told_in_many_ways(x: Any, scale: Any, tolerance: float) -> int:
    it = 0
    delta = tolerance + 1.0
    while delta > tolerance:
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        it += 1
        qgraph.progress(it, delta, every=2)
        if it > 5:
            qgraph.progress(it, scale[it % 3] * delta, every=3)
            qgraph.progress(-it, delta)
    return it


def told_before_the_reduction(x: Any, tolerance: float) -> float:
    it = 0
    delta = tolerance + 1.0
    while delta > tolerance:
        qgraph.progress(it, delta, every=2)
        qgraph.progress(-it, x[0])
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        for i in range(x.shape[0]):
            x[i] = x[i] + 0.0
        it += 1
    return delta


def nested(x: Any, n: int) -> None:
    for step in qgraph.serial(range(n)):
        for again in qgraph.serial(range(2 + step)):
            for i in range(x.shape[0]):
                x[i] += 1
            qgraph.progress(again, x[0])
        if step % 2 == 1:
            for i in range(x.shape[0]):
                x[i] *= 2
            qgraph.progress(step, x[1] / 2)
        qgraph.progress(step, step > 0)


def counted(x: Any, n: int) -> None:
    for t in qgraph.serial(range(n)):
        for i in range(1, x.shape[0]):
            x[i] = x[i] + 1
        qgraph.progress(t, 1.0 / (t + 1), every=4)


def repeated(x: Any, counter: Any) -> None:
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] += 1
        counter[0] -= 1
        qgraph.progress(counter[0], x[0])


def of_one_thread(x: Any, tolerance: float) -> int:
    it = 0
    left = x[0]
    while left > tolerance:
        left = left / 2
        it += 1
        if it % 2 == 0:
            qgraph.progress(it, left)
        for k in qgraph.serial(range(2)):
            qgraph.progress(k, -left, every=2)
    x[0] = left
    return it


@qgraph.func
def sweep(x: Any, it: int) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        x[i] = 0.5 * x[i]
        total += x[i]
    qgraph.progress(it, total)
    return total


def in_a_func(x: Any, n: int) -> float:
    total = 0.0
    for it in qgraph.serial(range(n)):
        total = sweep(x, it)
    return total


def raising(x: Any, n: int) -> None:
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            if x[i] >= 100:
                raise ValueError("too large")
            x[i] += 1
        qgraph.progress(t, x[0])


def at_constants(x: Any) -> None:
    for _ in qgraph.serial(range(2)):
        for i in range(x.shape[0]):
            x[i] += 1
        for k in qgraph.static(range(3)):
            qgraph.progress(k, x[k])


def of_integers(x: Any, k: Any) -> None:
    it = k[0]
    while it < k[1]:
        for i in range(x.shape[0]):
            x[i] += it
        it += np.int32(1)
        qgraph.progress(it, k[1] > it)


def of_numbers(n: int) -> float:
    t = 0
    s = 0.0
    while t < n:
        for _ in range(5):
            s += 1.5
        t += 1
        qgraph.progress(t, s)
    return s


def of_vectors(v: Any, n: int) -> None:
    for t in qgraph.serial(range(n)):
        for i in range(v.shape[0]):
            v[i] = 2 * qgraph.vec(v[i])
        qgraph.progress(t, v[0, 1])


def sweeping(u: Any, v: Any, n: int) -> None:
    for t in qgraph.serial(range(n)):
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
        u, v = v, u
        qgraph.progress(t, u[2], every=16)


def sweeping_from_three(u: Any, v: Any, n: int) -> None:
    for _ in qgraph.serial(range(2)):
        for t in qgraph.serial(range(3, n)):
            for i in range(1, u.shape[0] - 1):
                v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
            for i in range(1, u.shape[0] - 1):
                u[i] = 0.5 * v[i]
            qgraph.progress(t + 1, v[1] - u[1], every=10)


def sweeping_by_twos(u: Any, v: Any, n: int) -> None:
    for t in qgraph.serial(range(1, n, 2)):
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
        u, v = v, u
        qgraph.progress(t, u[1], every=9)


def told_first(u: Any, v: Any, n: int, m: int) -> None:
    for t in qgraph.serial(range(m, n)):
        qgraph.progress(t, u[1], every=8)
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
        u, v = v, u


def of_a_sum(u: Any, v: Any, n: int) -> float:
    total = 0.0
    for t in qgraph.serial(range(n)):
        total = 0.0
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
            total += v[i]
        u, v = v, u
        qgraph.progress(t, total, every=12)
    return total


def told_as_asked(x: Any, n: int, often: qgraph.Static) -> None:
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1
        qgraph.progress(t, x[0], every=2 * often - 1)


def _rows(count: int) -> tuple[Any, Any]:
    return np.arange(float(count)) ** 2, np.arange(float(count)) ** 2


CASES: dict[str, tuple[Any, Any]] = {
    "raising": (raising, lambda: (np.zeros(3), 4)),
    "at constants": (at_constants, lambda: (np.arange(4.0),)),
    "of integers": (of_integers, lambda: (np.zeros(3), np.array([0, 3], np.int32))),
    "of numbers": (of_numbers, lambda: (3,)),
    "of vectors": (of_vectors, lambda: (np.arange(6.0).reshape(2, 3), 2)),
    "of one vector": (of_vectors, lambda: (np.arange(3.0).reshape(1, 3), 2)),
    "halving": (halving, lambda: (np.ones(8), 0.01)),
    "halving a grid": (halving, lambda: (np.ones(70), 1e-9)),
    "float32": (halving, lambda: (np.ones(8, np.float32), 0.01)),
    "every third": (every_third, lambda: (np.ones(8), 0.001)),
    "in many ways": (told_in_many_ways, lambda: (np.ones(70), np.arange(3.0), 1e-9)),
    "told before": (told_before_the_reduction, lambda: (np.ones(8), 0.01)),
    "nested": (nested, lambda: (np.arange(5.0), 4)),
    "counted": (counted, lambda: (np.arange(5.0), 11)),
    "no iteration": (counted, lambda: (np.arange(5.0), 0)),
    "do-while": (repeated, lambda: (np.arange(5), np.array([3]))),
    "sweeping": (sweeping, lambda: (*_rows(7), 150)),
    "sweeping from 3": (sweeping_from_three, lambda: (*_rows(5), 75)),
    "sweeping by twos": (sweeping_by_twos, lambda: (*_rows(5), 140)),
    "told first": (told_first, lambda: (*_rows(5), 90, 2)),
    "of a sum": (of_a_sum, lambda: (*_rows(5), 75)),
    "as asked": (told_as_asked, lambda: (np.zeros(3), 20, 2)),
    "of one thread": (of_one_thread, lambda: (np.ones(1), 0.01)),
    "in a func": (in_a_func, lambda: (np.ones(4), 5)),
}


def expected(function: Any, make: Any, monkeypatch: Any) -> tuple[Any, tuple[Any, ...], list[tuple[int, int, float]]]:
    """What plain Python returns, the arguments behind it, and the line, iteration and residual of each call of ``progress``."""
    told: list[tuple[int, int, float]] = []

    def note(iteration: int, residual: float, every: int = 1) -> None:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        if iteration % every == 0:
            told.append((frame.f_back.f_lineno, int(iteration), float(residual)))

    args = make()
    with monkeypatch.context() as patched:
        patched.setattr(qgraph, "progress", note)
        result = qgraph.kernel(function).reference(*args)
    return result, args, told


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in CASES]
    + [pytest.param(name, {"fuse": True}, marks=THOROUGH) for name in CASES]
    + [(name, {"bounds_check": True}) for name in ("raising", "nested", "in a func")],
    ids=str,
)
def test_the_history_is_that_of_plain_python(rig: Any, monkeypatch: Any, name: str, options: dict[str, bool]) -> None:
    function, make = CASES[name]
    wanted, after, told = expected(function, make, monkeypatch)
    kernel = rig.kernel(function, **options)
    with qgraph.watch(kernel, show=False) as seen:
        for _ in range(2):
            given = [rig.device(each) if isinstance(each, np.ndarray) else each for each in make()]
            assert kernel(*given) == wanted
            for mine, theirs in zip(given, after, strict=True):
                np.testing.assert_array_equal(qgraph.to_numpy(mine) if hasattr(mine, "shape") else mine, theirs)
    history = seen.history
    assert history.dtype.names == ("run", "line", "iteration", "residual", "time")
    assert (np.diff(history["time"]) >= 0).all()
    assert history["residual"].dtype == np.float64
    assert {history.dtype[each] for each in ("run", "line", "iteration", "time")} == {np.dtype(np.int64)}
    found = [(int(line), int(iteration), float(residual)) for _, line, iteration, residual, _ in history.tolist()]
    # Reductions add up in another order.
    assert [each[:2] for each in found] == [each[:2] for each in told * 2]
    np.testing.assert_allclose([each[2] for each in found], [each[2] for each in told * 2], rtol=1e-6)
    assert history["run"].tolist() == [0] * len(told) + [1] * len(told)
    assert seen.lost == 0


def test_an_error_ends_the_history(rig: Any) -> None:
    kernel = rig.kernel(raising)
    with qgraph.watch(kernel, show=False) as seen:
        with pytest.raises(ValueError, match="where i = 0"):
            kernel(rig.device(np.full(3, 98.0)), 9)
            qgraph.synchronize()
        kernel(rig.device(np.zeros(3)), 2)
    assert seen.history["run"].tolist() == [0, 0, 1, 1]
    assert seen.history["residual"].tolist() == [99.0, 100.0, 1.0, 2.0]


def returning(x: Any, g: qgraph.random.Generator, n: int, *, scale: float = 2.0) -> tuple[Any, int]:
    y = np.zeros(x.shape[0])
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            y[i] += scale * g.normal(i)
        qgraph.progress(t, y[0])
    return y, n


def test_arrays_that_are_returned_and_random_numbers(rig: Any) -> None:
    kernel = rig.kernel(returning)
    x = rig.device(np.ones(3))
    alone, watched = qgraph.random.Generator(1), qgraph.random.Generator(1)
    wanted = [kernel(x, alone, 2, scale=3.0), kernel(x, alone, 1)]
    with qgraph.watch(kernel, show=False) as seen:
        found = [kernel(x, watched, 2, scale=3.0), kernel(x, watched, 1)]
    for (mine, count), (theirs, _) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(mine), qgraph.to_numpy(theirs))
        last = seen.history[seen.history["iteration"] == count - 1]["residual"]
        assert qgraph.to_numpy(mine)[0] in last
    assert seen.history["run"].tolist() == [0, 0, 1]


@dataclasses.dataclass
class Scaled:
    x: Any

    @qgraph.kernel
    def run(self, n: int, *, scale: float = 2.0) -> None:
        for t in qgraph.serial(range(n)):
            for i in range(self.x.shape[0]):
                self.x[i] *= scale
            qgraph.progress(t, self.x[0])


@pytest.mark.needs("host_arrays")
def test_methods() -> None:
    scaled = Scaled(np.ones(2))
    with qgraph.watch(scaled.run, show=False) as seen:
        scaled.run(2, scale=3.0)
        scaled.run(1)
    assert seen.history["residual"].tolist() == [3.0, 9.0, 18.0]


def test_without_a_watch_nothing_happens(check: Any) -> None:
    check(halving, lambda: (np.ones(8), 0.01))
    check(nested, lambda: (np.arange(5.0), 3))
    qgraph.progress(1, 2.0, every=4)


def test_bound_kernels_and_calls(rig: Any) -> None:
    kernel = rig.kernel(halving)
    x, y = rig.device(np.ones(4)), rig.device(np.ones(4))
    before = kernel.bind(x, 0.1)
    with qgraph.watch(kernel, show=False) as seen:
        before.launch()
        qgraph.synchronize()
        assert len(seen.history) == 0
        bound = kernel.bind(y, 0.3)
        for value in (1.0, 2.0):
            y[:] = value
            bound.launch()
        kernel(rig.device(np.ones(4)), 0.2)
        y[:] = 8.0
        bound.launch()
    by_run = [seen.history[seen.history["run"] == run]["residual"].tolist() for run in range(4)]
    assert sorted(by_run) == sorted([[0.5, 0.25], [1.0, 0.5, 0.25], [0.5, 0.25, 0.125], [4.0, 2.0, 1.0, 0.5, 0.25]])
    y[:] = 1.0
    # Nobody reads what it writes now.
    assert bound.launch() == 2
    assert len(seen.history) == 13
    assert kernel(rig.device(np.ones(4)), 0.2) == 3
    assert len(seen.history) == 13


def test_calls_that_were_repeated_before(rig: Any) -> None:
    kernel = rig.kernel(halving)
    x = rig.device(np.ones(4))
    for _ in range(5):
        kernel(x, 100.0)
    with qgraph.watch(kernel, show=False) as seen:
        for _ in range(5):
            kernel(x, 100.0)
    for _ in range(5):
        kernel(x, 100.0)
    assert len(seen.history) == 5
    with qgraph.watch(kernel, show=False) as again:
        kernel(x, 100.0)
    assert len(again.history) == 1


def test_several_kernels_do_not_mix(rig: Any) -> None:
    one, other = rig.kernel(halving), rig.kernel(every_third)
    with qgraph.watch(one, show=False) as first, qgraph.watch(other, show=False) as second:
        with qgraph.watch(one, show=False) as third:
            one(rig.device(np.ones(4)), 0.4)
        for _ in range(2):
            other(rig.device(np.ones(4)), 0.1)
            one(rig.device(np.ones(4)), 0.2)
    assert first.history["residual"].tolist() == [0.5, 0.25, 0.125] * 2
    assert first.history["run"].tolist() == [0, 0, 0, 1, 1, 1]
    assert second.history["iteration"].tolist() == [3, 3]
    assert third.history["residual"].tolist() == [0.5, 0.25]


@pytest.mark.needs("threads")
def test_threads_do_not_mix(rig: Any) -> None:
    kernel = rig.kernel(halving)
    found: dict[float, np.ndarray] = {}
    barrier = threading.Barrier(3)

    def run(value: float | None) -> None:
        barrier.wait()
        if value is None:
            for _ in range(20):
                kernel(rig.device(np.full(4, 1000.0)), 1.0)
            return
        with qgraph.watch(kernel, show=False) as seen:
            for _ in range(20):
                kernel(rig.device(np.full(4, value)), value / 3)
        found[value] = seen.history

    threads = [threading.Thread(target=run, args=(value,)) for value in (1.0, 3.0, None)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {value: history["residual"].tolist() for value, history in found.items()} == {
        value: [value / 2, value / 4] * 20 for value in (1.0, 3.0)
    }


def until_told(x: Any, flag: Any, most: int) -> int:
    it = 0
    while flag[0] > 0 and it < most:
        for i in range(x.shape[0]):
            x[i] += 1
        it += 1
        qgraph.progress(it, x[0], every=8)
    return it


@pytest.mark.needs("host_arrays")
def test_it_is_read_while_the_loop_runs(rig: Any) -> None:
    most = 100_000 if rig.backend == "sim" else 10**9
    kernel = rig.kernel(until_told)
    flag = np.array([1])
    with qgraph.watch(kernel, show=False) as seen:
        early: list[int] = []

        ended = threading.Event()
        # Where nothing is told the loop would run for hours.
        deadline = time.monotonic() + 20

        def look() -> None:
            while not early and not ended.is_set() and time.monotonic() < deadline:
                history = seen.history
                if len(history) > 2:
                    early.append(int(history["iteration"][-1]))
            flag[0] = 0

        thread = threading.Thread(target=look)
        thread.start()
        try:
            ran = kernel(np.zeros(3), flag, most)
        finally:
            ended.set()
            thread.join()
    assert 8 * 3 <= early[0] <= ran < most


def test_checked_profiled_and_looked_at(rig: Any) -> None:
    kernel = rig.kernel(halving)
    with qgraph.watch(kernel, show=False) as seen:
        kernel.check(np.ones(4), 0.2)
        assert kernel.profile(rig.device(np.ones(4)), 0.2).result == 3
        assert "progress" not in str(kernel.explain(np.ones(4), 0.2))
        assert kernel.reference(np.ones(4), 0.2) == 3
        assert len(seen.history) == 0
        assert kernel(rig.device(np.ones(4)), 0.2) == 3
        assert kernel.last_launch.path
        kernel.clear_cache()
        assert kernel(rig.device(np.ones(4)), 0.2) == 3
    assert seen.history["iteration"].tolist() == [1, 2, 3, 1, 2, 3]


def test_what_a_watch_refuses(rig: Any) -> None:
    kernel = rig.kernel(halving)
    with pytest.raises(qgraph.ArgumentError, match="function is no kernel"):
        qgraph.watch(halving)
    seen = qgraph.watch(kernel, show=False)
    with seen:
        pass
    with pytest.raises(qgraph.ArgumentError, match="was open before"), seen:
        pass
    with pytest.raises(ZeroDivisionError), qgraph.watch(kernel, show=False) as seen:
        kernel(rig.device(np.ones(4)), 0.2)
        raise ZeroDivisionError
    assert len(seen.history) == 3


@pytest.mark.needs("compiler")
def test_what_is_told_is_an_integer_and_a_real_number(rig: Any) -> None:
    def half(x: Any) -> None:
        for _ in qgraph.serial(range(3)):
            x[:] = x + 1
            qgraph.progress(x[0], x[1])

    def of_complex(x: Any) -> None:
        for t in qgraph.serial(range(3)):
            x[:] = x + 1j
            qgraph.progress(t, x[1])

    for function, x, text in ((half, np.ones(3), "is an integer"), (of_complex, np.ones(3, complex), "is a real number")):
        kernel = rig.kernel(function)
        with qgraph.watch(kernel, show=False), pytest.raises(qgraph.KernelTypeError, match=text):
            kernel(rig.device(x))


def test_lines(rig: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_LONG", math.inf)
    kernel = rig.kernel(halving)
    with qgraph.watch(kernel):
        kernel(rig.device(np.ones(4)), 0.2)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("halving, line ")
    assert "run 0: iteration 3, residual 1.250e-01" in line
    with qgraph.watch(kernel):
        pass
    assert "nothing was told" in capsys.readouterr().out


@pytest.mark.needs("compiler")
def test_long_compilations_are_told(rig: Any, capsys: Any, monkeypatch: Any) -> None:
    make = Kernel._executable

    def slowly(self: Any, specialisation: Any, stream: int = 0) -> Any:
        until = time.monotonic() + 60
        while watch._told is None and time.monotonic() < until:
            time.sleep(0.005)
        return make(self, specialisation, stream)

    monkeypatch.setattr(Kernel, "_executable", slowly)
    monkeypatch.setattr(module, "_LONG", 0.01)
    kernel = rig.kernel(halving)
    with qgraph.watch(kernel) as watch:
        kernel(rig.device(np.ones(4)), 0.2)
        kernel(rig.device(np.ones(4)), 0.2)
    assert capsys.readouterr().out.count("halving: compiling\n") == 1
    with qgraph.watch(kernel):
        kernel(rig.device(np.ones(4)), 0.2)
    assert "compiling" not in capsys.readouterr().out


# --- the ring -----------------------------------------------------------------------------------------------------------


def test_rows_that_came_too_fast_are_counted() -> None:
    ring = Ring("cpu", 0)
    for number in range(1, ROWS + 11):
        publish(ring.array, number, 1, 7, number, float(number))
    rows = ring.take()
    assert ring.lost == 10
    assert rows[:, ITERATION].tolist() == list(range(11, ROWS + 11))
    publish(ring.array, ROWS + 11, 2, 7, 0, math.nan)
    assert ring.take()[:, RUN].tolist() == [2]
    assert ring.lost == 10


def test_a_row_that_has_not_arrived_is_waited_for() -> None:
    whole = np.zeros(WORDS, np.int64)
    for number in (1, 2, 3):
        publish(whole, number, 1, 7, number, number / 3)
    for hidden in np.flatnonzero(whole[8 + 8 * 2 : 8 + 8 * 3]) + 8 + 8 * 2:
        ring = Ring("cpu", 0)
        ring.array[:] = whole
        ring.array[hidden] = 0
        assert ring.take()[:, ITERATION].tolist() == [1]
        ring.array[hidden] = whole[hidden]
        assert ring.take()[:, ITERATION].tolist() == [2, 3]
        assert ring.lost == 0
        # Where nothing comes any more, it is lost.
        ring = Ring("cpu", 0)
        ring.array[:] = whole
        ring.array[hidden] = 0
        assert ring.take(ended=True)[:, ITERATION].tolist() == [1, 3]
        assert ring.lost == 1


def test_curves() -> None:
    assert curve([1.0, 0.1, 0.01]) == "█▅▁"
    assert curve([1.0, math.nan, -1.0, math.inf]) == "█ ▁ "
    assert curve([2.0, 2.0]) == "▁▁"
    assert curve([]) == ""
    assert len(curve(range(1, 1000))) == 32


# --- code ---------------------------------------------------------------------------------------------------------------


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", ["halving", *thorough("every third", "nested", "counted", "do-while")])
def test_without_a_watch_the_code_is_that_without_the_statement(name: str) -> None:
    function, make = CASES[name]
    kernel = qgraph.kernel(function)
    plain = qgraph.kernel(without_progress(function))
    assert kernel.ptx(*make()) == plain.ptx(*make())
    assert kernel.ptx(*make()) != WatchedKernel(kernel).ptx(*make())


def without_progress(function: Any) -> Any:
    """The same function with a `pass` in the place of each statement that tells."""
    lines, first = inspect.getsourcelines(function)
    kept = [f"{line[: len(line) - len(line.lstrip())]}pass\n" if "qgraph.progress(" in line else line for line in lines]
    file = f"<{function.__name__} without progress>"
    text = "\n" * (first - 1) + textwrap.dedent("".join(kept))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(vars(inspect.getmodule(function)))
    exec(compile(ast.parse(text), file, "exec"), names)
    return names[function.__name__]


@pytest.mark.needs("compiler")
def test_each_block_still_finishes_the_reduction() -> None:
    for function, args in ((halving, ()), (told_in_many_ways, (np.arange(3.0),)), (told_before_the_reduction, ())):
        (loop,) = WatchedKernel(qgraph.kernel(function)).plan(np.ones(8), *args, 0.1).unrolled
        assert (loop.handed is not None) == (function is not told_before_the_reduction)


@pytest.mark.needs("host_arrays")
def test_the_output_of_a_cell_is_drawn_anew(rig: Any, capsys: Any) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    published = pytest.importorskip("IPython.core.displaypub").CapturingDisplayPublisher()
    shell = shells.InteractiveShell.instance()
    try:
        shell.display_pub = published
        shell.user_ns |= {"kernel": rig.kernel(halving), "x": np.ones(4)}
        assert shell.run_cell("import qgraph\nwith qgraph.watch(kernel) as seen:\n    kernel(x, 1e-3)\n").success
    finally:
        shells.InteractiveShell.clear_instance()
    first, *others = published.outputs
    assert not first.get("update")
    assert all(each["update"] and each["transient"] == first["transient"] for each in others)
    text = published.outputs[-1]["data"]["text/html"]
    assert "<td>10</td><td>9.766e-04</td>" in text
    # The logarithms of halves lie on a line.
    points = re.search('points="([^"]*)"', text)
    assert points is not None
    pairs = [tuple(map(float, each.split(","))) for each in points[1].split()]
    assert len(pairs) == 10
    steps = np.diff(np.array(pairs), axis=0)
    assert (steps[:, 0] > 0).all()
    np.testing.assert_allclose(steps[:, 1], steps[0, 1], atol=0.11)
    assert steps[0, 1] > 0
    assert capsys.readouterr().out == ""


def test_curves_of_what_is_no_number() -> None:
    assert heights([]).tolist() == []
    assert np.isnan(heights([np.nan, np.inf])).all()
    np.testing.assert_allclose(heights([1.0, np.nan, 100.0, 10.0]), [0.0, np.nan, 1.0, 0.5])
    np.testing.assert_allclose(heights([-1.0, 1.0, 0.0]), [0.0, 1.0, 0.5])
    assert heights([3.0, 3.0]).tolist() == [0.0, 0.0]
    assert svg_curve([1.0, np.nan, 2.0, 3.0]).count("<polyline") == 2
    assert "<polyline" not in svg_curve([])


@pytest.mark.parametrize("ancestors", [("TerminalInteractiveShell",), ("ZMQInteractiveShell",), ()])
def test_where_a_cell_is(monkeypatch: Any, ancestors: tuple[str, ...]) -> None:
    shell = type(ancestors[0], (), {})() if ancestors else None
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert in_notebook() == (ancestors == ("ZMQInteractiveShell",))

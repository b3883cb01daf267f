"""What tests/faults.py calls: kernels that together use all kinds of things, and what programs do with arrays besides."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import qgraph


def loop(x, y, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    for i in range(y.shape[0]):
        y[i] = y[i] * 5 + 2


def reduction(x, y, a):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * a
    for i in range(y.shape[0]):
        y[i] += s
    return s


def turns(x, y, a):
    n = 0
    while n < a:
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + n
        n += 1
    for i in range(y.shape[0]):
        y[i] += x[i]
    return n


def branch(x, y, a):
    for t in qgraph.serial(range(3)):
        if t * y[0] > a:
            for i in range(x.shape[0]):
                x[i] = x[i] + t
        else:
            for i in range(x.shape[0]):
                x[i] = x[i] * 2


def temporaries(x, y, a):
    t = qgraph.empty_like(x)
    for i in range(x.shape[0]):
        t[i] = x[i] * a
    for i in range(x.shape[0]):
        y[i] = t[x.shape[0] - 1 - i]


def memory_of_the_graph(x, y, a):
    t = qgraph.empty(x.shape[0], x.dtype, alloc=True)
    for i in range(x.shape[0]):
        t[i] = x[i] * a
    for i in range(x.shape[0]):
        y[i] = t[x.shape[0] - 1 - i]


def memory_nodes(x, y, a):
    y[:] = x
    for i in range(x.shape[0]):
        x[i] = y[i] + a
    y[:] = 0


def note(s, array):
    assert s == array.sum()


def callback(x, y, a):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    qgraph.host_callback(note, s, x)
    for i in range(y.shape[0]):
        y[i] += a


def written_flag(x, y, a, flag):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    qgraph.write_value(flag, a)
    for i in range(y.shape[0]):
        y[i] += flag[0]


def events(x, y, a, before, after):
    qgraph.wait(before)
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    qgraph.record(after)
    for i in range(y.shape[0]):
        y[i] += x[i]


def increment(x):
    x += 1


def library(x, y, a):
    for i in range(x.shape[0]):
        x[i] = (x[i] * 3 + a) % 7
    y[:] = np.sort(x)
    n = 0
    while n < a:
        qgraph.call(increment, y)
        for i in range(x.shape[0]):
            x[i] += y[i] * n
        n += 1


class Arrays:
    """Stands for a kernel: what programs do with arrays besides."""

    stats = types.SimpleNamespace(replays=0)

    def __call__(self, x, y, a):
        made = qgraph.asarray(np.arange(4.0), backend="cuda")
        copied = made.copy()
        copied.fill(a)
        with qgraph.pool(4096, backend="cuda") as pool:
            inside = pool.empty(3, np.int64)
        inside.fill(0)
        scalar = qgraph.scalar(np.float64, 1.5, backend="cuda")
        scalar.update(2.5)
        return float(made.numpy().sum() + copied.numpy().sum() + inside.numpy().sum() + float(scalar.value)) + float(y[1])

    def reference(self, x, y, a):
        return 6 + 4 * a + 2.5 + y[1]

    def clear_cache(self):
        pass


class Captured:
    """Stands for a kernel: one that is called, called while its stream is captured, and what was captured is launched."""

    stats = types.SimpleNamespace(replays=0)

    def __init__(self):
        self._kernel = qgraph.kernel(backend="cuda")(branch)

    def __call__(self, x, y, a):
        # What is not compiled cannot be captured.
        self._kernel(x, y, a)
        with qgraph.capture() as g:
            self._kernel(x, y, a)
        g()

    def reference(self, x, y, a):
        for _ in range(2):
            self._kernel.reference(x, y, a)

    def clear_cache(self):
        self._kernel.clear_cache()


class ChildGraphs:
    """Stands for a kernel: one that calls a recorded graph, another one for other arrays, alone and in a loop."""

    def __init__(self, **options):
        self._recorded = qgraph.kernel(backend="cuda")(memory_nodes)
        self._graphs = {}
        g = None

        def calls(x, y, a):
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + a
            g(reads=(x,), writes=(x, y))
            n = 0
            while n < a:
                g()
                for i in range(x.shape[0]):
                    y[i] += x[i] + n
                n += 1

        def choose(chosen):
            nonlocal g
            g = chosen

        self._choose, self._plain = choose, calls
        self._calls = qgraph.kernel(backend="cuda", **options)(calls)

    @property
    def stats(self):
        return self._calls.stats

    def __call__(self, x, y, a):
        if id(x) not in self._graphs:
            # It runs, so that it can be captured; what it does to the arrays is undone.
            before = x.copy(), y.copy()
            self._recorded(x, y, a)
            x[:], y[:] = before
            with qgraph.capture() as g:
                self._recorded(x, y, a)
            self._graphs[id(x)] = g
        self._choose(self._graphs[id(x)])
        self._calls(x, y, a)

    def reference(self, x, y, a):
        def g(reads=(), writes=()):
            memory_nodes(x, y, a)

        self._choose(g)
        self._plain(x, y, a)

    def clear_cache(self):
        self._choose(None)
        self._graphs.clear()
        self._calls.clear_cache()
        self._recorded.clear_cache()


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel with its options."""

    name: str
    # A class: what it makes is called.
    function: Callable[..., Any]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Whether its arrays are NumPy's, which each call copies.
    staged: bool = False
    # Whether its temporaries lie in a pool.
    pool: bool = False
    # The number that it gets, and one more for the other arrays.
    a: int = 2
    # What it gets besides.
    flag: bool = False
    events: int = 0
    # Whether all calls are like the first.
    alike: bool = False
    # Whether a call lets go of what was made for the one before it.
    renews: bool = False
    # Whether it calls a library.
    library: bool = False


CASES = (
    Case("loop", loop),
    Case("reduction, number", reduction),
    Case("device loop", turns),
    Case("long device loop", turns, a=20),
    Case("branch", branch),
    Case("temporaries", temporaries),
    Case("temporaries, pool", temporaries, pool=True),
    Case("temporaries, alloc", memory_of_the_graph),
    Case("memset, memcpy", memory_nodes),
    Case("write_value", written_flag, flag=True),
    Case("write_value, stream", written_flag, {"graph": False}, flag=True),
    Case("events", events, events=2),
    Case("host callback", callback),
    Case("host arrays", reduction, staged=True),
    Case("host loop", turns, {"conditional": "host"}),
    Case("host loop, ahead", turns, {"conditional": "host"}, a=20),
    Case("host branch", branch, {"conditional": "host"}),
    Case("stream", turns, {"graph": False}),
    Case("one block", turns, {"fuse": True}),
    Case("arrays", Arrays, alike=True),
    Case("captured", Captured, alike=True),
    Case("child graph", ChildGraphs, renews=True),
    Case("child graph, host", ChildGraphs, {"conditional": "host"}, renews=True),
    Case("child graph, stream", ChildGraphs, {"graph": False}, renews=True),
    Case("library", library, library=True),
    Case("library, host", library, {"conditional": "host"}, library=True),
    Case("library, stream", library, {"graph": False}, library=True),
)

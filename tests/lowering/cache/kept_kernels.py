"""Kernels whose machine code is kept: a program that runs each of them and compares it with plain Python.

It prints one line of JSON: for each kernel whether it came off the disk and why it cannot be kept, and what was imported. With
``one`` it runs one kernel, with ``clear`` it compiles one anew at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import io
import json
import math
import os
import signal
import sys
import threading
from typing import Any

import numpy as np

import qgraph
from qgraph.compat import numba as compat
from qgraph.lowering import compile as compiling

SIZE = 100_000


@dataclasses.dataclass
class Grid:
    """A structure."""

    x: Any
    step: float


@qgraph.func
def shifted(v, by=0.5):
    return math.sin(v) + by


def loops(x, y):
    for i in range(x.shape[0]):
        y[i] = abs(shifted(x[i])) ** 1.5
    for i in range(1, x.shape[0] - 1):
        x[i] = y[i - 1] + y[i + 1]


def reductions(x):
    s, best, where = 0.0, -math.inf, -1
    for i in range(x.shape[0]):
        s += x[i]
    for i in range(x.shape[0]):
        if x[i] > best:
            best, where = x[i], i
    return s, best, where


def histogram(x, counts):
    for i in range(x.shape[0]):
        counts[int(x[i]) % 7] += 1


def asserted(x):
    for i in range(x.shape[0]):
        assert x[i] < 5.0, "too large"
        x[i] = x[i] + 1


def raised(x, n):
    if x[0] > n:
        raise KeyError("first")
    for i in range(x.shape[0]):
        if x[i] > n:
            raise ValueError("later")
        x[i] = x[i] * 2


def temporaries(x, y):
    t = np.empty_like(x)
    t[:] = np.sqrt(x) + y
    y[1:] = t[:-1] * 2
    return np.sum(t)


def structures(grid, pair):
    for i in range(grid.x.shape[0]):
        pair[0][i] = grid.x[i] * grid.step + pair[1]


def steps(x):
    n = 0
    while n < 40:
        n += 1
        if n > 20:
            break
        for i in range(x.shape[0]):
            x[i] += n
    return n


def complexes(x, z):
    for i in range(x.shape[0]):
        z[i] = z[i] ** 2 + x[i] * 1j
        x[i] = math.erf(x[i]) + math.fmod(x[i], 0.75) + x[i] // 0.3


SEEN: list[Any] = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def in_c(pointer):
    SEEN.append(pointer)


def noted(first, x):
    SEEN.append((first, float(x.sum())))


def calling(x):
    a = x[1]
    qgraph.host_callback(noted, a, x)
    for i in range(x.shape[0]):
        x[i] += a
    qgraph.host_callback(in_c, 4096)
    qgraph.host_callback(noted, a, x)


def called():
    """What the host is called with by a kernel, as by plain Python."""
    for function in (qgraph.kernel(calling), calling):
        function(np.arange(3.0))
    assert SEEN == [(1.0, 3.0), 4096, (1.0, 6.0)] * 2, SEEN


def printed(x):
    a = x[0]
    print("a is", a)
    for i in range(x.shape[0]):
        x[i] += a


def endless(x):
    n = 0.0
    while n < x[0]:
        n = n * 0.5
    x[0] = n


def numbers():
    return np.linspace(0.0, 4.0, SIZE)


CASES = {
    loops: lambda: (numbers(), np.zeros(SIZE)),
    reductions: lambda: (numbers(),),
    histogram: lambda: (numbers() * 5, np.zeros(7, np.int64)),
    asserted: lambda: (numbers(),),
    raised: lambda: (numbers(), 3.0),
    temporaries: lambda: (numbers(), numbers()),
    structures: lambda: (Grid(numbers(), 0.25), (np.zeros(SIZE), 3)),
    steps: lambda: (numbers(),),
    complexes: lambda: (numbers(), numbers() + 1j),
}


def told(function, arguments):
    """What a call answers, the kind of its error, and what it leaves in the arrays; an error leaves anything."""
    try:
        answer = function(*arguments)
    except (AssertionError, KeyError, ValueError) as error:
        return [each.__name__ for each in (AssertionError, KeyError, ValueError) if isinstance(error, each)]
    return answer, *arguments


def same(found, wanted):
    if isinstance(wanted, np.ndarray):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    elif isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif dataclasses.is_dataclass(wanted):
        same(tuple(vars(found).values()), tuple(vars(wanted).values()))
    elif isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=1e-12)
    else:
        assert found == wanted, (found, wanted)


def interrupted():
    """Ctrl-C ends a loop that does not end."""
    kernel = qgraph.kernel(endless)
    kernel(np.zeros(1))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with contextlib.suppress(KeyboardInterrupt):
        kernel(np.ones(1))
        raise AssertionError("it ended")
    timer.join()


def in_a_child(kernel, arguments, wanted):
    """The same where the threads were left behind."""
    child = os.fork()
    if child == 0:
        same(told(kernel, arguments), wanted)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main():
    found = {}
    really = compiling.compile_cpu

    def noting(plan, options, **named):
        made = really(plan, options, **named)
        found[plan.program.name] = made.from_disk, made.unkept
        return made

    compiling.compile_cpu = noting
    for function, make in list(CASES.items())[: 1 if "one" in sys.argv else None]:
        kernel, wanted = qgraph.kernel(function), told(function, make())
        # The second call, and the third, with the same arrays, are short cuts.
        same(told(kernel, make()), wanted)
        same(told(kernel, make()), wanted)
    if "one" not in sys.argv:
        interrupted()
        called()
        in_a_child(kernel, make(), wanted)
    compilers = [name for name in ("numba", "llvmlite") if name in sys.modules]
    if "one" not in sys.argv:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            qgraph.kernel(printed)(numbers() + 1.0)
        assert out.getvalue() == "a is 1.0\n"
    if "clear" in sys.argv:
        # Who imports Numba now finds its parts as they are.
        kernel.clear_cache()
        same(told(kernel, make()), wanted)
        import numba

        known = compat._RUNTIME.helpers
        assert all(known.get(f"numba_{name}", place) == place for name, place in numba._helperlib.c_helpers.items())
        assert not found[kernel.__name__][0]
    print(json.dumps({"kernels": found, "compilers": compilers, "place": id(np.ndarray)}))


if __name__ == "__main__":
    main()

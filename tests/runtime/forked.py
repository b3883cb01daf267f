"""Kernels in processes forked from one that used them, as a program: ``python -m tests.runtime.forked WAY ...``."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import qgraph

# Long enough for every thread to have a chunk.
SIZE = 40_000
TABLE = np.arange(1.0, 8.0)


@qgraph.kernel
def scale(x, y, a):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + 1


@qgraph.kernel
def norm(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return s


@qgraph.kernel
def looked_up(x, y):
    for i in range(x.shape[0]):
        y[i] = TABLE[i % TABLE.shape[0]] * x[i]


@qgraph.kernel
def relax(x, y, tol):
    turns, change = 0, tol + 1.0
    while change > tol:
        change = 0.0
        for i in range(x.shape[0]):
            y[i] = 0.5 * x[i]
            change = max(change, abs(y[i] - x[i]))
        x, y = y, x
        turns += 1
    return turns, change


@qgraph.kernel
def counted(x, y):
    for i in range(x.shape[0]):
        y[(i * 7) % 64] += 1


def arrays(dtype: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    return (np.arange(size) % 97).astype(dtype), np.zeros(size, dtype)


# Types that the parent used, and some that only the child compiles.
USED = [(scale, "f8", (2.5,)), (norm, "f8", None), (looked_up, "f8", ()), (relax, "f8", (1e-3,)), (counted, "i8", ())]
NEW = [(scale, "f4", (2.5,))]


@functools.cache
def in_plain_python(kernel: Any, dtype: str, more: tuple[Any, ...] | None, size: int) -> tuple[Any, Any]:
    """What a call leaves in its arrays, and what it returns; children have those of their parent."""
    meant = arrays(dtype, size)
    return meant, kernel.reference(*meant[:1]) if more is None else kernel.reference(*meant, *more)


def differs(kernel: Any, dtype: str, more: tuple[Any, ...] | None, size: int = SIZE) -> str:
    """Why a call is not as plain Python; empty if it is. ``more`` follows both arrays; None: there is only one."""
    got = arrays(dtype, size)
    meant, value = in_plain_python(kernel, dtype, more, size)
    found = kernel(*got[:1]) if more is None else kernel(*got, *more)
    same = all(np.allclose(a, b, rtol=1e-5) for a, b in zip(got, meant, strict=True))
    agrees = found is value is None or np.allclose(found, value, rtol=1e-3)
    return "" if same and agrees else f"{kernel} of {dtype}: {found}, not {value}"


def work(number: int) -> str:
    """What each child does."""
    wrong = [differs(*case) for case in (*USED, *NEW)]
    wrong += [differs(scale, "f8", (1.5,), size) for size in (0, 1, SIZE // 2 + number)]
    x, y = arrays("f8", SIZE)
    bound = scale.bind(x, y, 2.0)
    for _ in range(3):
        bound.launch()
        # Taken turns, so that known calls come back.
        norm(x)
        scale(x, y, 2.0)
    wrong += [] if np.array_equal(y, 2 * x + 1) else ["calls that come back"]
    wrong += [] if "on one thread" in scale.last_launch.reason else [scale.last_launch.reason]
    return "; ".join(filter(None, wrong))


def by_fork() -> list[str]:
    return [_through_pipe(lambda: work(0))]


def by_fork_of_a_fork() -> list[str]:
    return [_through_pipe(lambda: _through_pipe(lambda: work(0)) + work(1))]


def _through_pipe(function: Any) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent tells it
            told = repr(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        told = pipe.read()
    status = os.waitpid(child, 0)[1]
    return told + (f" ended with {status}" if status else "")


def by_pool() -> list[str]:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(work, range(3))


def by_executor() -> list[str]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(work, range(3)))


def by_workers_with_queues() -> list[str]:
    """As loaders of data do: workers live long, and the parent goes on meanwhile."""
    fork = multiprocessing.get_context("fork")
    wanted, done = fork.Queue(), fork.Queue()

    def serve() -> None:
        for number in iter(wanted.get, None):
            done.put(work(number))

    workers = [fork.Process(target=serve) for _ in range(2)]
    for worker in workers:
        worker.start()
    for item in (0, 1, 2, None, None):
        wanted.put(item)
    told = [*(differs(*case) for case in USED), *(done.get(timeout=100) for _ in range(3))]
    for worker in workers:
        worker.join(timeout=100)
    return told + [f"a worker ended with {worker.exitcode}" for worker in workers if worker.exitcode]


def while_another_thread_runs() -> list[str]:
    """The fork comes while another thread is in a parallel loop, and holds what a launch holds."""
    stop, told = threading.Event(), []
    thread = threading.Thread(
        target=lambda: [differs(*USED[number % 4]) for number in iter(lambda: len(told), 6) if not stop.is_set()]
    )
    thread.start()
    for _ in range(5):
        told.append(_through_pipe(lambda: "; ".join(filter(None, (differs(*case) for case in USED)))))
    stop.set()
    told.append("")
    thread.join()
    return told


WAYS = {
    function.__name__: function
    for function in (by_fork, by_fork_of_a_fork, by_pool, by_executor, by_workers_with_queues, while_another_thread_runs)
}


def main(way: str) -> None:
    """Use everything, let children use it, and use it again."""
    print(f"{way}: ", end="", flush=True)
    wrong = [differs(*case) for case in USED]
    wrong += WAYS[way]()
    # The parent's threads are its own.
    wrong += [differs(*case) for case in USED]
    wrong += [] if "on all threads" in scale.last_launch.reason else [scale.last_launch.reason]
    print("; ".join(filter(None, wrong)) or "as plain Python")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(each)

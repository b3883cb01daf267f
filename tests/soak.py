"""What stays of many replays, arguments and kernels: ``python -m tests.soak [--replays N] [--arguments N] [--kernels N]``.

Prints, for each of them, how many there were, the seconds, and by how many MB the memory of the process, and of the device, has
grown between a tenth of them and all.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Callable

import numpy as np

import qgraph


def step(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        y[i] = x[i] + 1
        s += x[i]
    for i in range(x.shape[0]):
        x[i] = y[i] - 1


def scaled(x, factor: qgraph.Static):
    for i in range(x.shape[0]):
        x[i] *= factor


def on_host() -> float:
    """MB of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def on_device(backend: str) -> float:
    """MB of memory that is taken on the device, by anybody."""
    if backend != "cuda":
        return 0.0
    from cuda.bindings import driver

    _, free, total = driver.cuMemGetInfo()
    return (total - free) / 1e6


def grown(backend: str, name: str, count: int, one: Callable[[int], None]) -> None:
    """Do ``one`` so many times, and print what that has left."""
    first = max(1, count // 10)
    began = time.perf_counter()
    before = (0.0, 0.0)
    for number in range(count):
        one(number)
        if number + 1 == first:
            gc.collect()
            before = on_host(), on_device(backend)
    if backend == "cuda":
        qgraph.synchronize()
    gc.collect()
    seconds = time.perf_counter() - began
    host, device = on_host() - before[0], on_device(backend) - before[1]
    print(f"{name:<12}{count:>10,}  {seconds:8.1f} s   host {host:+8.1f} MB   device {device:+8.1f} MB", flush=True)


def race(backend: str, threads: int = 16, kernels: int = 10) -> None:
    """Call kernels for the first time in many threads at once: each is compiled once, and gives the right answer."""
    made = [qgraph.kernel(backend=backend)(scaled) for _ in range(kernels)]
    wrong: list[object] = []
    start = threading.Barrier(threads)

    def work(seed: int) -> None:
        start.wait()
        for turn in range(kernels):
            number = (seed + turn) % kernels
            x = qgraph.asarray(np.arange(100.0), backend=backend)
            made[number](x, float(number + 2))
            found = qgraph.to_numpy(x)
            if not np.array_equal(found, np.arange(100.0) * (number + 2)):
                wrong.append((seed, number))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    compiled = [kernel.stats.compilations for kernel in made]
    assert not wrong, wrong
    assert compiled == [1] * kernels, compiled
    print(f"{threads} threads, {kernels} kernels, first calls at once: one compilation each, right answers", flush=True)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--replays", type=int, default=1_000_000)
    parser.add_argument("--arguments", type=int, default=10_000)
    parser.add_argument("--kernels", type=int, default=10_000)
    given = parser.parse_args()
    backend = given.backend
    x, y = (qgraph.asarray(np.zeros(256), backend=backend) for _ in range(2))
    race(backend)
    kernel = qgraph.kernel(backend=backend)(step)
    grown(backend, "replays", given.replays, lambda _: kernel(x, y))
    sizes = np.random.default_rng(0).integers(1, 4096, given.arguments)

    def with_other_arguments(number: int) -> None:
        one, other = (qgraph.asarray(np.ones(sizes[number]), backend=backend) for _ in range(2))
        kernel(one, other)

    grown(backend, "arguments", given.arguments, with_other_arguments)
    grown(backend, "kernels", given.kernels, lambda number: qgraph.kernel(backend=backend)(scaled)(x, float(number)))


if __name__ == "__main__":
    main()

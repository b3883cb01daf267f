"""Watched kernels on the cuda backend, with the driver of tests/played_driver.py: a script for test_watched.py."""

from __future__ import annotations

import gc
import sys
import warnings

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver import driver
from qgraph.runtime.executors import unrolled
from tests import played_driver
from tests.features.test_watch import CASES, expected, halving


def on_device(values):
    return [qgraph.asarray(each, backend="cuda") if isinstance(each, np.ndarray) else each for each in values]


NAMES = (
    *("halving a grid", "every third", "told before", "nested"),
    *("counted", "do-while", "of one thread", "in a func"),
)
COUNTED = ("sweeping", "sweeping from 3", "sweeping by twos", "told first", "of a sum", "as asked")


def as_told(name, runs, **options):
    function, make = CASES[name]
    with pytest.MonkeyPatch.context() as patch:
        wanted, after, told = expected(function, make, patch)
    kernel = qgraph.kernel(backend="cuda", **options)(function)
    with qgraph.watch(kernel, show=False) as seen:
        for _ in range(runs):
            given = on_device(make())
            assert kernel(*given) == wanted
            qgraph.synchronize()
            for mine, theirs in zip(given, after, strict=True):
                np.testing.assert_allclose(qgraph.to_numpy(mine) if hasattr(mine, "shape") else mine, theirs, rtol=1e-12)
    assert [each[1:3] for each in seen.history.tolist()] == [each[:2] for each in told] * runs, name
    np.testing.assert_allclose(seen.history["residual"], [each[2] for each in told] * runs, rtol=1e-6)


def histories():
    for options in ({}, {"graph": False}, {"fuse": True}):
        for name in NAMES:
            as_told(name, 2, **options)


def counted_loops():
    """In all their graphs: a plain one at first, copies when the loops turned out to run long, and those of large grids."""
    for small in (unrolled._SMALL, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unrolled, "_SMALL", small)
            for name in COUNTED:
                as_told(name, 3)
    for name in COUNTED:
        as_told(name, 2, conditional="host")


def bound_and_copied():
    kernel = qgraph.kernel(backend="cuda")(halving)
    x = qgraph.asarray(np.ones(40), backend="cuda")
    with qgraph.watch(kernel, show=False) as seen:
        bound = kernel.bind(x, 0.2)
        bound.launch()
        bound.launch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", qgraph.PerformanceWarning)
            kernel(np.ones(4), 0.4)
    assert seen.history["iteration"].tolist() == [1, 2, 3, 1, 1, 2]
    assert seen.history["run"].tolist() == [0, 0, 0, 1, 2, 2]


def memory():
    """The rows' memory is given back, when nothing can write it any more, and that of their copies with the watch."""
    kernel = qgraph.kernel(backend="cuda")(halving)
    x = qgraph.asarray(np.ones(4), backend="cuda")

    def held():
        gc.collect()
        driver.device(0).free_retired()
        return played.alive["memory"], played.alive["host memory"]

    def watched():
        with qgraph.watch(kernel, show=False):
            kernel(x, 0.2)

    watched()
    before = rows, copies = held()
    for _ in range(3):
        watched()
    assert held() == before
    with qgraph.watch(kernel, show=False):
        bound = kernel.bind(x, 0.2)
    gc.collect()
    bound.launch()
    assert held() == (rows + 1, copies)
    del bound
    assert held() == before


PARTS = ("histories", "counted_loops", "bound_and_copied", "memory")

if __name__ == "__main__":
    played = played_driver.install_played()
    for part in sys.argv[1:] or PARTS:
        globals()[part]()
    print("as plain Python")

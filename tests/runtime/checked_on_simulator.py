"""Kernels that are checked on the cuda backend, with the driver of tests/played_driver.py: a script for test_checked.py."""

from __future__ import annotations

import numpy as np

import qgraph
from tests import played_driver
from tests.features.test_bounds import SEEN, only_on_the_host


def nothing_to_check():
    for options in ({}, {"graph": False}):
        kernel = qgraph.kernel(only_on_the_host, backend="cuda", bounds_check=True, **options)
        SEEN.clear()
        for _ in range(2):
            kernel(qgraph.asarray(np.arange(6.0), backend="cuda"))
            qgraph.synchronize()
        np.testing.assert_array_equal(SEEN, [np.arange(6.0)] * 2)


if __name__ == "__main__":
    played = played_driver.install_played()
    nothing_to_check()
    print("as plain Python")

"""Arrays of one shape and of several on the cuda backend, with the driver of tests/played_driver.py: for test_extents.py."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError
from tests import played_driver
from tests.gpu import test_equal_extents
from tests.gpu.test_equal_extents import CASES, LIKE, UNLIKE, agrees, arrays, weighted


def code_of(kernel):
    """The groups of leaves that have one shape in the kernel's code."""
    (found,) = {specialisation._extents.equal for specialisation in kernel._cache.specialisations.values()}
    return found


def calls():
    """What the first call's arrays have in common is taken for granted until it does not hold."""
    groups = {"weighted": ("x", "y", "z"), "converging": ("x", "y"), "made": ("x", "y")}
    for name, (function, count, more) in CASES.items():
        kernel = qgraph.kernel(backend="cuda")(function)
        more = [min(number, 4) for number in more]
        for number, shapes in enumerate((LIKE, [(7, 5)] * 3, [(0, 5)] * 3 if name == "weighted" else LIKE)):
            agrees(kernel, *arrays(*shapes[:count]), *more)
            assert kernel.stats.compilations == 1, number
            (group,) = code_of(kernel)
            assert set(groups[name]) <= set(group)
        for shapes in (((70, 33), (81, 45), (69, 32)), LIKE, ((9, 7), (9, 8), (8, 7))):
            agrees(kernel, *arrays(*shapes[:count]), *more)
            assert kernel.stats.compilations == 2
            assert code_of(kernel) == ()


def bound():
    """Bound arguments that are unlike, where other calls have arrays of one shape, and the other way round."""
    test_equal_extents.test_bound_to_unlike_ones()
    test_equal_extents.test_bound_when_others_come()


def captured():
    """Nothing is built while a stream is captured: a call is asked for, after which the captured graph has the right code."""
    qgraph.set_backend("cuda")
    for binds in (False, True):
        kernel = qgraph.kernel(backend="cuda")(weighted)
        agrees(kernel, *arrays(*LIKE))
        hosts = arrays(*UNLIKE)
        args = [qgraph.asarray(each, backend="cuda") for each in hosts]
        # By itself, as whoever holds the function alone has it: what it launches is built anew.
        launch = kernel.bind(*args).launch if binds else lambda kernel=kernel, args=args: kernel(*args)
        with pytest.raises(CudaError, match="not compiled for these arguments yet"), qgraph.capture():
            launch()
        launch()
        with qgraph.capture() as graph:
            launch()
        args[2].fill(77)
        graph()
        kernel.reference(*hosts)
        np.testing.assert_array_equal(qgraph.to_numpy(args[2]), hosts[2])
        assert kernel.stats.compilations == 2


PARTS = ("calls", "bound", "captured")

if __name__ == "__main__":
    played_driver.install_played()
    for part in sys.argv[1:] or PARTS:
        globals()[part]()
    print("as plain Python")

"""``kernel.check`` of arrays on the device: they are copied to the host, views of one memory as one, and stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


@qgraph.kernel
def scatter(x, y, idx):
    """A race where an index comes twice."""
    for i in range(idx.shape[0]):
        x[idx[i]] = y[i]


def test_arrays_of_the_device():
    idx = qgraph.asarray(np.array([2, 0, 2]), backend="cuda")
    x = qgraph.zeros(4, backend="cuda")
    y = qgraph.asarray(np.arange(3.0) + 1, backend="cuda")
    with pytest.raises(qgraph.DataRaceError, match=r"`x\[2\]`: i = 0 and i = 2"):
        scatter.check(x, y, idx)
    np.testing.assert_array_equal(x.numpy(), np.zeros(4))
    assert scatter.check(x, y, idx[:2]).accesses == 6


def test_parts_of_one_memory():
    both = qgraph.zeros(8, backend="cuda")
    idx = qgraph.asarray(np.array([0, 1, 2]), backend="cuda")
    with pytest.raises(qgraph.ArgumentError, match="overlap in part"):
        scatter.check(both[:5], both[3:], idx)
    assert scatter.check(both[:3], both[5:], idx).accesses == 9

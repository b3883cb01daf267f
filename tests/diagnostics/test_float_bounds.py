"""A float bound is refused whatever its value: an empty range is no excuse."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


@qgraph.kernel
def half(x, n):
    for i in range(n / 2):
        x[i] = 1.0


@pytest.mark.parametrize("n", [0, -3, 4])
def test_a_float_bound_is_refused_whatever_its_value(n):
    x = np.zeros(8)
    with pytest.raises(qgraph.ArgumentError, match="not an integer"):
        half(x, n)
    assert not x.any()

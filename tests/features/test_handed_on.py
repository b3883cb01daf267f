"""Loops whose reductions the next kernel may finish are those of plain Python on every backend."""

from __future__ import annotations

import numpy as np
import pytest

from tests.handed_kernels import counted_before, greatest, like_cg


@pytest.mark.parametrize("function", [greatest, like_cg, counted_before], ids=lambda each: each.__name__)
def test_as_plain_python(check, function):
    def given():
        x = np.arange(60) * 7919 % 1000
        x = x.reshape(6, 10) if function is greatest else x
        return x, x[::-1].copy(), -1, 9

    check(function, given)

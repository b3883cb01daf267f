"""Scalars on the host: what a type holds, as bytes, and what is computed from a scalar."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qgraph
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES
from qgraph.runtime.values.host_scalar import HostScalar, bytes_of

VALUES = (
    *(0, 1, -1, True, False, 0.5, -0.0, 1e300, 1e-320, float("inf"), 2**24 + 1, 2**53 + 1, 2**70, 3.4028235677973366e38),
    *(127, 128, 255, 256, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1, 1 + 2j, np.float32(3), np.int8(-4), np.bool_(True)),
)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_bytes_are_those_of_an_array(dtype):
    taken = 0
    for value in VALUES:
        array = np.zeros((), dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = bytes_of(array.dtype, value)
            except qgraph.ArgumentError:
                continue
            array[()] = value
        taken += 1
        assert found == array.tobytes(), value
    assert taken >= 5


@pytest.mark.parametrize("dtype", ["U3", "M8[s]", "O", ">f8", "longdouble"])
def test_types_that_kernels_cannot_use(dtype):
    with pytest.raises(qgraph.ArgumentError, match="argument `dtype`"):
        qgraph.scalar(dtype, 1, backend="cpu")


def test_what_is_computed_from_one_is_a_number():
    alpha = qgraph.scalar(np.float64, 2.5, backend="cpu")
    for result in (alpha + 1, -alpha, np.sqrt(alpha), np.float64(2) * alpha, *np.divmod(alpha, 2)):
        assert type(result) is np.float64
    assert type(alpha * np.ones(3)) is np.ndarray
    same = alpha
    same += 1
    assert same is alpha
    assert type(same) is HostScalar
    assert alpha.value == 3.5

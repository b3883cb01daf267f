"""What is said where no driver is installed."""

from __future__ import annotations

import pytest

from qgraph.errors import CudaError
from qgraph.runtime.driver import driver


class DynamicLibNotFoundError(RuntimeError):
    """As the library of NVIDIA's names it that looks for the driver."""


def test_a_driver_that_is_not_there_is_no_old_one():
    def cuInit(flags):
        raise DynamicLibNotFoundError('"cuda" is an NVIDIA driver library and can only be found via system search.')

    with pytest.raises(CudaError, match="^no NVIDIA driver was found on this machine\nhelp: install the NVIDIA driver"):
        driver.call(cuInit, 0)


def test_a_symbol_that_is_not_there_is_of_an_old_one():
    def cuGraphNew(flags):
        raise RuntimeError("Function cuGraphNew not found")

    with pytest.raises(CudaError, match="cuGraphNew is not in this CUDA driver"):
        driver.call(cuGraphNew, 0)

"""Kernels with ``bounds_check`` on the whole cuda backend, on a driver in plain Python: see checked_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator


@pytest.mark.needs("compiler")
def test_where_there_is_nothing_to_check():
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.checked_on_simulator")

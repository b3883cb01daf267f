"""Watched kernels on the whole cuda backend, on a driver in plain Python: see watched_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.conftest import thorough
from tests.processes import agrees_on_the_simulator


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("part", ["histories", "counted_loops", *thorough("bound_and_copied", "memory")])
def test_rows_on_the_played_driver(part):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.watched_on_simulator", part)

"""Profiles on the whole cuda backend, on a driver in plain Python: see profiled_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator


@pytest.mark.needs("compiler")
def test_profiles_on_the_played_driver():
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.profiled_on_simulator", "forms")

"""Whole random kernels on every backend, against CPython."""

from __future__ import annotations

import os
import time

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.properties.programs import programs
from tests.properties.running import run

SECONDS = float(os.environ.get("QGRAPH_FUZZ_SECONDS", "60"))
_PHASES = (Phase.generate, Phase.shrink)


def test_random_programs(backend):
    end = time.monotonic() + SECONDS
    ran = 0

    @settings(max_examples=100_000, deadline=None, database=None, phases=_PHASES, suppress_health_check=list(HealthCheck))
    @given(programs(), st.sampled_from([1, 2, 5]), st.sampled_from([1, 3]), st.integers(0, 3), st.booleans())
    def search(source, n, m, seed, alias):
        nonlocal ran
        if time.monotonic() > end:
            return
        ran += 1
        run(source, backend, n=n, m=m, seed=seed, alias=alias)

    search()
    print(f"{ran} programs on {backend}")

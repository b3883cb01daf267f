"""Tests of the CUDA driver itself: nothing here runs where there is no device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _has_gpu() -> bool:
    if os.environ.get("QGRAPH_BACKEND") == "sim":
        return False
    from qgraph.runtime.driver.driver import device_count

    return device_count() > 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what lies in this folder unless there is a GPU, and some of it where the process checks bounds."""
    here = [item for item in items if HERE in item.path.parents]
    if os.environ.get("QGRAPH_BOUNDS_CHECK") == "1":
        for item in here:
            if item.get_closest_marker("without_bounds_check"):
                item.add_marker(pytest.mark.skip(reason="the nodes are others where bounds are checked"))
    if here and not _has_gpu():
        for item in here:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))

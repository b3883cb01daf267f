"""Tiles that are small enough for the simulator."""

from __future__ import annotations

import pytest

from qgraph.lowering.loops import overlapped_tiles, streamed_tiles


@pytest.fixture(autouse=True)
def arrays_of_any_size(monkeypatch):
    """No array is too small for tiles."""
    for name in ("LARGE", "BLOCK_LARGE", "STREAM_LARGE"):
        monkeypatch.setattr(overlapped_tiles, name, 0)


@pytest.fixture
def small_streamed_tiles(monkeypatch):
    """Those of three axes have a few planes and rows; a row is one of a warp."""
    monkeypatch.setattr(overlapped_tiles, "STREAM_GAIN", 0)
    monkeypatch.setattr(streamed_tiles, "PLANES", 5)
    monkeypatch.setattr(streamed_tiles, "WARPS", 6)
    monkeypatch.setattr(streamed_tiles, "HELD", 1 << 12)

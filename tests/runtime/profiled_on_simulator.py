"""Profiles on the cuda backend, with the driver of tests/played_driver.py: a script for test_profiled.py."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import qgraph
from qgraph.runtime.executors import unrolled
from tests import played_driver
from tests.features.test_profile import halving, in_many_forms, lie_in_each_other, nested


def on_device(values):
    return [qgraph.asarray(each, backend="cuda") if isinstance(each, np.ndarray) else each for each in values]


def profiles(function, make, **options):
    """Of several calls, since loops that ran long run in copies the next time; each leaves what plain Python leaves."""
    kernel = qgraph.kernel(backend="cuda", **options)(function)
    after = make()
    wanted = kernel.reference(*after)
    for _ in range(3):
        given = on_device(make())
        profile = kernel.profile_gaps(*given)
        for mine, theirs in zip(given, after, strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(mine) if hasattr(mine, "shape") else mine, theirs)
        if isinstance(wanted, int):
            assert profile.result == wanted
        lie_in_each_other(profile)
        in_block = any("in one block" in row.form for row in profile.rows)
        assert in_block or any(row.gap > 0 for row in profile.rows if row.kind == "task" and row.depth)
        yield profile


def forms():
    def rows():
        return tuple(np.eye(1, 300, dtype=np.float64)[0] for _ in range(3))

    for small in (unrolled._SMALL, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unrolled, "_SMALL", small)
            # Where the size of a grid decides, and in the other forms.
            for options in ({}, *({"fuse": True}, {"conditional": "host"}, {"graph": False}) * bool(small)):
                for profile in profiles(in_many_forms, lambda: (*rows(), 70, 19), **options):
                    assert [row.count for row in profile.rows if row.kind == "loop"] == [70, 2, 19]
                    assert {row.count for row in profile.rows if row.depth == 2} == {19}
                for profile in profiles(halving, lambda: (np.ones(500), 1e-6), **options):
                    assert {row.count for row in profile.rows if row.kind == "loop" or row.depth} == {20}
                for profile in profiles(nested, lambda: (np.arange(5.0), 9, np.array([4])), **options):
                    # Fused, the inner loop runs inside of the iterations of its parallel one.
                    inner = [] if options.get("fuse") else [18]
                    assert [row.count for row in profile.rows if row.kind == "loop"] == [9, *inner]
                    (branch,) = [number for number, row in enumerate(profile.rows) if row.kind == "branch"]
                    assert (profile.rows[branch].count, profile.rows[branch + 1].count) == (9, 4)


PARTS = ("forms",)

if __name__ == "__main__":
    played = played_driver.install_played()
    for part in sys.argv[1:] or PARTS:
        globals()[part]()
    print("as plain Python")

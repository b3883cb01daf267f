"""Dropping a specialisation gives its memory back as far as Numba lets it."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.dispatch import specialisation_cache
from tests.processes import run_python

pytestmark = pytest.mark.needs("compiler")


def test_what_a_dropped_specialisation_leaves():
    """Of its Python objects none but the types of its constants, which Numba keeps; of memory little (docs/reliability.md)."""
    done = run_python("-m", "tests.lowering.specialisations", 16, QGRAPH_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    told = {way: (float(objects), float(megabytes)) for way, objects, megabytes in map(str.split, done.stdout.splitlines())}
    assert told.keys() == {"evicted", "clear_cache"}
    for objects, megabytes in told.values():
        assert objects < 15
        assert megabytes < 0.6


def test_what_is_dropped_is_no_variant_either(monkeypatch):
    monkeypatch.setattr(specialisation_cache, "MAX_SPECIALISATIONS", 3)

    @qgraph.kernel(backend="cpu")
    def add(x, m: qgraph.Static):
        for i in range(x.shape[0]):
            x[i] += m

    x = np.zeros(4)
    for number in (*range(9), 8, 0, 7):
        expected = x + number
        add(x, number)
        assert np.array_equal(x, expected)
        assert len(add._cache.variants) == len(add._cache.specialisations) <= 3
        assert {guard.variant for guard in add._cache.guards} <= set(add._cache.variants.values())
    assert add.stats.compilations == 10


def test_variants_that_do_not_compile_are_few(monkeypatch):
    monkeypatch.setattr(specialisation_cache, "MAX_SPECIALISATIONS", 3)

    @qgraph.kernel(backend="cpu")
    def wrong(x, m: qgraph.Static):
        for i in range(x.shape[0]):
            x[i] = x[i].nothing + m

    for number in range(20):
        with pytest.raises(qgraph.QGraphError):
            wrong(np.zeros(4), number)
        assert len(wrong._cache.variants) <= 6

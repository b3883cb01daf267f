"""The kernel of a histogram: shared memory, barriers that all threads reach, and updates that await no answer."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering.numba_backend import cuda
from qgraph.lowering.ptx import link
from qgraph.lowering.ptx.ptx_rewrite import without_results

if cuda.simulator_active():
    pytest.skip("the simulator compiles nothing", allow_module_level=True)


def counting(keys, bins):
    for i in range(keys.shape[0]):
        bins[keys[i]] += 1


def most(keys, bins):
    for i in range(keys.shape[0]):
        bins[keys[i]] = max(bins[keys[i]], i)


def ptx(function, *args):
    (text,) = qgraph.kernel(function, backend="cuda").ptx(*args).values()
    assert link.link([text], (9, 0))[:4] == b"\x7fELF"
    return text


@pytest.mark.parametrize(
    ("function", "dtype", "update"),
    [
        (counting, "int32", "(atom|red).shared.add.u32"),
        (counting, "uint32", "(atom|red).shared.add.u32"),
        (counting, "float32", "(atom|red).shared.add.f32"),
        (counting, "float64", "(atom|red).shared.add.f64"),
        # Two halves: there is no such addition of 64 bits, and a loop around a comparison takes much longer.
        (counting, "int64", "atom.shared.add.u32"),
        (most, "int64", "(atom|red).shared.max.s64"),
        (most, "uint32", "(atom|red).shared.max.u32"),
    ],
)
def test_updates_go_to_shared_memory(function, dtype, update):
    text = ptx(function, np.zeros(9, np.uint8), np.zeros(256, dtype))
    assert re.search(update, text)
    assert "red.global." in text
    assert text.count("bar.sync") == 2
    assert "atom.global." not in text
    # Generic addresses would be looked at once more for each update.
    assert not re.search(r"\b(atom|red)\.(add|max)", text)
    if dtype == "int64" and function is counting:
        assert "shared.add.u64" not in text


def test_the_loops_are_not_unrolled_but_for_the_one_that_is_meant_to_be():
    text = ptx(counting, np.zeros(9, np.uint8), np.zeros(256, np.int32))
    # Four iterations at once, and those that are left; one in global memory, and the sums.
    assert len(re.findall(r"(atom|red)\.shared", text)) == 5
    assert len(re.findall(r"(atom|red)\.global", text)) == 2


def two_dimensions(keys, bins):
    for i in range(keys.shape[0]):
        bins[keys[i], 0] += 1


def taken(keys, bins):
    for i in range(keys.shape[0]):
        if qgraph.atomic_add(bins, keys[i], 1) == 5:
            keys[i] = 0


@pytest.mark.parametrize(("function", "shape"), [(two_dimensions, (4, 4)), (taken, (4,))])
def test_other_updates_stay_in_global_memory(function, shape):
    text = ptx(function, np.zeros(9, np.uint8), np.zeros(shape, np.int32))
    assert ".shared" not in text
    assert ("atom.global.add" in text) == (function is taken)
    assert ("red.global.add" in text) == (function is two_dimensions)


def test_an_atomic_whose_old_value_is_read_keeps_it():
    text = "atom.global.add.u32 %r1, [%rd1], 1;\natom.shared.max.s64 %rd2, [%rd3], %rd4;\nst.global.u32 [%rd5], %r1;\n"
    text += "atom.global.exch.b32 %r7, [%rd1], 1;\natom.add.f64 %fd1, [%rd6], %fd2;\n"
    found = without_results(text).splitlines()
    assert found[0] == "atom.global.add.u32 %r1, [%rd1], 1;"
    assert found[1] == "red.shared.max.s64 [%rd3], %rd4;"
    assert found[3].startswith("atom.global.exch")
    assert found[4] == "red.add.f64 [%rd6], %fd2;"

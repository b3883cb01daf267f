"""Which arrays share memory: compared with NumPy's own answer, and with sets of bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from qgraph.runtime.arguments.array_adapters import adopt
from qgraph.runtime.values import aliasing
from qgraph.runtime.values.aliasing import alias_pattern, overlaps_itself
from qgraph.runtime.values.array_view import ArrayView, layout_of, span_of

ROOT = np.arange(400, dtype=np.uint8)
DTYPES = [np.dtype(name) for name in ("u1", "i2", "f4", "f8", "c16")]


def view(array: np.ndarray) -> ArrayView:
    found = adopt(array, "x")
    assert found is not None
    return found


def bytes_of(array: ArrayView) -> list[int]:
    """The address of every byte of every element, one entry for each time it is covered."""
    addresses = []
    for index in np.ndindex(array.shape):
        start = array.pointer + sum(i * s for i, s in zip(index, array.strides, strict=True))
        addresses += range(start, start + array.dtype.itemsize)
    return addresses


@st.composite
def views(draw: st.DrawFn) -> ArrayView:
    """A view of some bytes of ROOT, with any strides that stay inside; built from numbers, so alignment does not matter."""
    dtype = draw(st.sampled_from(DTYPES))
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=ndim, max_size=ndim)))
    strides = tuple(draw(st.lists(st.integers(-24, 24), min_size=ndim, max_size=ndim)))
    base = ROOT.ctypes.data + 200 + draw(st.integers(0, 40))
    return ArrayView(base, shape, strides, dtype, False, None, ROOT, None, layout_of(shape, strides, dtype.itemsize))


@given(views())
def test_span_is_the_range_of_all_bytes(array):
    addresses = bytes_of(array)
    low, high = array.span()
    if addresses:
        assert (low, high) == (min(addresses), max(addresses) + 1)
    else:
        assert low == high
    assert (low, high) == span_of(array.pointer, array.shape, array.strides, array.dtype.itemsize)


@given(views())
def test_layout_is_that_of_numpy(array):
    offset = array.pointer - ROOT.ctypes.data
    real = np.ndarray(array.shape, array.dtype, ROOT, offset, array.strides)
    expected = "C" if real.flags.c_contiguous else "F" if real.flags.f_contiguous else "A"
    assert array.layout == expected


@settings(max_examples=300)
@given(st.lists(views(), min_size=2, max_size=5), st.data())
def test_pattern_is_that_of_shared_bytes(arrays, data):
    written = [data.draw(st.booleans()) for _ in arrays]
    expected = []
    for i, a in enumerate(arrays):
        for j in range(i + 1, len(arrays)):
            b = arrays[j]
            if (written[i] or written[j]) and set(bytes_of(a)) & set(bytes_of(b)):
                same = (a.pointer, a.shape, a.strides, a.dtype) == (b.pointer, b.shape, b.strides, b.dtype)
                expected.append((i, j, "same" if same else "overlap"))
    assert alias_pattern(arrays, written) == tuple(expected)


@settings(max_examples=300)
@given(views())
def test_overlap_with_itself_is_that_of_bytes_covered_twice(array):
    addresses = bytes_of(array)
    assert overlaps_itself(array) == (len(set(addresses)) != len(addresses))


@st.composite
def slices(draw: st.DrawFn, extent: int) -> slice:
    bound = st.one_of(st.none(), st.integers(-extent - 1, extent + 1))
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@given(st.data())
def test_real_slices_agree_with_numpy(data):
    root = np.zeros((6, 7))
    arrays = [root[data.draw(slices(6)), data.draw(slices(7))] for _ in range(2)]
    if data.draw(st.booleans()):
        arrays[1] = arrays[1].T
    pattern = alias_pattern([view(a) for a in arrays], [True, False])
    assert bool(pattern) == np.shares_memory(*arrays)


def test_even_and_odd_elements_are_disjoint():
    x = np.zeros(10)
    assert alias_pattern([view(x[::2]), view(x[1::2])], [True, True]) == ()
    assert alias_pattern([view(x[::2]), view(x[::3])], [True, True]) == ((0, 1, "overlap"),)


def test_the_same_array_and_its_views():
    x = np.zeros((4, 4))
    arrays = [x, x[:], x.T, x.view(np.int64), x[1:]]
    pattern = alias_pattern([view(a) for a in arrays], [True, False, False, False, False])
    assert pattern == ((0, 1, "same"), (0, 2, "overlap"), (0, 3, "overlap"), (0, 4, "overlap"))


def test_pairs_that_nobody_writes_do_not_count():
    x = np.zeros(4)
    assert alias_pattern([view(x), view(x)], [False, False]) == ()


def test_empty_arrays_share_nothing():
    x = np.zeros(4)
    assert alias_pattern([view(x), view(x[2:2])], [True, True]) == ()


@pytest.mark.parametrize(("first", "second", "shared"), [(None, 0, False), (0, 1, False), (1, 1, True), (None, None, True)])
def test_memory_of_different_devices_is_never_shared(first, second, shared):
    def made(device):
        return ArrayView(4096, (8,), (8,), np.dtype("f8"), False, device, object())

    assert bool(alias_pattern([made(first), made(second)], [True, True])) == shared


def test_arrays_apart_are_never_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(aliasing, "_relation", lambda *pair: compared.append(pair) or "")
    root = np.zeros(512 * 10)
    assert alias_pattern([view(root[k * 10 : k * 10 + 10]) for k in range(512)], [True] * 512) == ()
    assert not compared
    assert alias_pattern([view(root[k * 10 : k * 10 + 11]) for k in range(511)], [True] * 511) == ()
    assert len(compared) == 510


def test_what_is_too_hard_counts_as_overlapping(monkeypatch):
    # Disjoint, but only a search shows it.
    def made(offset, strides):
        return ArrayView(10**6 + offset, (3, 4), strides, np.dtype("u1"), False, 0, object(), None, "A")

    arrays = [made(8, (19, 28)), made(48, (3, 9))]
    assert alias_pattern(arrays, [True, True]) == ()
    monkeypatch.setattr(aliasing, "_MAX_WORK", 1)
    assert alias_pattern(arrays, [True, True]) == ((0, 1, "overlap"),)


def test_overlap_with_itself():
    x = np.zeros(20)
    assert not overlaps_itself(view(x))
    assert not overlaps_itself(view(x[::-2]))
    assert overlaps_itself(view(np.broadcast_to(x, (3, 20))))
    assert overlaps_itself(view(as_strided(x, (5, 5), (8, 8))))
    assert not overlaps_itself(view(as_strided(x, (1, 5), (0, 8))))
    # Rows that interleave without touching: offsets 0, 2 and 3, 5.
    assert not overlaps_itself(view(as_strided(x, (2, 2), (24, 16))))


def test_large_interleaved_views_are_taken_to_overlap():
    n = 2000
    huge = ArrayView(8, (n, n), (24, 16), np.dtype("f8"), False, 0, object(), None, "A")
    assert math.prod(huge.shape) > 1 << 20
    assert overlaps_itself(huge)

"""Alias analysis of a call's arrays, by addresses alone: nothing is dereferenced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from qgraph.runtime.values.array_view import ArrayView

# How hard NumPy may think about two strided arrays, in its own steps, before they count as overlapping.
_MAX_WORK = 100_000
# How many elements are enumerated to find out whether strided views cover a byte twice.
_MAX_ELEMENTS = 1 << 20

Pattern = tuple[tuple[int, int, str], ...]


def alias_pattern(views: Sequence[ArrayView], written: Sequence[bool]) -> Pattern:
    """Pairs of arrays that share memory, at least one of which is written: (index, later index, ``same`` or ``overlap``).

    ``same``: pointer, shape, strides and dtype are equal. ``overlap``: they share a byte otherwise, or deciding that would
    take too long. Memory of the host and of devices, and of one device and another, is never shared.
    """
    spans = []
    for index, view in enumerate(views):
        low, high = view.span()
        if low != high:
            spans.append((-1 if view.device is None else view.device, low, high, index))
    spans.sort()
    pairs: list[tuple[int, int, str]] = []
    # Those before the current one, on its device, that reach beyond its first byte.
    reaching: list[tuple[int, int, int, int]] = []
    for span in spans:
        device, low, _, index = span
        reaching = [other for other in reaching if other[0] == device and other[2] > low]
        for *_, other_index in reaching:
            if written[index] or written[other_index]:
                first, second = sorted((index, other_index))
                relation = _relation(views[first], views[second])
                if relation:
                    pairs.append((first, second, relation))
        reaching.append(span)
    return tuple(sorted(pairs))


def joint_spans(views: Sequence[ArrayView], device: int | None = None) -> list[tuple[int, int, list[int]]]:
    """(first byte, one past the last, indices of the views in between) of the host or a device, for spans that overlap."""
    spans = sorted((*view.span(), index) for index, view in enumerate(views) if view.device == device)
    joined: list[tuple[int, int, list[int]]] = []
    for low, high, index in spans:
        if joined and low < joined[-1][1]:
            first, last, members = joined[-1]
            joined[-1] = (first, max(last, high), [*members, index])
        else:
            joined.append((low, high, [index]))
    return joined


def overlaps_itself(view: ArrayView) -> bool:
    """Whether two elements share a byte (a broadcast axis, ``as_strided``); true if deciding that would take too long."""
    if view.layout != "A" or view.size <= 1:
        return False
    itemsize = view.dtype.itemsize
    axes = sorted((abs(stride), extent) for stride, extent in zip(view.strides, view.shape, strict=True) if extent > 1)
    reach = itemsize
    for stride, extent in axes:
        if stride < reach:
            return _enumerate_overlap(axes, itemsize)
        reach += (extent - 1) * stride
    return False


def _enumerate_overlap(axes: list[tuple[int, int]], itemsize: int) -> bool:
    # An axis does not step over all smaller ones; they may still interleave without touching.
    smallest = axes[0][0]
    if smallest < itemsize or math.prod(extent for _, extent in axes) > _MAX_ELEMENTS:
        return True
    offsets = numpy.zeros(1, numpy.int64)
    for stride, extent in axes:
        offsets = (offsets[:, None] + numpy.arange(extent, dtype=numpy.int64) * stride).ravel()
    offsets.sort()
    return bool((numpy.diff(offsets) < itemsize).any())


def _relation(a: ArrayView, b: ArrayView) -> str:
    if a.pointer == b.pointer and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype:
        return "same"
    # Contiguous arrays have no gaps: their spans decide.
    if (a.layout != "A" and b.layout != "A") or _share_memory(a, b):
        return "overlap"
    return ""


class _Elements:
    """Stands for a view's elements in NumPy, at their true addresses, which are never read."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (view.pointer, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": view.dtype.str,
        }


def _share_memory(a: ArrayView, b: ArrayView) -> bool:
    try:
        return numpy.shares_memory(numpy.asarray(_Elements(a)), numpy.asarray(_Elements(b)), max_work=_MAX_WORK)  # type: ignore[arg-type]
    except (numpy.exceptions.TooHardError, OverflowError):
        return True

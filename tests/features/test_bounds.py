"""`bounds_check=True`: the first index out of bounds is told, nothing outside is touched, and right kernels stay right."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import qgraph
from tests.conftest import has_gpu
from tests.features import bounds_kernels as kernels

# The others mean nothing without a GPU.
OPTIONS = [{"fuse": True}, *([{"graph": False}, {"conditional": "host"}] if has_gpu() else [])]


def arange(n=6, dtype="float64"):
    return np.arange(n).astype(dtype)


def ints(*values, dtype="int64"):
    return np.array(values, dtype)


# (kernel, arguments that are right, arguments that are not, the index, axis and extent that are told, the iteration)
CASES = {
    "shifted": ((arange(8), arange(), 2), (arange(), arange(), 2), (6, 0, 6), "i = 4"),
    "shifted_backwards": ((arange(), np.zeros(6), -6), (arange(), arange(), -7), (-7, 0, 6), "i = 0"),
    "shifted_of_none": ((arange(), arange(0), 9), (arange(0), arange(), 0), (0, 0, 0), "i = 0"),
    "histogram": ((ints(0, 0, 0), ints(2, -3, 1)), (ints(0, 0, 0), ints(2, 1, 3, -4)), (3, 0, 3), "i = 2"),
    "of_two_axes": (
        (arange(12).reshape(3, 4), np.ones((3, 4)), 4),
        (arange(12).reshape(3, 4), np.ones((3, 4)), 5),
        (-5, 1, 4),
        "iteration 0",
    ),
    "tuples": (
        (arange(12).reshape(3, 4), np.ones((2, 3))),
        (arange(12).reshape(3, 4), np.ones((4, 3))),
        (3, 0, 3),
        "iteration 9",
    ),
    "func": ((np.ones((6, 3)), arange(), 2), (np.ones((6, 3)), arange(), -4), (-4, 0, 3), "i = 0"),
    "view": ((arange(8), 6), (arange(8), 7), (6, 0, 6), "i = 6"),
    "row": ((np.ones((8, 3)), arange(), 2), (np.ones((7, 3)), arange(), 2), (7, 0, 7), "i = 5"),
    "searching": ((ints(3, 1, 0, 2, 0), arange(4)), (ints(3, 0, 1, 2), arange(4)), (4, 0, 4), "i = 2"),
    "guarded": ((arange(), arange()), None, None, ""),
    "into_an_element": ((arange(), arange(), -1), (arange(), arange(), 6), (6, 0, 6), "i = 0"),
    "one_thread": ((arange() + 1, 1), (arange() + 1, 6), (6, 0, 6), ""),
    "bound": ((ints(1, 3), arange(), 1), (ints(1, 3), arange(), 2), (2, 0, 2), ""),
    "bound_too_large": ((ints(1, 6), arange(), 1), None, None, ""),
    "convergence": ((arange() + 90, 0), (arange() - 1000, 0), (6, 0, 6), ""),
    "in_a_loop": ((arange(9), arange(), 4), (arange(9), arange(), 10**9), (9, 0, 9), "i = 5"),
    "atomics": ((ints(*range(8)), ints(*range(6)), 2), (ints(*range(6)), ints(*range(6)), -7), (-7, 0, 6), "i = 0"),
    "exchanged": ((ints(*range(8)), ints(*range(6)), 2), (ints(*range(6)), ints(*range(6)), 3), (6, 0, 6), "i = 3"),
    "no_axes": ((np.array(2.0), arange()), None, None, ""),
    "narrow": (
        (arange(), ints(5, 250, 0, dtype="uint8") % 6, arange(3)),
        (arange(), ints(5, 250, 0, dtype="uint8"), arange(3)),
        (250, 0, 6),
        "i = 1",
    ),
    "library": ((arange()[::-1].copy(), np.zeros(6), 0), (arange(), arange(), 1), (6, 0, 6), "i = 5"),
    "of_an_iteration": ((arange(), np.zeros(6), -3), (arange(), np.zeros(6), 3), (3, 1, 3), "i = 0"),
    "row_of_an_iteration": ((arange(), np.zeros(6), 2), (arange(), np.zeros(6), -4), (-4, 0, 3), "i = 0"),
    "several": ((arange(20), arange()), (arange(), arange()), (6, 0, 6), "i = 5"),
}
ALIASES = {"shifted_backwards": "shifted", "shifted_of_none": "shifted", "bound_too_large": "bound"}


def function(name):
    return getattr(kernels, ALIASES.get(name, name))


def copies(arguments):
    return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)


def marked(error):
    """Whether the error is at a line that is marked in the file of kernels."""
    return error.span.file == kernels.__file__ and "# here" in linecache.getline(error.span.file, error.span.line)


def out_of_bounds(rig, kernel, arguments):
    given = [rig.device(each) if isinstance(each, np.ndarray) else each for each in copies(arguments)]
    with pytest.raises(qgraph.BoundsError) as caught:
        kernel(*given)
        qgraph.synchronize()
    return caught.value


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
@pytest.mark.parametrize("name", CASES)
def test_indices(rig, name):
    right, wrong, told, iteration = CASES[name]
    kernel = rig.check(function(name), lambda: copies(right), noop=name == "shifted_of_none", bounds_check=True)
    if wrong is None:
        return
    with pytest.raises(IndexError):
        kernel.reference(*copies(wrong))
    error = out_of_bounds(rig, kernel, wrong)
    index, axis, extent = told
    assert f"is out of bounds: {index} on axis {axis}" in error.found
    assert f"{extent} elements" in error.found
    assert marked(error)
    assert iteration in error.found
    rig.compare(kernel, lambda: copies(right), noop=name == "shifted_of_none")


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
def test_nothing_outside_is_touched(rig):
    memory = np.full(64, 77)
    counts, values = memory[24:32], ints(*range(-40, 40))
    kernel = rig.kernel(kernels.histogram, bounds_check=True)
    if rig.backend == "cuda":
        pytest.skip("memory around an array on the device: tests/gpu/test_early_exits.py")
    with pytest.raises(qgraph.BoundsError, match="-40 on axis 0 of 8 elements, where i = 0"):
        kernel(counts, values)
    assert (memory[:24] == 77).all()
    assert (memory[32:] == 77).all()


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["into_an_element", "convergence", "several"])
def test_with_options(rig, name, options):
    right, wrong, told, _ = CASES[name]
    kernel = rig.check(function(name), lambda: copies(right), bounds_check=True, **options)
    assert f"is out of bounds: {told[0]} on" in out_of_bounds(rig, kernel, wrong).found


def test_the_first_of_many_iterations(rig):
    n = rig.size(4000)
    kernel = rig.kernel(kernels.shifted, bounds_check=True)
    for _ in range(3):
        error = out_of_bounds(rig, kernel, (arange(n), arange(n), n // 2))
        assert f"{n} on axis 0 of {n} elements, where i = {n - n // 2}" in error.found


def seen(x):
    SEEN.append(x.copy())


SEEN = []


def only_on_the_host(x):
    qgraph.host_callback(seen, x, writes=())


def test_nothing_to_check(rig):
    """On CUDA the task that begins a launch reads where faults are noted, though none can be."""
    kernel = rig.kernel(only_on_the_host, bounds_check=True)
    SEEN.clear()
    for _ in range(2):
        kernel(rig.device(arange()))
        qgraph.synchronize()
    np.testing.assert_array_equal(SEEN, [arange()] * 2)


def test_for_a_process(rig, monkeypatch):
    monkeypatch.setenv("QGRAPH_BOUNDS_CHECK", "1")
    out_of_bounds(rig, rig.kernel(kernels.shifted), (arange(), arange(), 2))
    monkeypatch.setenv("QGRAPH_BOUNDS_CHECK", "0")
    kernel = rig.kernel(kernels.guarded)
    kernel(rig.device(arange()), rig.device(arange()))
    monkeypatch.setenv("QGRAPH_BOUNDS_CHECK", "yes")
    with pytest.raises(qgraph.QGraphError, match="QGRAPH_BOUNDS_CHECK='yes' is neither 0 nor 1"):
        rig.kernel(kernels.shifted)


def larger(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 0.5)


@pytest.mark.needs("compiler")
def test_an_integer_that_may_have_lost_digits(rig):
    """What an access is given is refused with checks as it is without."""
    for call in (rig.kernel(larger, bounds_check=True), rig.kernel(larger, bounds_check=True).check):
        with pytest.raises(qgraph.KernelTypeError, match="may lose digits") as caught:
            call(rig.device(ints(2**62 - 2)), rig.device(ints(0)))
        assert "y[i] = max(x[i], 0.5)" in str(caught.value)
    rig.check(larger, lambda: (ints(1, 7, dtype="int32"), ints(0, 0)), bounds_check=True)
    rig.check(larger, lambda: (ints(2**62 - 2), np.zeros(1)), bounds_check=True)


def products_of_rows(a, b, x, y):
    for i in range(a.shape[0]):
        y[i] = np.dot(a[i], x) + np.max(b[i]) + np.argmin(a[i])


def test_rows(rig):
    """Functions that are made for rows note lengths that differ, with what checks need, too."""
    matrix, vector = np.random.default_rng(0).random((4, 5)), arange(5)
    kernel = rig.check(products_of_rows, lambda: (matrix.copy(), matrix + 1, vector.copy(), np.zeros(4)), bounds_check=True)
    with pytest.raises(qgraph.QGraphError, match="5 and 7|lengths|shapes"):
        kernel(*map(rig.device, (matrix.copy(), matrix + 1, arange(7), np.zeros(4))))
        qgraph.synchronize()


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", ["of_two_axes", "func", "row", "convergence", "atomics", "no_axes"])
def test_ptx(name):
    kernel = qgraph.kernel(bounds_check=True)(function(name))
    plain = qgraph.kernel()(function(name)).ptx(*CASES[name][0], cc=(9, 0))
    texts = kernel.ptx(*CASES[name][0], cc=(9, 0))
    assert "atom.global.cas.b64" in "".join(texts.values()) or name == "no_axes"
    # Nothing is looked at where nobody asked for it.
    assert not any("membar.sys" in text for text in plain.values())

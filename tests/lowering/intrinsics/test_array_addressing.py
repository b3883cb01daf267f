"""Places in arrays of several dimensions are computed in 32 bits, unless the code is for arrays with more elements.

Those of one dimension are Numba's, in fewer words.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.dispatch import executables
from qgraph.errors import CudaError
from qgraph.ir.artifacts import Extents
from qgraph.lowering.compile import compile_cuda
from qgraph.lowering.intrinsics import array_addressing
from qgraph.options import Options
from qgraph.runtime.driver.driver import NeedsIndex64

# Products of 64 bits.
WIDE = re.compile(r"\b(mul|mad)\.lo\.[su]64")


def moved(x, y):
    for i, j in qgraph.ndrange((1, x.shape[0]), x.shape[1]):
        y[i, -j] = x[i - 1, j] + 1


@qgraph.func
def streamed(x, y, i, j):
    a = x[1, i, j - 1] if j > 0 else x[3, i, j]
    b = x[3, i, j + 1] if j < x.shape[2] - 1 else x[1, i, j]
    c = x[5, i - 1, j - 1] if i > 0 and j > 0 else x[7, i, j]
    y[0, i, j] = x[0, i, j] + a
    y[1, i, j] = b - c


def planes(x, y):
    for i, j in qgraph.ndrange(x.shape[1], x.shape[2]):
        streamed(x, y, i, j)


def compiled(function, *args, index64):
    pytest.importorskip("cuda.bindings")
    return compile_cuda(qgraph.kernel(function).plan(*args), (9, 0), Options(), extents=Extents(index64))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bool"])
def test_products_are_short_unless_arrays_are_far(order, dtype):
    x, y = (np.zeros((3, 4), dtype, order) for _ in range(2))
    for index64 in (False, True, False):
        found = compiled(moved, x, y, index64=index64)
        assert found.extents == Extents(index64)
        (ptx,) = found.ptx.values()
        assert bool(WIDE.search(ptx)) == index64, ptx


def from_both_ends(x, y, z, u, alone):
    for i in range(x.shape[0]):
        y[i] = x[-i - 1] + x[0] * x[-1] + x[u[i]] + x[i,] + x[1:][u[i]] + alone[()]
        if z[i] > 0:
            y[x.shape[0] - 1 - i] += z[i - 1]


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "uint8"])
def test_places_on_one_axis_are_numbas(dtype, monkeypatch):
    x, y, z = np.zeros(3, dtype), np.zeros(3, "complex128"), np.zeros(6, np.int16)[::2]
    args = (x, y, z, np.zeros(3, np.uint64), np.zeros(()))
    ours = compiled(from_both_ends, *args, index64=False).ptx
    assert compiled(from_both_ends, *args, index64=True).ptx == ours
    asked = []
    monkeypatch.setattr(array_addressing, "_is_element", lambda sig: bool(asked.append(sig)))
    assert compiled(from_both_ends, *args, index64=False).ptx == ours
    assert asked


@pytest.mark.parametrize("order", ["C", "F"])
def test_so_are_products_of_strides(order):
    x, y = (np.zeros((8, 4, 5), np.float32, order) for _ in range(2))
    for index64 in (False, True):
        (ptx,) = compiled(planes, x, y, index64=index64).ptx.values()
        # Else NVVM multiplies numbers of 64 bits, and cuts the product.
        assert bool(WIDE.search(ptx)) == index64, ptx


def test_strided_arrays_have_strides_of_64_bits():
    x, y = (np.zeros((3, 10), np.float32)[:, ::2] for _ in range(2))
    (ptx,) = compiled(moved, x, y, index64=False).ptx.values()
    assert WIDE.search(ptx)


def test_a_kernel_is_compiled_again_for_arrays_that_are_far(monkeypatch):
    built = []
    plainly = executables.EXECUTABLES["cpu"]
    monkeypatch.setitem(executables.EXECUTABLES, "cpu", lambda *args: (built.append(args[-1]), plainly(*args))[1])
    kernel = qgraph.kernel(backend="cpu")(moved)
    x, y = np.ones((2, 2)), np.zeros((2, 2))
    kernel(x, y)
    latest = kernel._cache._latest
    kernel._recover(NeedsIndex64("x has many elements"), latest.variant)
    assert latest.executable is None
    # Another one of the same types, as after an eviction, needs not find it out again.
    kernel._cache.specialisations.clear()
    kernel._cache._latest = None
    for number in range(2):
        y[...] = 0
        kernel(x, y)
        assert (y[1] == 2).all()
        assert kernel.stats.compilations == 2
        assert built == [Extents(), Extents(index64=True)]
        latest = kernel._cache._latest
        # What was built so stays.
        kernel._recover(NeedsIndex64("x has many elements"), latest.variant)
        assert latest.executable is not None, number
    with pytest.raises(CudaError, match="something else"):
        kernel._recover(CudaError("something else"), latest.variant)


def weighted(x, y, z, weights):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        z[i, j] = x[i, j] + y[i, j] * weights[j] + x[-i, -j]


def alike(a, b, c, d):
    for i, j in qgraph.ndrange(2, 2):
        b[i, j] = a[i, j] + 1
    for i, j in qgraph.ndrange(2, 2):
        d[i, j] = c[i, j] + 1


def test_loops_that_say_the_same_are_one_kernel_where_shapes_are_alike():
    plan = qgraph.kernel(alike).plan(*(np.zeros((3, 4)) for _ in range(4)))
    for equal, kernels in (((), 1), ((("a", "b"),), 2), ((("a", "b"), ("c", "d")), 1), ((("a", "b", "c", "d"),), 1)):
        found = compile_cuda(plan, (9, 0), Options(), extents=Extents(equal=equal))
        assert len({code.entry for code in found.codes.values()}) == kernels


def params(ptx):
    return re.findall(r"\.param \.\w+ \w+_param_(\d+)", ptx[: ptx.index(")")])


def test_arrays_of_one_shape_have_one_place():
    args = [np.zeros((3, 4), np.float32) for _ in range(3)] + [np.zeros(4, np.float32)]
    (apart,) = compiled(weighted, *args, index64=False).ptx.values()
    plan = qgraph.kernel(weighted).plan(*args)
    found = compile_cuda(plan, (9, 0), Options(), extents=Extents(equal=(("y", "x", "z"),)))
    (ptx,) = found.ptx.values()
    assert found.extents.same(*found.codes.values())[:3] == (0, 0, 0)
    assert len(params(ptx)) < len(params(apart))
    assert len(re.findall(r"\bmad\.lo", ptx)) < len(re.findall(r"\bmad\.lo", apart))
    # One that has another shape keeps its own.
    (two,) = compile_cuda(plan, (9, 0), Options(), extents=Extents(equal=(("x", "z"),))).ptx.values()
    assert len(params(ptx)) < len(params(two)) < len(params(apart))

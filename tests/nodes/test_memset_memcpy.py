"""Which loops become memset and memcpy nodes, and with which boxes; the memory of a box."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.nodes.memory_region import Rows, rows_of
from qgraph.nodes.memset import _converted
from qgraph.runtime.values.array_view import view_of_host

pytestmark = pytest.mark.needs("compiler")


def kinds(function, *args):
    return [node.kind for node in qgraph.kernel(function).plan(*args).nodes]


def box(function, *args):
    (node,) = qgraph.kernel(function).plan(*args).nodes
    return node.what


def zero(x):
    for i in range(x.shape[0]):
        x[i] = 0


def interior(m):
    for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
        m[i, j] = 0


def everywhere(m):
    for index in qgraph.ndrange(*m.shape):
        m[index] = -1


def copied(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i]


def copied_2d(x, y):
    for i, j in qgraph.ndrange(*y.shape):
        y[i, j] = x[i, j]


def test_fills_and_copies_are_found():
    x, m = np.zeros(5), np.zeros((4, 4), np.int32)
    assert kinds(zero, x) == ["memset"]
    assert kinds(interior, m) == ["memset"]
    assert kinds(everywhere, m) == ["memset"]
    assert kinds(everywhere, np.zeros((2, 3, 4), np.int16)) == ["memset"]
    assert kinds(copied, x, np.zeros(5)) == ["memcpy"]
    assert kinds(copied_2d, m, np.zeros((4, 4), np.int32)) == ["memcpy"]
    found = box(interior, m)
    assert (found.target, found.starts, found.value, found.size) == ("m", (1, 1), 0, 4)
    assert "(memset)" in str(qgraph.kernel(zero).plan(x))
    assert "(memset)" in qgraph.kernel(zero).plan(x).to_dot()


def test_constants_in_indices():
    def row(m):
        for j in range(m.shape[1]):
            m[2, j] = 0

    def column(m):
        for i in range(m.shape[0]):
            m[i, 0] = 0

    def moved(x, y):
        for i in range(1, x.shape[0] - 1):
            y[2 + i] = x[i]

    def beam(c):
        for i, k in qgraph.ndrange(2, c.shape[2]):
            c[1 + i, 3, k] = 0

    def rod(c):
        for i, j in qgraph.ndrange(2, c.shape[1]):
            c[i, j, 0] = 0

    m, c = np.zeros((4, 5)), np.zeros((4, 5, 6))
    assert kinds(row, m) == kinds(column, m) == kinds(beam, c) == ["memset"]
    assert (box(row, m).starts, box(row, m).counts[0]) == ((2, 0), 1)
    found = box(moved, np.zeros(6), np.zeros(9))
    assert (found.starts, found.source, found.source_starts) == ((3,), "x", (1,))
    assert box(beam, c).starts == (1, 3, 0)
    # Two axes of many places, and neither is the last.
    assert kinds(rod, c) == ["kernel"]


def test_slices_are_found():
    def kernel(x, y, m, c):
        x[:] = 0
        x[1:-1] = 0
        y[:] = x
        y[2:] = x[:-2]
        m[1:-1, 1:-1] = 0
        m[...] = 0
        m[0, :] = 0
        m[:, 0] = 0
        c[1] = 0
        c[:] = 0

    args = np.zeros(6), np.zeros(6), np.zeros((4, 5)), np.zeros((2, 3, 4))
    found = kinds(kernel, *args)
    assert found == ["memset"] * 2 + ["memcpy"] * 2 + ["memset"] * 6


def test_patterns():
    assert box(everywhere, np.zeros((2, 2), np.int32)).value == 0xFFFFFFFF
    assert box(everywhere, np.zeros((2, 2), np.int8)).value == 0xFF
    assert box(everywhere, np.zeros((2, 2), np.int64)).value == 0xFFFFFFFF
    assert box(everywhere, np.zeros((2, 2), np.float32)).value == 0xBF800000


@pytest.mark.parametrize("dtype", ["float64", "complex64", "uint8", "uint64"])
def test_patterns_that_a_memset_cannot_write(dtype):
    # -1.0 in 8 bytes is no repetition of 4, and an unsigned -1 is the kernel's business.
    assert kinds(everywhere, np.zeros((2, 2), dtype)) == ["kernel"]


def test_loops_that_stay_kernels():
    def value_of_an_argument(x, a):
        for i in range(x.shape[0]):
            x[i] = a

    def other_index(x):
        for i in range(x.shape[0] - 1):
            x[i - 1] = 0

    def stepped(x):
        for i in range(0, x.shape[0], 2):
            x[i] = 0

    def from_an_argument(x, first):
        for i in range(first, x.shape[0]):
            x[i] = 0

    def from_the_end(x):
        for i in range(-2, 0):
            x[i] = 0

    def guarded(x):
        for i in range(x.shape[0]):
            if i > 1:
                x[i] = 0

    def transposed(m):
        for i, j in qgraph.ndrange(*m.shape):
            m[j, i] = 0

    def bound_on_the_device(x, n):
        for i in range(n[0]):
            x[i] = 0

    def inside(x, n):
        while n[0] > 0:
            for i in range(x.shape[0]):
                x[i] = 0
            n[0] -= 1

    x, m, n = np.zeros(6), np.zeros((3, 3)), np.zeros(1, np.int64)
    assert kinds(value_of_an_argument, x, 0.0) == ["kernel"]
    assert kinds(from_an_argument, x, 1) == ["kernel"]
    for function in (other_index, stepped, from_the_end, guarded):
        assert kinds(function, x) == ["kernel"], function.__name__
    assert kinds(transposed, m) == ["kernel"]
    assert "memset" not in kinds(bound_on_the_device, x, n)
    assert "memset" not in kinds(inside, x, n)


def test_arrays_that_a_memory_node_cannot_take():
    strided = np.zeros(12)[::2]
    assert kinds(zero, strided) == ["kernel"]
    assert kinds(everywhere, np.zeros((3, 4), order="F")) == ["kernel"]
    assert kinds(copied, np.zeros(5, np.float32), np.zeros(5)) == ["kernel"]
    assert kinds(copied, strided, np.zeros(6)) == ["kernel"]
    x = np.zeros(8)
    assert kinds(copied, x, x) == ["kernel"]
    # A stack of parts of planes has two pitches.
    cube = np.zeros((3, 4, 5))

    def part_of_a_cube(x):
        for i, j, k in qgraph.ndrange(3, (1, 3), 5):
            x[i, j, k] = 0

    assert kinds(part_of_a_cube, cube) == ["kernel"]


def test_a_readonly_source_is_copied_too():
    source = np.zeros(5)
    source.flags.writeable = False
    assert kinds(copied, source, np.zeros(5)) == ["memcpy"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("number", [True, 0, 1, -1, 300, 70000, 2**40, 0.0, -0.0, 0.1, 2.0, 1e300, 1j, 0j])
def test_bytes_are_what_an_assignment_stores(number, dtype):
    found = _converted(number, np.dtype(dtype))
    if found is None:
        return
    array = np.zeros(1, dtype)
    with np.errstate(over="ignore"):
        array[0] = number if np.dtype(dtype).kind == "c" or type(number) is not complex else number.real
    assert found == array.tobytes()


def test_some_bytes_are_known():
    assert _converted(0.1, np.dtype("float32")) == np.float32(0.1).tobytes()
    assert _converted(-0.0, np.dtype("float64")) == np.float64(-0.0).tobytes()
    assert _converted(300, np.dtype("int8")) is None
    assert _converted(0.5, np.dtype("int32")) is None
    assert _converted(2, np.dtype("bool")) is None
    assert _converted(0.1, np.dtype("float16")) is None
    assert _converted(1j, np.dtype("float64")) is None


def rows(array, starts, counts, **options):
    found = rows_of(view_of_host(array, array), starts, counts, **options)
    return Rows(found.pointer - array.__array_interface__["data"][0], found.width, found.height, found.pitch)


def test_the_memory_of_a_box():
    assert rows(np.zeros(10), (2,), (5,)) == Rows(16, 40)
    assert rows(np.zeros(10), (2,), (0,)) == Rows(16, 0)
    m = np.zeros((4, 6), np.float32)
    assert rows(m, (0, 0), (4, 6)) == Rows(0, 96)
    assert rows(m, (0, 0), (4, 6), joined=False) == Rows(0, 24, 4, 24)
    assert rows(m, (1, 1), (2, 4)) == Rows(28, 16, 2, 24)
    assert rows(m, (1, 0), (2, 6)) == Rows(24, 48)
    assert rows(m, (1, 1), (2, 0)).width == 0
    assert rows(m, (1, 1), (0, 4)).width == 0
    assert rows(m, (2, 0), (1, 6)) == Rows(48, 24)
    assert rows(m, (0, 3), (4, 1)) == Rows(12, 4, 4, 24)
    assert rows(np.zeros((3, 2, 2)), (1, 0, 0), (2, 2, 2)) == Rows(32, 64)
    assert rows(np.zeros((4, 5, 6)), (1, 3, 0), (2, 1, 6)) == Rows(8 * 48, 48, 2, 240)
    assert rows(np.zeros((4, 5, 6)), (1, 3, 2), (1, 2, 4)) == Rows(8 * 50, 32, 2, 48)


def test_the_memory_of_a_box_is_what_the_loop_writes():
    m = np.zeros((5, 7), np.int16)
    flat = m.reshape(-1).view(np.uint8)
    part = rows(m, (1, 2), (3, 4))
    for row in range(part.height):
        begin = part.pointer + row * part.pitch
        flat[begin : begin + part.width] = 1
    expected = np.zeros((5, 7), bool)
    expected[1:4, 2:6] = True
    assert ((m != 0) == expected).all()

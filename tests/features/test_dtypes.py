"""Arrays of every dtype, number of dimensions and stride pattern."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qgraph

POISON = 77
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = [pytest.param("float16", marks=pytest.mark.needs("float16")), "float32", "float64"]


def copy_and_add(x, y, z):
    for i in range(x.shape[0]):
        y[i] = x[i]
        z[i] = x[i] + x[x.shape[0] - 1 - i]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "complex64", "complex128"])
def test_numbers_of_every_type(check, dtype):
    check(copy_and_add, lambda: (np.arange(9).astype(dtype), np.full(9, POISON, dtype), np.full(9, POISON, dtype)))


def truth(x, y, b, c):
    for i in range(x.shape[0]):
        b[i] = x[i] > y[i]
        c[i] = (b[i] and x[i] > 0) or not y[i]
    for i in range(x.shape[0]):
        if c[i]:
            x[i] = 100 + b[i]


def test_bool(check):
    def args():
        return np.arange(-4, 5), np.arange(9)[::-1] - 4, np.zeros(9, bool), np.zeros(9, bool)

    check(truth, args)


def absolute_values_of_booleans(x, out):
    for i in range(x.shape[0]):
        out[i] = np.abs(x[i]) | np.abs(x[0])
    return np.max(np.abs(x)), np.abs(x[0]), np.abs(x).sum(), np.absolute(x) & x


def added_absolute_values(x, out):
    for i in range(x.shape[0]):
        out[i] = abs(x[i]) + abs(x[i])


def test_absolute_values_of_booleans(rig):
    """Python's is a number and NumPy's a boolean, of which two have another sum."""
    rig.check(absolute_values_of_booleans, lambda: (np.array([True, False, True]), np.full(3, POISON)))
    with pytest.raises(qgraph.KernelTypeError, match="^abs of a boolean is a number in Python and a boolean in NumPy"):
        rig.run(rig.kernel(added_absolute_values), np.ones(3, bool), np.zeros(3))


def complex_arithmetic(z, w, parts):
    for i in range(z.shape[0]):
        w[i] = z[i] * z[i].conjugate() + (2.0 + 1.0j) * z[i] - 1j
        parts[i] = z[i].real * 2.0 + z[i].imag + abs(z[i])
    for i in range(z.shape[0]):
        z[i] = complex(parts[i], i) / (z[i] + 10.0)


@pytest.mark.parametrize(("dtype", "part"), [("complex64", "float32"), ("complex128", "float64")])
def test_complex_arithmetic(check, dtype, part):
    def args():
        rng = np.random.default_rng(0)
        z = (rng.normal(size=12) + 1j * rng.normal(size=12)).astype(dtype)
        return z, np.full(12, POISON, dtype), np.full(12, POISON, part)

    check(complex_arithmetic, args)


def complex_powers(z, w):
    for i in range(z.shape[0]):
        w[i, 0], w[i, 1], w[i, 2] = z[i] ** 0, z[i] ** 1, z[i] ** 2
        w[i, 3], w[i, 4], w[i, 5] = z[i] ** 7, z[i] ** -1, np.power(z[i], -3)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_small_powers_of_complex_numbers_are_products(check, dtype):
    def args():
        # Small integers: products of them are exact, logarithms are not.
        z = (np.arange(5)[:, None] - 2 + 1j * (np.arange(5) - 2)).ravel()
        return z[z != 0].astype(dtype), np.full((24, 6), POISON, dtype)

    check(complex_powers, args, tolerance=3 * float(np.finfo(dtype).eps))


def conversions(f, i8, u16, i64, f32, f64, out):
    for i in range(f.shape[0]):
        i8[i] = i - 3
        u16[i] = i * 7
        i64[i] = int(f[i])
        f32[i] = i64[i]
        f64[i] = f32[i] + i8[i]
        out[i] = i8[i] + u16[i] + i64[i] + f32[i] + f64[i]


def test_stores_convert_to_the_arrays_type(check):
    def args():
        names = ("int8", "uint16", "int64", "float32", "float64", "float64")
        return np.linspace(-2.7, 9.9, 11), *(np.full(11, POISON, name) for name in names)

    check(conversions, args)


def copy2(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] + 100 * i + j


STRIDES = {
    "contiguous": lambda a: a[:4, :5],
    "fortran": lambda a: np.asfortranarray(a[:4, :5]),
    "transposed": lambda a: a[:5, :4].T,
    "every other": lambda a: a[::2, 1::2][:4, :5],
    "backwards": lambda a: a[3::-1, 4::-1],
    "a broadcast row": lambda a: np.broadcast_to(a[0, :5], (4, 5)),
}


@pytest.mark.parametrize("source", STRIDES)
def test_strides_of_what_is_read(rig, source):
    def args():
        return STRIDES[source](np.arange(144.0).reshape(12, 12)), np.full((4, 5), float(POISON))

    rig.check(copy2, args)


@pytest.mark.parametrize("target", [name for name in STRIDES if "broadcast" not in name])
def test_strides_of_what_is_written(rig, target):
    def args():
        whole = np.full((12, 12), float(POISON))
        return np.arange(20.0).reshape(4, 5), STRIDES[target](whole), whole

    def body(x, y, whole):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] + 100 * i + j

    # ``whole`` shows that nothing outside the view was touched.
    if target == "fortran":
        rig.check(copy2, lambda: args()[:2])
    else:
        rig.check(body, args)


def one_dimension(x, y):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i] + 1


def test_one_kernel_for_contiguous_and_strided(rig):
    kernel = rig.check(one_dimension, lambda: (np.arange(8.0), np.zeros(8)))
    rig.compare(kernel, lambda: (np.arange(16.0)[::2], np.zeros(24)[1::3]))
    rig.compare(kernel, lambda: (np.arange(8.0)[::-1], np.zeros(8)[::-1]))
    rig.compare(kernel, lambda: (np.arange(8.0), np.zeros(8)))
    assert kernel.stats.compilations <= 2  # one for C order, one for any stride


def zero_d(a, b, out):
    out[()] = a[()] * 2 + b[0]
    for i in range(b.shape[0]):
        b[i] += a[()]


def test_zero_dimensions(check):
    check(zero_d, lambda: (np.array(5.0), np.arange(4.0), np.array(77.0)))


@qgraph.func
def grown(a, by):
    a += by
    if by > 1:
        a -= 1
    return a * 2


def zero_d_updates(a, n, out):
    a += out[1]
    n //= 3
    other = a
    other *= np.sum(out)
    for t in qgraph.serial(range(3)):
        if t > 0:
            a -= t
        for i in range(out.shape[0]):
            out[i] += a
    while n < 50:
        n |= 1
        n <<= 2
    t = np.ones(())
    t += grown(a, out[2])
    out[0] = t


def test_a_name_without_axes_is_updated_in_place(check):
    check(zero_d_updates, lambda: (np.array(5.0), np.array(10), np.arange(4.0)))


def rank_five(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[4]):
            y[i, 0, 1, 0, j] = x[i, 0, 1, 0, j] * x.ndim + x.size


def test_five_dimensions(check):
    check(rank_five, lambda: (np.arange(48.0).reshape(3, 1, 2, 2, 4), np.zeros((3, 1, 2, 2, 4))))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(rig, shape):
    def count(x, y):
        for i in range(x.shape[0]):
            y[i] = x.size
        for j in range(x.shape[x.ndim - 1]):
            y[3 + j] = x.shape[0]

    rig.check(count, lambda: (np.zeros(shape), np.full(9, 77.0)), noop=shape == (0,))


def half(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] * 0.5 + 1.0
        if x[i] > 2.0:
            y[i] -= x[i]


@pytest.mark.needs("float16", "float16_math")
def test_float16_arithmetic(check):
    check(half, lambda: (np.linspace(0, 5, 17).astype(np.float16), np.full(17, POISON, np.float16)))


def truths(x, y, z, count):
    for i in range(x.shape[0]):
        y[i] = x[i]
        z[i] = bool(x[i]) != (not x[i])
        if x[i]:
            count[0] += 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_truth_of_a_float(check, dtype):
    values = np.array([0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 6e-8, 0.1]).astype(dtype)
    check(truths, lambda: (values.copy(), values == 7, values == 7, np.zeros(1, np.int32)))


@pytest.mark.needs("compiler")
def test_the_truth_of_a_float16_links_for_a_gpu():
    from qgraph.lowering.ptx.link import link

    arrays = np.zeros(9, np.float16), np.zeros(9, bool), np.zeros(9, bool), np.zeros(1, np.int32)
    found = list(qgraph.kernel(backend="cuda")(truths).ptx(*arrays).values())
    # Any bit but the sign.
    assert any("32767" in text for text in found)
    assert link(found, (9, 0))


@qgraph.func
def bits_of_an_element(a, i):
    return a.dtype.itemsize * 8 + i


def what_types_have(x, out):
    n = x.dtype.itemsize
    t, part = np.zeros(x.dtype.itemsize), x[1:]
    out[0] = n + t.shape[0] + part.dtype.itemsize * 100
    out[1] = x.dtype.num
    if x.dtype.kind == "f":
        out[2] = 1
    for i in range(x.dtype.itemsize):
        row = x[i:]
        out[3 + i] = bits_of_an_element(x, 0) + row.dtype.itemsize + (x.dtype.name in ("int64", "float32"))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "complex64"])
def test_what_is_known_of_the_type_of_an_array(check, dtype):
    check(what_types_have, lambda: (np.arange(9).astype(dtype), np.full(12, 77)))

"""Real and imaginary parts of whole arrays, `np.asarray`, and methods that are functions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError
from tests.conftest import thorough


def numbers(dtype: str = "complex128") -> Any:
    return (np.arange(4) + 1j * np.arange(4, 0, -1)).astype(dtype)


def in_expressions(z: Any, x: Any) -> Any:
    x[:] = z.real - z.imag
    x += np.real(z) * 2
    w = (z * 2).real + np.imag(z * 1j) + z[::-1].imag
    z[:] = x + 1j * z.imag
    return w, np.where(z.real > 1, z.imag, 0), z[z.real > 1].real.sum()


def reduced(z: Any, x: Any) -> Any:
    largest = np.abs(z.imag).max()
    x[:2] = z.T[1:3].imag
    return z.real.sum(), largest, np.imag(z).mean(), (z.real > 1).sum(), x.real.max()


def products(z: Any, x: Any) -> Any:
    x[:] = z.conj().real
    return z.real @ z.imag, np.dot(x, z.imag), (z.conjugate() * z).real


def named(z: Any, x: Any) -> Any:
    r = z.real
    w = z * r + r
    i = np.imag(z)
    x[:] = r
    return w.real, i + r


@pytest.mark.parametrize("dtype", ["complex128", *thorough("complex64")])
@pytest.mark.parametrize("program", [in_expressions, reduced, products, named], ids=lambda program: program.__name__)
def test_components(check: Any, program: Any, dtype: str) -> None:
    check(program, lambda: (numbers(dtype), np.zeros(4, numbers(dtype).real.dtype)))


@qgraph.func
def taken(w: Any) -> Any:
    r = w.real
    w[:] = 0
    return np.sum(r)


def of_rows(z: Any, x: Any) -> None:
    for i in qgraph.parallel(range(z.shape[0])):
        r = z[i].real
        z[i, :] = 3j
        x[i] = np.sum(r)
        r[:] = 5
        x[i] += np.sum(z[i].imag) + np.sum(z[i].real) + taken(z[i])


def test_rows_share_their_parts(check: Any) -> None:
    check(of_rows, lambda: (numbers().reshape(2, 2), np.zeros(2)))


@qgraph.func
def clear(v: Any) -> None:
    v[:] = 0


def read_after_a_change(z: Any) -> Any:
    r = z.real
    z[:] = 0
    return r * 1


def in_a_tuple(z: Any) -> Any:
    t = np.real(z), z.imag
    z[:] = 0
    return t[1] * 1


def of_real_numbers(z: Any) -> Any:
    x = np.abs(z)
    r = np.real(x)
    y = x
    y[:] = 0
    return r * 1


def of_its_own_type(z: Any) -> Any:
    v = np.asarray(z, np.complex128)
    z[0] = 7.0
    return v + 1


def written_by_a_func(z: Any) -> None:
    clear(z.real)


def written(z: Any) -> None:
    r = np.imag(z)
    r[1] = 1


def of_a_copy(z: Any) -> Any:
    r = z.reshape(-1, 1).imag
    z[0] = 9j
    return r + 1


def part_of_a_part(z: Any) -> Any:
    return z.real[1:] * 2


def stored(z: Any) -> None:
    z.real[1:] = 2


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (read_after_a_change, "and is a copy here: it is read after `z` has changed"),
        (in_a_tuple, "shares its elements with `z` in NumPy, and is a copy here"),
        (of_its_own_type, "and is a copy here: it is read after `z` has changed"),
        (of_real_numbers, r"`np.real\(x\)` shares its elements with .* in NumPy, and is a copy here"),
        (written_by_a_func, "this changes `z.real`, which shares its elements with `z` in NumPy, and is a copy here"),
        (written, r"this changes `np.imag\(z\)`, which shares its elements with `z` in NumPy, and is a copy here"),
        (of_a_copy, "`z.reshape.-1, 1..imag` shares its elements with `z` in NumPy, and is a copy here"),
        (part_of_a_part, r"write that of a part, `z\[1:\].real`"),
        (stored, "what changes it as a loop"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_views_that_are_none(rig: Any, program: Any, said: str) -> None:
    with pytest.raises(KernelSyntaxError, match=said):
        qgraph.kernel(backend=rig.backend)(program)(numbers())


def as_arrays(x: Any, y: Any) -> Any:
    v = np.asarray(x)
    v[1:] += 1
    y[:] = np.asarray(x) * 2
    return np.asarray(y)[::-1] + v, np.asarray(x).sum()


def methods(x: Any, y: Any) -> Any:
    y[:] = (x * 1.37).round(1)
    return x.round() - y, (x * y).conj()


def of_a_type(x: Any, y: Any) -> Any:
    v = np.asarray(x, np.float32)
    w = np.asarray(x, dtype=np.float64)
    t = np.ascontiguousarray(y[::-1]) * w
    x[0] = 7.0
    return v * 2, v + 0.5, t


@pytest.mark.parametrize("program", [as_arrays, methods, of_a_type], ids=lambda program: program.__name__)
def test_the_array_itself_and_methods(check: Any, program: Any) -> None:
    check(program, lambda: (np.arange(5) * 1.3, np.zeros(5)))


def in_one_go(x: Any) -> Any:
    return x.cumsum()


def in_part(x: Any) -> Any:
    return x.partition(2)


def test_what_to_write(check: Any) -> None:
    check(in_one_go, lambda: (np.ones(3),))
    with pytest.raises(KernelSyntaxError, match=r"is a new array(.|\n)*sort before the call and pass the result"):
        qgraph.kernel(backend="cpu")(in_part)(np.ones(3))


def the_least(z):
    return z.min()


def the_place_of_the_greatest(z):
    return np.argmax(z)


def what_lies_between(z):
    return np.ptp(z)


@pytest.mark.parametrize("function", [the_least, the_place_of_the_greatest, what_lies_between])
def test_extremes_of_complex_arrays_are_refused_on_every_backend(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match="complex numbers have no order") as caught:
        rig.run(rig.kernel(function), np.array([1j, 2.0]))
    assert "check the types" not in str(caught.value)


def clipped(z, x):
    return np.clip(z, 0, 1)


def divided_with_rests(z, x):
    return np.divmod(x, 2)[0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (clipped, "numpy.clip of complex128: kernels have it of real numbers only"),
        (divided_with_rests, r"`np.divmod\(x, 2\)` is of numbers, and `x` an array"),
    ],
)
def test_functions_that_kernels_do_not_have_of_these_arrays_are_refused_by_name(rig, function, text):
    with pytest.raises(qgraph.QGraphError, match=text):
        rig.run(rig.kernel(function), np.array([1j, 2.0]), np.arange(3))

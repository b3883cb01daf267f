"""``explain``: the reasons of a plan, and float64 that a float32 kernel did not mean."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import qgraph
from qgraph.kernel import Kernel
from tests.conftest import THOROUGH


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def solver(x, y, tol):
    s = tol + 1.0
    while s > tol:
        for i in range(x.shape[0]):
            y[i] = 0.5 * x[i]
        s = 0.0
        for i in range(x.shape[0]):
            s += y[i]
            x[i] = y[i]
    return s


def test_each_edge_has_its_reason():
    explained = qgraph.kernel(solver).explain(np.ones(4), np.ones(4), 1e-3)
    assert set(explained.edges) == set(explained.plan.edges)
    (inside,) = [text for (before, _), text in explained.edges.items() if explained.plan.nodes[before].region == 1]
    assert inside.startswith("reads y, which n")
    assert inside.count("x") == 1
    text = str(explained)
    for statement in ("while s > tol:", "for i in range(x.shape[0]):", "return s"):
        assert statement in text
    assert "independent: no iteration touches what another writes; reduction into `s`" in text
    assert f"[line {line_of(solver, 's = 0.0')}]" in text
    assert "float64 in" not in text


def test_an_edge_through_shared_memory_has_a_reason():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 1.0
        for i in range(y.shape[0]):
            y[i] = 2.0

    x = np.zeros(8)
    explained = qgraph.kernel(kernel).explain(x[:5], x[3:])
    assert list(explained.edges.values()) == ["writes y, which n0 writes too"]
    assert not qgraph.kernel(kernel).explain(x[:3], x[3:]).edges


TENTH = np.float64(0.1)


@qgraph.func
def twice(a):
    return a * np.float64(2.0)


def precise(x, y, n, total):
    s = 0.0
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.1
        y[i] = x[i] * TENTH  # wide
        y[i] += twice(x[i])  # wide
        y[i] = n[i] / 2 + i
        s += x[i] * i
    t = s * TENTH  # wide
    for i in range(x.shape[0]):
        x[i] = x[i] + t  # wide
    total[0] = s


@pytest.mark.needs("compiler")
def test_float64_in_a_float32_kernel_is_told_by_line():
    arrays = np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros(4, np.int32), np.zeros(1, np.float32)
    explained = qgraph.kernel(precise).explain(*arrays)
    lines, first = inspect.getsourcelines(precise)
    wide = {first + number for number, line in enumerate(lines) if "# wide" in line}
    inner = line_of(twice.__wrapped__ if hasattr(twice, "__wrapped__") else twice.function, "return")
    assert {span.line for span in explained.doubles} == wide | {inner}
    for span in explained.doubles:
        assert f"{span.file}:{span.line}: {span.first_line()}" in str(explained)
    # The same kernel on float64 has nothing to tell.
    assert not qgraph.kernel(precise).explain(*(np.zeros(4) for _ in range(4))).doubles


def phases(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2
        x[i] = x[i] + TURN  # wide


TURN = np.complex128(1j)


@pytest.mark.needs("compiler")
def test_complex128_in_a_complex64_kernel_is_told_too():
    explained = qgraph.kernel(phases).explain(np.zeros(4, np.complex64), np.zeros(4, np.float32))
    assert [span.line for span in explained.doubles] == [line_of(phases, "# wide")]


class Caught(Exception):
    """Carries a call that was not made."""


def first_call(name, monkeypatch):
    """The kernel that an example calls first, and its arguments."""

    def catch(kernel, *args, **kwargs):
        raise Caught(kernel, args, kwargs)

    with monkeypatch.context() as patch, pytest.raises(Caught) as caught:
        patch.setattr(Kernel, "__call__", catch)
        importlib.import_module(f"examples.{name}").main()
    return caught.value.args


def narrow(value):
    """Arrays of float64 as float32, in tuples too."""
    if isinstance(value, tuple):
        parts = [narrow(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


EXAMPLES = (
    *("bicgstab", "bose_einstein", "channel_flow", "conjugate_gradient", "dormand_prince", "fdtd", "floyd_warshall"),
    *("gauss_seidel", "jacobi", "kmeans", "pagerank", "plasma", "sinkhorn"),
)


@pytest.mark.needs("compiler")
@THOROUGH
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_compute_in_float32_where_their_arrays_are(name, monkeypatch):
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    kernel, args, kwargs = first_call(name, monkeypatch)
    explained = kernel.explain(*(narrow(arg) for arg in args), **kwargs)
    assert explained.plan.program.float_type == "float32"
    assert not explained.doubles


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", ["jacobi", "plasma"])
def test_no_double_is_in_the_ptx_of_float32_examples(name, monkeypatch):
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    kernel, args, kwargs = first_call(name, monkeypatch)
    text = "".join(kernel.ptx(*(narrow(arg) for arg in args), **kwargs).values())
    assert ".f32" in text
    assert ".f64" not in text

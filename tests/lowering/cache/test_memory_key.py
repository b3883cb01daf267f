"""Equal loops are one kernel, and only equal ones: the entry of each task tells."""

from __future__ import annotations

import ast
import math

import numba
import numpy as np
import pytest

import qgraph
from qgraph.ir.functions import Function
from qgraph.lowering.cache.memory_key import structural_key
from qgraph.lowering.compile import compile_ptx
from qgraph.lowering.numba_backend import cpu
from qgraph.options import Options


@qgraph.kernel
def four(a, b, c, d):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(b.shape[0]):
        b[i] += 1
    for i in range(c.shape[0]):
        c[i] += 1
    for i in range(d.shape[0]):
        d[i] += 2


def entries(*arrays):
    codes, texts = compile_ptx(four.plan(*arrays), (9, 0), Options())
    for name, code in codes.items():
        assert f".entry {code.entry}(" in texts[name]
    return [code.entry for code in codes.values()]


def test_the_same_statement_on_arrays_of_one_type_is_one_kernel():
    found = entries(*(np.zeros(4, np.float32) for _ in range(4)))
    assert found[0] == found[1] == found[2] != found[3]


def test_another_dtype_or_layout_is_another_kernel():
    found = entries(np.zeros(4), np.zeros(4, np.int64), np.zeros(8)[::2], np.zeros(4))
    assert len(set(found)) == 4


def test_tasks_keep_their_own_names_and_parameters():
    arrays = [np.zeros(4, np.float32) for _ in range(4)]
    codes, _ = compile_ptx(four.plan(*arrays), (9, 0), Options())
    assert [code.parameters[0].name for code in codes.values()] == ["a", "b", "c", "d"]
    assert all(ast.parse(code.source) for code in codes.values())


@pytest.fixture
def compiled(monkeypatch):
    """The functions that were compiled for the CPU since the test began."""
    cpu.forget()
    functions, compile_control = [], cpu._compile_control
    monkeypatch.setattr(cpu, "_compile_control", lambda *args: (functions.append(args[1].name), compile_control(*args))[1])
    return functions


def made(code, factor=2, dtype=np.float64):
    """What a kernel that a factory makes does to one."""

    @qgraph.kernel(backend="cpu")
    def scaled(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i] * factor

    @qgraph.kernel(backend="cpu")
    def shifted(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i] + factor

    y = np.full(3, 77, dtype)
    {"scaled": scaled, "shifted": shifted}[code](np.ones(3, dtype), y)
    return y[0]


def test_functions_that_mean_the_same_are_compiled_once(compiled):
    assert [made("scaled") for _ in range(3)] == [2, 2, 2]
    assert len(compiled) == 1


def test_another_closure_value_dtype_or_statement_is_compiled_anew(compiled):
    assert [made("scaled"), made("scaled", 3), made("scaled", 3.5), made("scaled", dtype=np.float32), made("shifted")] == [
        2,
        3,
        3.5,
        2,
        3,
    ]
    assert len(compiled) == 5


def test_names_of_the_user_are_nothing_to_the_code(compiled):
    """Nor are the lines; what a name stands for is."""

    @qgraph.kernel(backend="cpu")
    def less(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i] - y[i]

    @qgraph.kernel(backend="cpu")
    def fewer(a, b):

        for k in range(a.shape[0]):
            b[k] = a[k] - b[k]

    @qgraph.kernel(backend="cpu")
    def more(x, y):
        for i in range(x.shape[0]):
            y[i] = y[i] - x[i]

    for kernel, expected, count in ((less, -1.0, 1), (more, 1.0, 2), (fewer, -1.0, 2)):
        y = np.full(3, 2.0)
        kernel(np.ones(3), y)
        assert y.tolist() == [expected] * 3
        assert len(compiled) == count


def test_what_a_global_name_stands_for_is_compiled_in(compiled):
    def made(function):
        @qgraph.kernel(backend="cpu")
        def kernel(x):
            for i in range(x.shape[0]):
                x[i] = function(x[i])

        x = np.full(3, 0.25)
        kernel(x)
        return x[0]

    assert [made(math.sqrt), made(math.cos), made(math.sqrt)] == [0.5, pytest.approx(math.cos(0.25)), 0.5]
    assert len(compiled) == 2


FACTOR = 2.0


@numba.njit
def times_factor(number):
    return number * FACTOR


def test_what_a_function_of_numba_looks_at_is_compiled_in(monkeypatch):
    tree = ast.parse("def kernel(x):\n    x[0] = times_factor(x[0])").body[0]
    function = Function("kernel", tree, {"times_factor": times_factor}, "<kernel>")
    before = structural_key(function)
    assert structural_key(function) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert structural_key(function) != before


def test_clear_cache_compiles_anew(compiled):
    four(*np.zeros((4, 3)))
    four.clear_cache()
    four(*np.zeros((4, 3)))
    assert len(compiled) == 2

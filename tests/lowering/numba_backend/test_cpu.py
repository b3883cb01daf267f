"""Whole kernels on the CPU: parallel calls, device functions, atomics, conditions, errors, threads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest

from qgraph import language
from qgraph.compat import numba as numba_parts
from qgraph.errors import KernelTypeError
from qgraph.ir.functions import ParallelFunction
from qgraph.lowering.numba_backend import cpu_runtime
from qgraph.lowering.numba_backend.dead_zero_fills import Library
from qgraph.operations import intrinsics
from qgraph.source import Span
from tests.conftest import THOROUGH
from tests.processes import run_python

ATOMICS = {function.__name__: function for function in language.ATOMICS}
DTYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")


def chunked(function, body, **names):
    """A parallel function over ``n`` iterations in chunks of 10, and a control function that calls it."""
    task = function(
        f"def task(chunk, n, x, y):\n    for i in range(chunk * 10, min(n, chunk * 10 + 10)):\n        {body}", **names
    )
    return function("def k(n, x, y):\n    f((n + 9) // 10, n, x, y)", f=ParallelFunction(task))


def test_calls_of_one_loop_have_one_worker(function, run_cpu, monkeypatch):
    """And arrays of one type are read by one function."""
    task = function("def task(chunk, n, x, y):\n    for i in range(n):\n        x[i] += y[i]")
    other = function("def other(chunk, n, x, y):\n    for i in range(n):\n        x[i] -= y[i] * 3")
    lines = ["f(1, n, x, y)", "f(1, n, z, y)", "g(1, n, x, z)", "f(1, n, y, z)"]
    control = function("def k(n, x, y, z):\n    " + "\n    ".join(lines), f=ParallelFunction(task), g=ParallelFunction(other))
    found, optimise = [], Library._optimize_final_module

    def noted(library):
        found.extend(each.name for each in numba_parts.final_module(library).functions if not each.is_declaration)
        optimise(library)

    monkeypatch.setattr(Library, "_optimize_final_module", noted)
    x, y, z = (np.full(4, each) for each in (1.0, 2.0, 3.0))
    run_cpu(control, 4, x, y, z)
    assert [each[0] for each in (x, y, z)] == [1 + 2 - 3 * 5, 2 + 5, 3 + 2]
    assert len([each for each in found if each.startswith("qgraph_worker")]) == 2
    assert len([each for each in found if each.startswith("qgraph_array")]) == 1


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 5000])
def test_every_chunk_runs_once(function, run_cpu, size):
    x, y = np.arange(size, dtype=np.float64), np.zeros(size)
    run_cpu(chunked(function, "y[i] += x[i] + 1"), size, x, y)
    assert (y == x + 1).all()


def test_a_loop_around_parallel_calls_does_not_grow_the_stack(function, run_cpu):
    # What each call keeps, left on the stack, would overflow it: 64 bytes or more.
    task = function("def task(chunk, y):\n    y[chunk] += 1")
    code = function("def k(n, y):\n    for i in range(n):\n        f(2, y)\n        f(1, y)", f=ParallelFunction(task))
    y = np.zeros(2, np.int64)
    rounds = 150_000
    run_cpu(code, rounds, y)
    assert list(y) == [2 * rounds, rounds]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_arrays_of_any_stride(function, run_cpu, step):
    x = np.arange(40, dtype=np.float32)[::step]
    y = np.zeros((len(x), 3), np.float32)[:, 1]
    run_cpu(chunked(function, "y[i] = x[i] * 2"), len(x), x, y)
    assert (y == x * 2).all()


def test_a_read_only_array_can_be_read(function, run_cpu):
    x = np.arange(20.0)
    x.flags.writeable = False
    y = np.zeros(20)
    run_cpu(chunked(function, "y[i] = x[i]"), 20, x, y)
    assert (y == x).all()


def numbers(dtype):
    if np.dtype(dtype).kind == "f":
        return np.array([1.5, -2.25, 3, 100], dtype)
    high = np.iinfo(dtype).max
    return np.array([6, 3, 250, high - 5], dtype)


@pytest.mark.parametrize("name", ATOMICS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_atomics_do_what_the_words_do(function, run_cpu, name, dtype):
    word = ATOMICS[name]
    integers_only = name in ("atomic_and_", "atomic_or_", "atomic_xor", "atomic_cas")
    more = ", 3" if name == "atomic_cas" else ""
    code = function(f"def k(a, o):\n for i in range(4):\n  o[i] = f(a, i - 4{more}, 5)", f=word)
    a, old = np.repeat(numbers(dtype), 2)[::2], np.zeros(4, dtype)
    if integers_only and np.dtype(dtype).kind == "f":
        with pytest.raises(KernelTypeError, match="needs integers of 32 or 64 bits"):
            run_cpu(code, a, old)
        return
    run_cpu(code, a, old)
    answer, answer_old = numbers(dtype), np.zeros(4, dtype)
    for i in range(4):
        compare = (dtype_of(3, dtype),) if more else ()
        with np.errstate(over="ignore"):
            answer_old[i] = word(answer, i, *compare, dtype_of(5, dtype))
    assert (a == answer).all()
    assert (old == answer_old).all()


def dtype_of(value, dtype):
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["atomic_min", "atomic_max"])
def test_float_extremes_treat_nan_as_cpython(function, run_cpu, name, dtype):
    word = ATOMICS[name]
    cases = [(a, b) for a in (np.nan, 0.0, -0.0, 1.0, -np.inf) for b in (np.nan, 0.0, -0.0, 2.0, np.inf)]
    a = np.array([case[0] for case in cases], dtype)
    b = np.array([case[1] for case in cases], dtype)
    answer = a.copy()
    for i in range(len(a)):
        word(answer, i, b[i])
    run_cpu(function("def k(a, b):\n for i in range(a.shape[0]):\n  f(a, i, b[i])", f=word), a, b)
    np.testing.assert_array_equal(a, answer)
    np.testing.assert_array_equal(np.signbit(a), np.signbit(answer))


def test_atomics_take_any_index(function, run_cpu):
    source = """
    def k(a, b, c, u):
        f(a, (1, u), 10)
        f(a, (-1, -1), 1)
        f(b, (), 2.5)
        f(b, (), True)
        f(c, -1, 1)
        f(c, u, 1)
    """
    a, b, c = np.zeros((2, 3), np.int32), np.zeros((), np.float32), np.zeros(8, np.int64)[::2]
    run_cpu(function(source, f=language.atomic_add), a, b, c, np.uint8(2))
    assert a.tolist() == [[0, 0, 0], [0, 0, 11]]
    assert b == 3.5
    assert c.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_colliding_updates_are_not_lost(function, run_cpu, dtype):
    count, sums = 20000, np.zeros(3, dtype)
    code = chunked(function, "f(y, i % 2, 1); g(y, 2, i)", f=language.atomic_add, g=language.atomic_max)
    run_cpu(code, count, np.zeros(1), sums)
    assert list(sums) == [count / 2, count / 2, count - 1]


@pytest.mark.parametrize(
    ("array", "expression", "found"),
    [
        (np.zeros(3, np.int16), "f(a, 0, 1)", "atomic_add() on int16: atomics exist for int32"),
        (np.zeros(3, np.float16), "f(a, 0, 1)", "atomic_add() on float16"),
        (np.zeros((3, 3)), "f(a, 0, 1)", "on 2 dimensions with 1 indices"),
        (np.zeros(3), "f(a, 1.5, 1)", "needs integer indices"),
        (np.zeros(3), "f(a, 0, 1j)", "cannot store complex64 in float64"),
        (np.zeros(3), "f(1, 0, 1)", "needs an array"),
        (np.zeros(3), "f(a, 0)", "takes 3 arguments, not 2"),
    ],
)
def test_atomics_refuse_by_name(function, run_cpu, array, expression, found):
    with pytest.raises(KernelTypeError) as caught:
        run_cpu(function(f"def k(a):\n {expression}", f=language.atomic_add), array)
    assert found in caught.value.found


def test_a_condition_goes_to_its_slot(function, run_cpu):
    slots = np.full(3, 7, np.int64)
    run_cpu(function("def k(s, x):\n f(s, 1, 0, x > 2)\n f(s, 2, 0, 0)", f=intrinsics.set_condition), slots, 5.0)
    assert list(slots) == [7, 1, 0]


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 10, 3), (10, 0, -3), (5, 5, 1), (0, 5, -1), (0, 5, 0)])
def test_trip_counts(function, run_cpu, start, stop, step):
    count = np.zeros(1, np.int64)
    run_cpu(function("def k(o, a, b, c):\n o[0] = f(a, b, c)", f=intrinsics.trip_count), count, start, stop, step)
    assert count[0] == (len(range(start, stop, step)) if step else 0)


@numba.njit
def halve(x):
    return x * 0.5


@numba.njit
def scaled(x, scale=2, *, offset=0.25):
    return halve(x) * scale + offset


def test_njit_functions_follow_the_rules(function, run_cpu):
    results = np.zeros(4, np.float32)
    source = "def k(o, x):\n o[0] = f(x)\n o[1] = f(x, 3)\n o[2] = f(scale=4, x=x)\n o[3] = f(x, offset=1)"
    run_cpu(function(source, f=scaled), results, np.float32(0.1))
    x = np.float32(0.1)
    assert list(results) == [scaled.py_func(x), scaled.py_func(x, 3), scaled.py_func(x, 4), scaled.py_func(x, offset=1)]
    assert not scaled.signatures  # Numba's own contexts have seen nothing of it


def test_functions_call_functions(function, run_cpu):
    inner = function("def inner(a, b):\n    for i in range(3):\n        a = a * b\n    return a, b")
    outer = function("def outer(a):\n    p, q = inner(a, 2)\n    return p + q", inner=inner)
    results = np.zeros(2, np.float32)
    run_cpu(function("def k(o):\n o[0] = outer(o[0] + 1)\n o[1] = outer(3)", outer=outer), results)
    assert list(results) == [10, 26]


def test_functions_that_numba_itself_writes_in_python(function, run_cpu):
    results = np.zeros(4)
    source = "def k(o, x):\n o[0] = sum((1, 2, 3))\n o[1] = math.gcd(12, 18)\n o[2] = np.sum(x[1:])\n o[3] = np.dot(x, x)"
    run_cpu(function(source, math=math, np=np), results, np.arange(4.0))
    assert list(results) == [6, 6, 6, 14]


PRINTING = """
import ast
from numba.core import types
from qgraph.lowering.numba_backend import cpu as numba_cpu
from qgraph.ir.functions import Function, ParallelFunction

def function(source, **names):
    tree = ast.parse(source).body[0]
    return Function(tree.name, tree, names, "<kernel>")

task = function("def task(chunk, a): print('value', a * 2)")
code = function("def k(n, a):\\n f(n, a)\\n print(n, True)", f=ParallelFunction(task))
call = numba_cpu.compile_control(code, (types.int64, types.float64), watched=0, float_type="float64", fastmath=False).call
call(1, 1.5, 0)
call(4, 1.5, 0)
"""


def test_print_works_on_every_thread():
    # In a process with a time limit: a print that fails keeps Python's lock, and the call never returns.
    done = subprocess.run([sys.executable, "-c", PRINTING], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("value 3.0\n1 True\n")
    assert done.stdout.count("value") == 5
    assert done.stdout.endswith("4 True\n")


def test_recursion_is_refused(function, run_cpu):
    first = function("def first(a):\n    return first(a - 1)", first=None)
    first.names["first"] = first
    with pytest.raises(KernelTypeError, match="calls itself"):
        run_cpu(function("def k(o):\n o[0] = f(1)", f=first), np.zeros(1))


def test_an_error_names_the_users_line_and_nothing_of_numba(function, run_cpu):
    inner = function("\n\n\n\ndef inner(a):\n    b = a + 1\n    return b + 'text'\n", file="user.py")
    with pytest.raises(KernelTypeError) as caught:
        run_cpu(function("def k(o):\n    o[0] = f(1)\n", f=inner), np.zeros(1))
    error = caught.value
    assert error.span == Span("user.py", 7, 4, 7, 21)
    assert error.found == "`+` takes numbers, not a text"
    assert "\n" not in error.found
    assert "numba" not in error.found.lower()
    assert error.__cause__ is not None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("o[0] = unknown(1)", "unknown"),
        ("o[0] = o.nothing", "nothing"),
        ("o['a'] = 1", "a text is an index"),
        ("o[0] = undefined_word + 1", "undefined_word"),
    ],
)
def test_errors_are_one_sentence(function, run_cpu, line, found):
    with pytest.raises(KernelTypeError) as caught:
        run_cpu(function(f"def k(o):\n    {line}\n"), np.zeros(1))
    assert found in caught.value.found
    assert "\n" not in caught.value.found
    assert caught.value.span.line == 2


def test_fastmath_compiles_and_adds(function, run_cpu):
    x, total = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    run_cpu(function("def k(x, o):\n for i in range(x.shape[0]):\n  o[0] += x[i]"), x, total, fastmath=True)
    assert total[0] == pytest.approx(x.sum())


def test_compilation_is_safe_from_several_threads(function, run_cpu):
    results = np.zeros(8)
    codes = [function(f"def k(o):\n o[{index}] = f({index})", f=halve) for index in range(8)]
    threads = [threading.Thread(target=run_cpu, args=(code, results)) for code in codes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(results) == [index / 2 for index in range(8)]


LAYER_PROGRAM = """
import ast, threading
import numpy as np
from numba.core import types
from qgraph.lowering.numba_backend import cpu_runtime as cpu_calls
from qgraph.lowering.numba_backend import cpu as numba_cpu
from qgraph.ir.functions import Function, ParallelFunction

def function(source, **names):
    tree = ast.parse(source).body[0]
    return Function(tree.name, tree, names, "<kernel>")

task = function("def task(chunk, y): y[chunk] += 1")
code = function("def k(y):\\n for i in range(200): f(8, y)", f=ParallelFunction(task))
call = numba_cpu.compile_control(code, (types.int64[::1],), watched=0, float_type="float64", fastmath=False).call

def run(y):
    for _ in range(5):
        cpu_calls.guarded(call)(y, 0)

arrays = [np.zeros(8, np.int64) for _ in range(4)]
threads = [threading.Thread(target=run, args=(y,)) for y in arrays]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert all((y == 1000).all() for y in arrays), arrays
print(cpu_calls.threading_layer())
"""


@THOROUGH
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_several_threads_call_on_every_layer(layer):
    done = run_python("-c", LAYER_PROGRAM, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="2")
    if "No threading layer could be loaded" in done.stderr:
        pytest.skip(f"the {layer} layer is not installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == layer


@pytest.mark.parametrize(
    ("said", "spins"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)], ids=str
)
def test_libgomp_spins_shortly_unless_the_environment_says(monkeypatch, said, spins):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    found = []
    monkeypatch.setattr(cpu_runtime, "_THREADS", cpu_runtime._Threads())
    monkeypatch.setattr(cpu_runtime.numba, "launch", lambda _: found.append(os.environ.get("GOMP_SPINCOUNT")) or {})
    cpu_runtime.start_threads("omp")
    assert found == [spins]
    assert os.environ.get("GOMP_SPINCOUNT") == said.get("GOMP_SPINCOUNT")

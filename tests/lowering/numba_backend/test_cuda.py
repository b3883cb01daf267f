"""Tasks as PTX, with no GPU: what the text holds, that it links, and that it is the same in every process."""

from __future__ import annotations

import math
import re

import numba
import numpy as np
import pytest

import qgraph
from qgraph import language
from qgraph.errors import BackendError, KernelTypeError
from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.lowering.numba_backend import cuda, cuda_simulator
from qgraph.lowering.ptx import link
from qgraph.operations import intrinsics
from tests.conftest import THOROUGH
from tests.processes import printed_by, run_python

if cuda.simulator_active():
    pytest.skip("the simulator compiles nothing", allow_module_level=True)

X32 = ArrayType("float32", 1, "A")
X64 = ArrayType("float64", 1, "A")
INTEGERS = ArrayType("int32", 1, "C")
SLOTS = ArrayType("int64", 1, "C")
INT = ScalarType("int64", weak=True)
FLOAT = ScalarType("float64", weak=True)
HANDLE = ScalarType("uint64", weak=False)

# A double register (%fd), not a 64th float register (%f64).
DOUBLE = re.compile(r"\.f64\b")


def kernel(*lines, parameters="x, y"):
    body = "".join(f"        {line}\n" for line in lines)
    return f"def k({parameters}):\n    i = cuda.grid(1)\n    if i < y.shape[0]:\n{body}"


def names(**more):
    return {"cuda": cuda.cuda_module(), "np": np, "math": math, **more}


@pytest.mark.parametrize(
    "line",
    [
        "y[i] = x[i] * 0.1 + 2 * x[i] + 1",
        "y[i] = i * x[i] + x.shape[0]",
        "y[i] = k[i] * x[i] + k[i] / 2 + k[i] // 3",
        "y[i] = max(x[i], 0) + min(1, x[i], k[i])",
        "y[i] = i / 2 + i / n + a * x[i]",
        "y[i] = x[i] ** 2 + x[i] ** 0.5 + 2 ** x[i] + x[i] % 2 + x[i] // 3",
        "y[i] = math.sqrt(i) + math.exp(k[i]) + math.pow(x[i], 2) + math.floor(x[i])",
        "y[i] = np.sqrt(k[i]) + np.exp(x[i]) + np.hypot(x[i], 1) + np.maximum(x[i], 0) + np.deg2rad(x[i])",
        "y[i] = float(i) + float(n) + round(x[i]) + abs(x[i]) + math.pi + half(x[i])",
        "y[i] = (x[i] + 1j * i).real + abs(complex(i, 2))",
        "s = 0\n        for j in range(3): s += x[i] * j\n        y[i] = s",
        "y[i] = 1.5 if x[i] > i else 2",
    ],
)
def test_a_float32_kernel_holds_no_double(function, compile_ptx, line):
    half = numba.njit(lambda v: v * 0.5 + 1)
    code = function(kernel(line, parameters="x, y, k, n, a"), **names(half=half))
    text = compile_ptx(code, X32, X32, INTEGERS, INT, FLOAT)
    assert not DOUBLE.search(text), [found for found in text.splitlines() if DOUBLE.search(found)][:5]
    # The same kernel with F = float64 shows that the check can fail.
    double = compile_ptx(code, X64, X64, INTEGERS, INT, FLOAT, float_type="float64")
    assert DOUBLE.search(double)


def test_a_written_float64_stays(function, compile_ptx):
    code = function(kernel("y[i] = x[i] * a", parameters="x, y, a"), **names())
    assert DOUBLE.search(compile_ptx(code, X32, X32, ScalarType("float64", weak=False)))
    assert not DOUBLE.search(compile_ptx(code, X32, X32, FLOAT))


UNARY = (
    *("sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "fabs", "exp2", "cbrt", "degrees", "radians", "deg2rad"),
    *("rad2deg", "abs", "absolute", "negative", "positive", "sign", "square", "floor", "ceil", "trunc", "rint", "round"),
    *("isnan", "isinf", "isfinite", "logical_not", "conj", "real", "imag"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "mod", "remainder", "fmod", "power", "float_power"),
    *("minimum", "maximum", "fmin", "fmax", "hypot", "arctan2", "copysign", "logaddexp", "less", "less_equal", "greater"),
    *("greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"),
)
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


@pytest.mark.parametrize(("float_type", "major"), [("float32", 8), ("float64", 9)])
def test_numpy_functions_of_scalars_compile_and_link(function, compile_ptx, float_type, major):
    lines = [f"y[i] += np.{name}(x[i])" for name in (*UNARY, "reciprocal")]
    lines += [f"y[i] += np.{name}(x[i], 3)" for name in BINARY]
    if float_type == "float32":  # of integers they are the same
        lines += [f"y[i] += np.{name}(k[i])" for name in UNARY]
        lines += [f"y[i] += np.{name}(k[i], 3)" for name in (*BINARY, *INTEGER)]
    lines += ["y[i] += np.clip(x[i], 0, 1) + np.where(x[i] > 0, x[i], 1) + np.invert(k[i])"]
    lines += ["z = x[i] + 2j", "y[i] += abs(np.exp(z) + np.sqrt(z) + np.conj(z) + z ** 2) + np.isnan(z)"]
    arrays = ArrayType(float_type, 1, "A")
    code = function(kernel(*lines, parameters="x, y, k"), **names())
    text = compile_ptx(code, arrays, arrays, INTEGERS, float_type=float_type, entry="all", capability=(major, 0))
    assert link.link([text], (major, 0))[:4] == b"\x7fELF"


@numba.njit
def shared(a):
    for _ in range(20):
        a = a * a + 1
    return a


def test_only_the_entry_is_visible(function, compile_ptx):
    source = kernel("y[i] = f(x[i])", "g(y, i, 1)", "s(z, 1, h, y[i] > 0)", parameters="x, y, z, h")
    code = function(source, **names(f=shared, g=language.atomic_add, s=intrinsics.set_condition))
    texts = [compile_ptx(code, X32, X32, SLOTS, HANDLE, entry=entry) for entry in ("q_first", "q_second")]
    for text, entry in zip(texts, ("q_first", "q_second"), strict=True):
        assert re.findall(r"\.entry (\w+)", text) == [entry]
        assert "_ZN" not in text
        defined = re.findall(r"^\s*(?:\.\w+ )*\.(?:func|global)\b[^\n]*?([\w$]+)[;(]?\s*$", text, re.M)
        assert all(name.startswith(("q_", "cudaGraph")) for name in defined), defined
    assert texts[0].replace("q_first", "q_second") == texts[1]
    assert link.link(texts, (9, 0))


def test_inlined_functions_leave_nothing_behind(function, compile_ptx):
    half = numba.njit(lambda v: v * 0.5 + 1)
    assert ".func" not in compile_ptx(function(kernel("y[i] = half(x[i])"), **names(half=half)), X32, X32)


def test_libraries_are_linked_in_the_order_of_use():
    library = cuda._COMPILERS.get("float32").target.codegen().create_library("order")
    used = [object() for _ in range(50)]
    for item in (*used, *used[::-1]):
        library._linking_libraries.add(item)
    assert list(library._linking_libraries) == used


def test_a_float_remainder_is_exact(function, compile_ptx):
    # x - y * trunc(x / y), LLVM's expansion, is wrong for large quotients; libdevice's fmod loops.
    for expression in ("x[i] % y[i]", "np.fmod(x[i], y[i])"):
        text = compile_ptx(function(kernel(f"y[i] = {expression}"), **names()), X32, X32)
        labels = re.findall(r"^(\$L__\w+):", text, re.M)
        assert any(re.search(rf"{re.escape(label)}:.*bra(\.uni)? \t{re.escape(label)};", text, re.S) for label in labels)


PROCESS = """
import ast, hashlib, sys
import numba
from qgraph.lowering.numba_backend import cuda as numba_cuda
from qgraph.lowering.numba_backend.types import numba_type
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function

def inner(a): return a * 2 + 1
def other(a): return a - inner_njit(a)
inner_njit = numba.njit(inner)
other_njit = numba.njit(other)
X = numba_type(ArrayType("float32", 1, "A"), "float32")

def text(body, entry):
    tree = ast.parse(f"def k(x):\\n i = cuda.grid(1)\\n x[i] = {body}").body[0]
    names = {"cuda": numba_cuda.cuda_module(), "f": inner_njit, "g": other_njit}
    function = Function("k", tree, names, "<kernel>")
    return numba_cuda.compile_ptx(function, (X,), float_type="float32", capability=(9, 0), fastmath=False, entry=entry,
                                  launch_bound=128)()

for number in range(int(sys.argv[1])):
    text(f"f(x[i]) + {number}", "warm")
print(hashlib.sha256(text("f(x[i]) + g(x[i]) * f(2) ** g(3)", "entry").encode()).hexdigest())
"""


@THOROUGH
def test_the_text_is_the_same_in_every_process():
    digests = set()
    for count, seed in (("0", "1"), ("3", "2")):
        done = run_python("-c", PROCESS, count, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_atomics_compile_and_link(function, compile_ptx, dtype):
    floating = dtype.startswith("float")
    lines, more = [], {}
    for word in language.ATOMICS:
        if floating and word.__name__ in ("atomic_and_", "atomic_or_", "atomic_xor", "atomic_cas"):
            continue
        more[word.__name__] = word
        compare = "1, " if word is language.atomic_cas else ""
        lines.append(f"y[i] = {word.__name__}(x, i, {compare}2) + {word.__name__}(z, (), {compare}i)")
        lines.append(f"{word.__name__}(w, (0, -1), {compare}3)")
    types = [ArrayType(dtype, count, layout) for count, layout in ((1, "A"), (1, "C"), (0, "C"), (2, "A"))]
    code = function(kernel(*lines, parameters="x, y, z, w"), **names(**more))
    text = compile_ptx(code, *types, float_type="float64" if dtype == "float64" else "float32")
    assert text.count("atom.") >= 2 * len(more)
    assert link.link([text], (9, 0))


def test_atomics_without_hardware_support_are_refused(function, compile_ptx):
    code = function(kernel("f(y, i, 1)"), **names(f=language.atomic_add))
    with pytest.raises(KernelTypeError, match=r"atomic_add\(\) on int16"):
        compile_ptx(code, X32, ArrayType("int16", 1, "C"))


def test_a_condition_is_set_by_handle_or_by_slot(function, compile_ptx):
    code = function("def k(s, h, x): f(s, 2, h, x[0] > 1)", **names(f=intrinsics.set_condition))
    text = compile_ptx(code, SLOTS, HANDLE, X32)
    assert ".extern .func cudaGraphSetConditional" in text
    assert re.search(r"\bst(\.global)?\.u64", text)
    assert link.link([text], (9, 0))
    # Without the archive the symbol is left to the driver.
    assert link.link([text], (9, 0), device_runtime=False)


def test_prints_and_constant_arrays_of_several_kernels_link(function, compile_ptx):
    table = np.arange(5, dtype=np.float32)
    code = function(kernel("print('value', i, x[i])", "y[i] = table[i]"), **names(table=table))
    texts = [compile_ptx(code, X32, X32, entry=entry) for entry in ("first", "second")]
    assert "vprintf" in texts[0]
    assert link.link(texts, (9, 0))


def test_no_references_are_counted_whatever_others_want_of_numba(function, compile_ptx, monkeypatch):
    from numba.cuda import config

    text = "def k(x):\n w = x\n s = w[0]\n for j in range(3):\n  w = x\n  s += w[j]\n x[0] = s"
    without = compile_ptx(function(text), X32)
    monkeypatch.setattr(config, "CUDA_ENABLE_NRT", True, raising=False)
    assert compile_ptx(function(text), X32) == without
    with pytest.raises(KernelTypeError, match="makes a new array"):
        compile_ptx(function("def k(x):\n t = np.zeros(3, np.float32)\n x[0] = t[1]", np=np), X32)


def test_a_launch_bound_is_written(function, compile_ptx):
    code = function(kernel("y[i] = x[i]"), **names())
    assert ".maxntid 64, 1, 1" in compile_ptx(code, X32, X32, launch_bound=64)
    assert ".maxntid" not in compile_ptx(code, X32, X32)


def test_fastmath_divides_approximately(function, compile_ptx):
    code = function(kernel("y[i] = x[i] / 3.5 / y[i]"), **names())
    assert "div.rn.f32" in compile_ptx(code, X32, X32)
    assert "div.full.ftz" in compile_ptx(code, X32, X32, fastmath=True)


def test_builtin_max_is_a_comparison_and_a_choice(function, compile_ptx):
    # max(x, 0) keeps a nan x: max.f32 alone, which drops nan, would be wrong.
    text = compile_ptx(function(kernel("y[i] = max(x[i], 0)"), **names()), X32, X32)
    assert "setp." in text
    assert "selp" in text or not re.search(r"\bmax\.f32", text)


def test_a_loop_counts_without_choices(function, compile_ptx):
    # Numba's own goes on only where there is a next number, and NVVM cannot tell that an index is not negative.
    code = function(kernel("s = x[0]", "for j in range(k[i]):", "    s += x[j]", "y[i] = s", parameters="x, y, k"), **names())
    text = compile_ptx(code, ArrayType("float32", 1, "C"), X32, INTEGERS)
    assert text.count("ld.global.f32") + text.count("ld.f32") > 4, "some iterations at once"
    assert text.count(", 63;") == 1, "the sign of i is looked at, once"
    assert text.count("selp") <= 1


def test_loops_in_which_threads_part_have_one_iteration_at_once(function, compile_ptx):
    lines = ("s = x[0]", "for j in range(k[i]):", "    if x[j] > 1:", "        s += 1 / x[j] * (x[j] - 2)", "y[i] = s")
    parting = compile_ptx(function(kernel(*lines, parameters="x, y, k"), **names()), X32, X32, INTEGERS)
    assert len(re.findall(r"(rcp|div)\.", parting)) == 1
    # Where the number of iterations is known, all are written out.
    known = [line.replace("k[i]", "3") for line in lines]
    assert len(re.findall(r"(rcp|div)\.", compile_ptx(function(kernel(*known), **names()), X32, X32))) == 3


@pytest.mark.parametrize(("bounds", "copies"), [("k[0] - 1, k[0] + 2", 1), ("3", 3), ("1, 4", 3)])
def test_loops_around_those_have_one_iteration_at_once_unless_they_count_from_a_constant(function, compile_ptx, bounds, copies):
    inside = ("for j in range(k[m]):", "    if x[j] > 1:", "        s += 1 / x[j] * (x[j] - m)")
    lines = ("s = x[0]", f"for m in range({bounds}):", *(f"    {line}" for line in inside), "y[i] = s")
    text = compile_ptx(function(kernel(*lines, parameters="x, y, k"), **names()), X32, X32, INTEGERS)
    assert len(re.findall(r"(rcp|div)\.", text)) == copies


def test_an_error_names_the_users_line(function, compile_ptx):
    code = function("def k(x):\n    i = cuda.grid(1)\n    x[i] = np.linalg.norm(x, 3)\n", file="user.py", **names())
    with pytest.raises(KernelTypeError) as caught:
        compile_ptx(code, X32)
    assert (caught.value.span.file, caught.value.span.line) == ("user.py", 3)
    assert "\n" not in caught.value.found


def test_float16_arrays(function, compile_ptx):
    half = ArrayType("float16", 1, "C")
    code = function(kernel("y[i] = x[i] * 2 + i + math.sqrt(x[i]) + max(x[i], y[i]) + (x[i] > 1)"), **names())
    text = compile_ptx(code, half, half)
    assert not DOUBLE.search(text)
    assert link.link([text], (9, 0))


def test_the_simulator_must_have_been_chosen(function):
    with pytest.raises(BackendError, match="simulator"):
        cuda_simulator.simulator_kernel(function("def k(x): x[0] = 1"))


SIMULATED = """
import ast
import numpy as np
import numba
from qgraph import language
from qgraph.operations import intrinsics
from qgraph.lowering.numba_backend import cuda as numba_cuda, cuda_simulator
from qgraph.ir.functions import Function

def function(source, **names):
    tree = ast.parse(source).body[0]
    return Function(tree.name, tree, names, "<kernel>")

assert numba_cuda.simulator_active()
inner = function("def inner(a): return twice(a) + np.sqrt(4.0)", twice=numba.njit(lambda v: 2 * v), np=np)
source = '''
def k(x, y, s):
    i = cuda.grid(1)
    if i >= 6:
        return
    y[i] = f(i)
    add(x, 0, 1)
    largest(x, (1,), i)
    decide(s, 1, 0, i == 5) if i == 5 else None
'''
code = function(source, cuda=numba_cuda.cuda_module(), f=inner, add=language.atomic_add, largest=language.atomic_max,
                decide=intrinsics.set_condition)
x, y, s = np.zeros(2, np.int64), np.zeros(6), np.zeros(2, np.int64)
cuda_simulator.simulator_kernel(code)[2, 4](x, y, s)
print(x.tolist(), y.tolist(), s.tolist())
"""


def test_the_simulator_runs_the_same_function():
    done = run_python("-c", SIMULATED, NUMBA_ENABLE_CUDASIM="1")
    assert done.stdout.strip() == "[6, 5] [2.0, 4.0, 6.0, 8.0, 10.0, 12.0] [0, 1]", done.stderr


@pytest.mark.needs("compiler")
def test_arithmetic_of_arrays_where_numbers_are_needed_is_refused():
    @qgraph.kernel
    def kernel(x, c):
        for i in range(x.shape[0]):
            b = c
            x[i] = x[i] * b

    with pytest.raises(qgraph.KernelTypeError, match=r"numpy.multiply is used where a number is needed(?s:.*)a\[\(\)\]"):
        kernel.ptx(np.zeros(3), np.array(2.0))


def test_methods_that_others_declare_for_cuda_alone(tmp_path):
    """As nvmath's: a context that is made while Numba compiles for the CPU would refuse them."""
    program = """
        import numba.cuda
        import numpy as np
        from numba.core import types
        from numba.extending import overload_method

        import qgraph

        class Own(types.Type):
            pass

        @overload_method(Own, "solve", target="cuda")
        def solve(self):
            return lambda self: 1.0

        @qgraph.kernel(backend="cuda")
        def k(x):
            for i in range(x.shape[0]):
                x[i] += 1.0

        print(*k.ptx(np.ones(3)))
    """
    assert printed_by(program, tmp_path, QGRAPH_CACHE="0").split() == ["k_L18"]

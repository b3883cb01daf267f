"""How the CPU cuts a loop into chunks: which bodies are worth a thread, and that each iteration is in one chunk."""

from __future__ import annotations

import ast
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qgraph
from qgraph.ir.program import Axis, Effects, Task
from qgraph.ir.verdicts import Verdict
from qgraph.lowering.codegen import cpu_chunks, cpu_codegen
from qgraph.lowering.codegen.task_codegen import make_function
from qgraph.operations import intrinsics
from qgraph.source import Span
from tests.processes import printed_by

SPAN = Span("<kernel>", 1, 0, 1, 1)


def grain(body: str, **names: object) -> int:
    statements = tuple(ast.parse(body).body)
    return cpu_codegen._grain(Task("task", "loop", SPAN, (), statements, names, Effects()))


@given(st.integers(0, 70), st.integers(0, 70), st.integers(1, 200), st.sampled_from([2, 8, 64]))
def test_each_iteration_is_in_one_chunk(rows, cols, grain, most):
    chunks, row_step, col_step = intrinsics.split_rows(rows, cols, grain, most)
    across = -(-cols // col_step)
    cells = [
        (row, col)
        for chunk in range(chunks)
        for row in range(chunk // across * row_step, min(rows, chunk // across * row_step + row_step))
        for col in range(chunk % across * col_step, min(cols, chunk % across * col_step + col_step))
    ]
    assert sorted(cells) == [(row, col) for row in range(rows) for col in range(cols)]
    assert (chunks > 1) == (rows * cols > grain and len(cells) > 1)


@pytest.mark.parametrize(("total", "chunks"), [(100, 1), (101, 2), (290, 2), (310, 4), (590, 4), (610, 8), (10**6, 64)])
def test_chunks_are_the_nearest_power_of_two(total, chunks):
    assert intrinsics.split_rows(1, total, 100, 64)[0] == chunks
    assert intrinsics.split_rows(total, 1, 100, 64)[0] == pytest.approx(chunks, abs=1)


def test_literals_and_roots_do_not_make_a_body_slow():
    simple = grain("a[i] = b[i] + c[i]")
    assert grain("a[i] = _float(3.0) * b[i]", _float=float) == simple
    assert grain("a[i] = root(b[i])", root=math.sqrt) == simple
    assert grain("for k in range(3): a[i] += b[i, k]") < simple
    assert grain("a[i] = f(b[i])", f=math.sin) < simple


@pytest.mark.parametrize(
    "head", ["for k in range(n)", "for k in range(2, n)", "for k in range(1000)", "while a[i] < 5", "for k in I"]
)
def test_loops_of_unknown_length_are_worth_a_thread_soon(head):
    assert grain(f"{head}: a[i] += 1") < grain("a[i] = f(b[i])", f=math.sin)


def test_a_long_body_is_worth_a_thread_sooner():
    assert grain("\n".join(["a[i] = b[i] * c[i] + d[i]"] * 40)) < grain("a[i] = b[i]")


def copies(start: str, body: str, step: str = "1") -> str:
    """The loops of a chunk over ``i``."""
    start_, step_, count = (ast.parse(text, mode="eval").body for text in (start, step, "n"))
    axis = Axis("i", start_, step_, count, False, SPAN)
    task = Task("task", "loop", SPAN, (axis,), tuple(ast.parse(body).body), {}, Effects())
    bound = cpu_chunks._constant_bound(axis)
    loops = cpu_chunks._checked_loops(task, {} if bound is None else {"i": bound}, task.body)
    return ast.unparse(make_function("chunk", [], loops, {}, SPAN).tree)


@pytest.mark.parametrize(("start", "step", "bound"), [("0", "1", 0), ("1", "1", 1), ("7", "3", 7)])
def test_a_constant_start_is_told_to_the_compiler(start, step, bound):
    text = copies(start, "a[i] = b[i - 1]", step)
    assert text.count("for ") == 1
    assert f"_assume_ge(i, {bound})" in text


@pytest.mark.parametrize(
    ("start", "step"), [("lo", "1"), ("hi", "-1"), ("0", "1152921504606846976"), ("1152921504606846976", "1")]
)
def test_a_start_that_may_be_negative_is_looked_at(start, step):
    text = copies(start, "a[i] = b[i - 2]", step)
    assert text.count("for ") == 2
    assert text.count("_assume_ge(i, 2)") == 1
    # All indices of the chunk are looked at, not its first or last one.
    assert re.search(r"if _min\(.*\) >= 2 and _max\(.*\) < \d", text)


@pytest.mark.parametrize(("start", "body"), [("-3", "a[i] = 1"), ("lo", "for k in range(n): a[i] += k"), ("lo", "a[0] = i")])
def test_no_second_copy_where_it_is_of_no_use(start, body):
    text = copies(start, body)
    assert text.count("for _t") == 1
    assert "_assume_ge" not in text


def chunk(inside: str, *, verdict: str = "independent", before: str = "s = 0", after: str = "y[j] = s") -> str:
    """The code of the loops of `for j: before; for i: inside; after`."""
    body = ast.parse(f"{before}\nfor i in range(n):\n    {inside}\n{after}").body
    axis = Axis("j", ast.Constant(0), ast.Constant(1), ast.Name("m", ast.Load()), False, SPAN)
    task = Task("task", "loop", SPAN, (axis,), tuple(body), {}, Effects(), verdict=Verdict(verdict, ""))
    return "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in cpu_chunks._loops(task, {}, body))


def test_columns_are_gone_down_together():
    code = chunk("s += x[i, j]")
    assert "for _t in _range(_col0, _last, 16):" in code
    assert code.count("for i in range(n):") == 2
    assert "_column15_s += x[i, _column15_j]" in code
    assert "for _t in _range(_col0, _last, 16):" in chunk("s += a[i] * x[k, i, j]")


@pytest.mark.parametrize(
    "inside",
    [
        "s += x[j, i]",
        "s += x[i]",
        "s += x[i, i + j]",
        "s += x[k, j]",
        "s = f(i) if x[i, j] else [k for k in s]\n    while s: pass",
    ],
)
def test_other_loops_are_not(inside):
    assert "_last" not in chunk(inside)


def test_nor_are_those_that_are_not_proved_or_whose_length_is_each_columns():
    assert "_last" not in chunk("s += x[i, j]", verdict="undecided")
    assert "_last" not in chunk("s += x[i, j]", before="s, n = 0, k[j]")
    assert "_last" not in chunk("s += x[i, j]", after="y[j] = i")
    assert "_last" not in chunk("s += x[i, j]", after="if s: y[j] = s")


def column_means(x):
    return np.mean(x, axis=0)


def test_sums_down_columns_side_by_side_go_in_order():
    """Sums in parts would gather along each column: a quarter of the speed. What is left over may be summed in parts."""
    program = qgraph.kernel(backend="cpu")(column_means).plan(np.ones((3, 40))).program
    (task,) = (each for each in program.tasks() if each.axes)
    text = ast.unparse(cpu_chunks.chunk_function(program, task, {})[1].tree)
    together, alone = text.split("for _t in _range(_last, _col1):")
    assert "_column15" in together
    assert "reassociable_add" not in together
    assert "reassociable_add" in alone


CONVERGING = """
import re
import numpy as np
import qgraph
from qgraph.lowering.numba_backend.dead_zero_fills import Library

texts = []
finalize = Library.finalize

def finalized(library):
    finalize(library)
    texts.append(library.get_llvm_str())

Library.finalize = finalized

@qgraph.kernel(backend="cpu")
def sweeps(u, v, most):
    change, done = 1.0, 0
    while change > 0.0 and done < most:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        done += 1
    return change

sweeps(np.ones((9, 9), np.float32), np.ones((9, 9), np.float32), 3)
print(len(re.findall(r"fcmp .*<[0-9]+ x float>", "".join(texts))) > 0)
"""


def test_a_sweep_with_a_reduction_is_vectorised(tmp_path):
    # What the passes of the highest level hand from one iteration to the next keeps them from it.
    assert printed_by(CONVERGING, tmp_path, NUMBA_OPT="3", QGRAPH_CACHE="0").strip() == "True"

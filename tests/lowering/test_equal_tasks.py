"""Equal loops are one kernel, and only equal ones: the entry of each task tells."""

from __future__ import annotations

import ast

import numpy as np

import qgraph
from qgraph.lowering.compile import compile_ptx
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

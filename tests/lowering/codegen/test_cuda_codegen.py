"""The kernels of loops of several axes, and of those that call functions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cuda_codegen import Kernels
from qgraph.lowering.ptx.ptx_rewrite import parameters_kept, without_unread_parameters
from qgraph.lowering.scalar_types import scalar_types


def by_rows(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] += y[i, j]


def heavy(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        while x[i, j] < y[i, j]:
            x[i, j] += 1


def in_tiles(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] = y[j, i]


@pytest.mark.parametrize(("function", "plane"), [(by_rows, "rows"), (heavy, "rows"), (in_tiles, "tiles")])
def test_places_take_no_division_and_extents_have_32_bits(function, plane):
    x, y = (np.zeros((n, n), np.float32) for n in (8, 9))
    kernel = qgraph.kernel(function)
    plan = kernel.plan(x, y)
    assert next(Kernels(plan, None, {}).of(plan.nodes[0]))[1].plane == plane
    (ptx,) = kernel.ptx(x, y).values()
    assert not re.search(r"\b(div|rem)\.", ptx)
    if function is not heavy:
        # The second extent of an array in C order is its stride: the last of 5 words and 2 extents.
        assert {"6", "15"} <= short_parameters(ptx)


def short_parameters(ptx):
    """The numbers of the parameters of which a kernel looks at 32 bits."""
    short = set(re.findall(r"ld\.param\.u32\s+%\w+, \[\w+_param_(\d+)\]", ptx))
    for register, number in re.findall(r"ld\.param\.u64\s+(%\w+), \[\w+_param_(\d+)\]", ptx):
        uses = re.findall(rf"^.*{register}\b.*$", ptx, re.M)[1:]
        narrow = rf"and\.b64\s+%\w+, {register}, 4294967295|cvt\.u32\.u64\s+%\w+, {register};"
        if all(re.search(narrow, use) for use in uses):
            short.add(number)
    return short


def test_strides_have_64_bits():
    x = np.zeros((8, 8), np.float32)[::-1, ::2]
    (ptx,) = qgraph.kernel(by_rows).ptx(x, x.copy()).values()
    wide = set(re.findall(r"ld\.param\.u64\s+%\w+, \[\w+_param_(\d+)\]", ptx))
    assert {"4", "7", "8", "13"} <= wide - short_parameters(ptx)


def test_parameters_that_nobody_reads_are_left_out():
    x = np.zeros((8, 8), np.float32)
    kernel = qgraph.kernel(by_rows)
    # Arrays of one shape have one row length.
    for y, expected in ((x[:4].copy(), (4, 6, 13, 15, 18, 19, 20)), (x.copy(), (4, 6, 13, 18, 19, 20))):
        (ptx,) = kernel.ptx(x, y).values()
        kept = parameters_kept(ptx)
        assert kept == expected
        assert {int(number) for number in re.findall(r"\[\w+_param_(\d+)\]", ptx)} == {*kept}


def test_no_parameter_at_all():
    ptx = ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .align 8 .b8 k_param_1[16]\n)\n.maxntid 1\n{\n\tret;\n}\n"
    assert parameters_kept(ptx) == (0, 1)
    assert parameters_kept(without_unread_parameters(ptx)) == ()
    read = ptx.replace("ret;", "ld.param.u64 %rd1, [k_param_1+8];\n\tret;")
    assert parameters_kept(without_unread_parameters(read)) == (1,)
    assert ".maxntid 1" in without_unread_parameters(read)


def in_place(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] = x[i, j] * 2 + y[i, j]


def elsewhere(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] = y[i, j] * 2


def back_and_forth(x, y):
    for _ in qgraph.serial(range(9)):
        for i, j in qgraph.ndrange(*x.shape):
            y[i, j] = x[i, j] * 2
        x, y = y, x


def back_and_forth_in_place(x, y):
    for _ in qgraph.serial(range(9)):
        for i, j in qgraph.ndrange(*x.shape):
            y[i, j] += x[i, j] * 2
        x, y = y, x


@pytest.mark.parametrize(
    ("function", "several"),
    [(in_place, False), (elsewhere, True), (back_and_forth, True), (back_and_forth_in_place, False)],
)
def test_rows_that_read_what_they_write_have_a_thread_each(function, several):
    x = np.zeros((8, 8), np.float32)
    plan = qgraph.kernel(function).plan(x, x.copy())
    (loop,) = (node for node in plan.nodes if node.task is not None and node.task.axes)
    codes = [code for _, code, _ in Kernels(plan, None, {}).of(loop)]
    assert {code.several for code in codes} == {several}
    # The kernel of copies has the launch shape of the other one.
    assert len(codes) == 1 + bool(codes[0].task.selections)
    assert len({(code.plane, code.counts, code.reduces, code.stores) for code in codes}) == 1


def greatest(x, y):
    most = 0.0
    for i, j in qgraph.ndrange(*x.shape):
        most = max(most, y[i, j])
    return most


def greatest_of_sweeps(x, y):
    most = 1.0
    while most > 0.5:
        most = 0.0
        for i, j in qgraph.ndrange(*x.shape):
            y[i, j] = x[i, j] * 0.5
            most = max(most, y[i, j])
        x, y = y, x
    return most


@pytest.mark.parametrize(("function", "stores"), [(greatest, False), (greatest_of_sweeps, True), (by_rows, True)])
def test_who_stores_in_arrays_of_the_call(function, stores):
    plan = qgraph.kernel(function).plan(np.zeros((8, 8)), np.zeros((8, 8)))
    loops = [node for node in plan.nodes if node.task is not None and node.task.axes]
    kernels = Kernels(plan, None, scalar_types(plan.program))
    codes = [code for loop in loops for _, code, _ in kernels.of(loop)]
    # What ends a turn is one block, which only combines.
    assert {code.stores for code in codes if code.handed != "end"} == {stores}


@qgraph.func
def long_one(x, i):
    a = x[i]
    b = a * 2 + a * 3 + a * 4 + a * 5 + a * 6 + a * 7 + a * 8 + a * 9 + a * 10 + a * 11 + a * 12 + a * 13
    c = b * 2 + b * 3 + b * 4 + b * 5 + b * 6 + b * 7 + b * 8 + b * 9 + b * 10 + b * 11 + b * 12 + b * 13
    return c * 2 + c * 3 + c * 4 + c * 5 + c * 6 + c * 7 + c * 8 + c * 9 + c * 10 + c * 11 + c * 12


@qgraph.func
def short_one(x, i):
    return x[i] + 1


def calls_long(x, y):
    for i in range(x.shape[0]):
        x[i] = long_one(y, i)


def calls_short(x, y):
    for i in range(x.shape[0]):
        x[i] = short_one(y, i)


@pytest.mark.parametrize(("function", "light"), [(calls_long, False), (calls_short, True)])
def test_what_a_loop_calls_counts(function, light):
    plan = qgraph.kernel(function).plan(np.zeros(8), np.zeros(8))
    assert next(Kernels(plan, None, {}).of(plan.nodes[0]))[1].several == light

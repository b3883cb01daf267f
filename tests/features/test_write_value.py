"""``write_value``: the value is in the flag when the call is done, in program order, and the types that it takes."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

DTYPES = ["int32", "int64", "uint32", "uint64"]
READY = 7


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant(check, dtype):
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] += 1.0
        qgraph.write_value(flag, READY)

    check(kernel, lambda: (np.arange(5.0), np.zeros(1, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_a_type(check, dtype):
    low, high = (int(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))

    def kernel(first, second):
        qgraph.write_value(first, low)
        qgraph.write_value(second, high)

    check(kernel, lambda: (np.ones(1, dtype), np.ones(1, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_argument(rig, dtype):
    def kernel(flag, n):
        qgraph.write_value(flag, n)

    run, flag = rig.kernel(kernel), rig.device(np.zeros(1, dtype))
    for number in (3, 4, 5):
        run(flag, np.dtype(dtype).type(number))
        assert qgraph.to_numpy(flag)[0] == number


def test_a_python_int(check):
    def kernel(flag, n):
        qgraph.write_value(flag, n)

    check(kernel, lambda: (np.zeros(1, np.int64), -5))


def test_arrays_of_several_axes(check):
    def kernel(flag, other):
        qgraph.write_value(flag, 1)
        qgraph.write_value(other, -1)

    check(kernel, lambda: (np.zeros((1, 1), np.int32), np.zeros((1, 1, 1), np.int64)))


def test_it_stands_in_program_order(check):
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] = flag[0]
        qgraph.write_value(flag, 3)
        for i in range(x.shape[0]):
            x[i] += 10 * flag[0]
        flag[0] += 1
        qgraph.write_value(flag, 9)

    check(kernel, lambda: (np.zeros(5, np.int64), np.ones(1, np.int64)))


def test_in_a_func_and_another_flag_each_call(rig):
    @qgraph.func
    def done(x, flag):
        for i in range(x.shape[0]):
            x[i] = 1.0
        qgraph.write_value(flag, 1)

    def kernel(x, flag):
        done(x, flag)

    run, x = rig.kernel(kernel), rig.device(np.zeros(4))
    flags = [rig.device(np.zeros(1, np.int32)) for _ in range(4)]
    for number, flag in enumerate(flags, 1):
        run(x, flag)
        assert [int(qgraph.to_numpy(each)[0]) for each in flags] == [1] * number + [0] * (4 - number)


def test_of_two_flags_in_one_memory_the_later_write_stays(rig):
    def kernel(first, second):
        qgraph.write_value(first, 1)
        qgraph.write_value(second, 2)

    flag = rig.device(np.zeros(1, np.int32))
    rig.kernel(kernel)(flag, flag)
    assert qgraph.to_numpy(flag)[0] == 2


@pytest.mark.needs("compiler")
def test_it_comes_after_all_writes_and_before_later_ones():
    def kernel(x, y, z, flag):
        for i in range(x.shape[0]):
            x[i] = 1.0 + y[i]
        qgraph.write_value(flag, 1)
        for i in range(x.shape[0]):
            y[i] = 0.0
        for i in range(x.shape[0]):
            z[i] = x[i]

    arrays = (np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(1, np.int32))
    plan = qgraph.kernel(kernel).plan(*arrays)
    assert [node.kind for node in plan.nodes] == ["kernel", "write", "memset", "memcpy"]
    assert plan.edges == ((0, 1), (1, 2), (1, 3))
    assert "n1 write 1 to flag  [line" in str(plan)
    assert "after n0: reads x, which n0 writes" in str(qgraph.kernel(kernel).explain(*arrays))


def test_loops_around_it_are_not_joined(check):
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] += 1.0
        qgraph.write_value(flag, 1)
        for i in range(x.shape[0]):
            x[i] *= 2.0

    fused = check(kernel, lambda: (np.arange(5.0), np.zeros(1, np.int32)), fuse=True)
    assert [node.kind for node in fused.plan(np.zeros(5), np.zeros(1, np.int32)).nodes] == ["kernel", "write", "kernel"]


@pytest.mark.needs("compiler")
def test_a_kernel_with_it_is_not_one_block():
    def kernel(x, flag):
        for i in range(x.shape[0]):
            x[i] += 1.0
        for i in range(1):
            x[i] += 1.0
        qgraph.write_value(flag, 1)

    plan = qgraph.kernel(fuse=True)(kernel).plan(np.zeros(4), np.zeros(1, np.int32))
    assert "not one block: it writes a value for who watches it at line" in str(plan)


def test_plain_python_wants_a_flag_of_one_element():
    with pytest.raises(qgraph.ArgumentError, match="no array of one element"):
        qgraph.write_value(np.zeros(2, np.int32), 1)
    flag = np.zeros((), np.int32)
    qgraph.write_value(flag, 4)
    assert flag == 4

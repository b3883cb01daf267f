"""Loops that lanes share: which element each lane reads when, how many lanes there are, and what becomes of it in PTX."""

from __future__ import annotations

import operator
import re

import numpy as np
import pytest

import qgraph
from qgraph.ir.functions import Function
from qgraph.lowering.codegen.cooperative_rows import STARTS
from qgraph.lowering.codegen.cuda_codegen import Kernels
from qgraph.lowering.codegen.generated_names import GUARD, NEXT, SLOTS, generated
from qgraph.lowering.codegen.task_codegen import parameters_of
from qgraph.lowering.numba_backend.simt_interpreter import Barriers, Threads
from qgraph.lowering.number_types.typing_contexts import python_function
from qgraph.operations import intrinsics
from qgraph.runtime.graph.launch_shapes import threads_per_row
from qgraph.source import copied

CUDA = object()
LENGTHS = [40, 0, 1, 130, 3, 64, 5]


def csr(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


def arguments(dtype=np.int32, first=0):
    """A matrix; ``first`` is where its first row starts, counted from the end where that is negative."""
    total = sum(LENGTHS)
    starts = np.cumsum([first, *LENGTHS]).astype(dtype)
    values = np.arange(1.0, total + 1, dtype=np.float32)
    return np.full(len(LENGTHS), 77, np.float32), values, np.zeros(total, np.int32), starts, np.ones(3, np.float32)


def strictly_at_least(value, bound):
    assert value >= bound
    return value


def word(value):
    assert 0 <= value < 2**31
    return np.uint32(value)


class Watched(np.ndarray):
    """An array that notes who reads which element."""

    def __getitem__(self, place):
        self.read.append((self.threads.threadIdx.x, int(place)))
        return super().__getitem__(place)


def run(function, arrays, lanes, groups, threads):
    """Run the one kernel of ``function`` in blocks of so many lanes and groups, on ``arrays`` by name."""
    plan = qgraph.kernel(function).plan(*(np.asarray(each) for each in arrays.values()))
    ((_, code, made),) = Kernels(plan, CUDA, {}).of(plan.nodes[0])
    assert code.lanes
    words = {"_cuda": threads, "_wide": int, "_assume_ge": strictly_at_least, "_word": word}
    names = {**made.names, **words, **Barriers.NAMES}
    tree = Barriers(CUDA, {**made.names, "_cuda": CUDA}).visit(copied(made.tree))
    kernel = python_function(Function(made.name, tree, names, made.file))
    rows = len(next(iter(arrays.values())))
    host = {value.name: rows for value in plan.program.host_values}
    parameters = [arrays.get(each.name, host.get(each.name, 0)) for each in code.parameters]
    threads.run(kernel, -(-rows // groups), (lanes, groups), parameters)


def launch(lanes, groups, dtype=np.int32, first=0):
    """The answer, and what the lanes of each group read of ``values``, block by block."""
    y, *others = arguments(dtype, first)
    threads = Threads()
    watched = others[0].view(Watched)
    watched.read, watched.threads = [], threads
    given = dict(zip(("y", "values", "columns", "starts", "x"), (y, watched, *others[1:]), strict=True))
    run(csr, given, lanes, groups, threads)
    return y, watched.read


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("groups", [1, 2, 3, 8])
def test_every_element_is_read_by_its_lane(lanes, groups):
    y, read = launch(lanes, groups)
    starts = arguments()[3]
    expected = np.add.reduceat(np.append(arguments()[1], 0), starts[:-1]) * (np.array(LENGTHS) > 0)
    assert y.tolist() == expected.tolist()
    for start, stop in zip(starts, starts[1:], strict=False):
        mine = {(lane, place) for lane, place in read if start <= place < stop}
        # The last one is read again by lanes that have no more.
        assert {(lane, place) for lane, place in mine if place < stop - 1} == {
            ((place - start) % lanes, place) for place in range(start, stop - 1)
        }
        assert start == stop or (((stop - 1 - start) % lanes, stop - 1)) in mine


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("lanes", [2, 32])
def test_places_may_count_from_the_end(dtype, lanes):
    total = sum(LENGTHS)
    for first in (-total, -total + 1, -100, -1):
        y, _ = launch(lanes, 2, dtype, first)
        starts = arguments(dtype, first)[3]
        places = [np.arange(start, stop) for start, stop in zip(starts, starts[1:], strict=False)]
        assert y.tolist() == [arguments()[1][each].sum() for each in places]


def in_turn(y, a, b):
    n = a.shape[1]
    for i in range(a.shape[0]):
        first = a[i, 0]
        for k in range(n):
            a[i, k] = a[i, k] + y[i]
        for k in range(n):
            b[i, k] = a[i, n - 1 - k] * first
        most = b[i, 0]
        for k in range(n):
            most = max(most, b[i, k])
        y[i] = most + y[i]
        for k in range(n):
            a[i, k] = y[i] - k


@pytest.mark.parametrize("lanes", [1, 2, 8, 32, 64, 128])
@pytest.mark.parametrize("groups", [1, 3])
def test_lanes_see_what_others_store(lanes, groups):
    """Each runs on until it meets the others: no one reads too early, or stores too early."""
    made = {"y": np.arange(1.0, 6.0), "a": np.arange(5 * 70.0).reshape(5, 70) % 13, "b": np.full((5, 70), 77.0)}
    expected = {name: each.copy() for name, each in made.items()}
    in_turn(**expected)
    run(in_turn, made, lanes, groups, Threads())
    for name, each in made.items():
        assert each.tolist() == expected[name].tolist()


def test_bounds_of_32_bits_are_counted_in_32():
    for dtype, narrow in [(np.int32, True), (np.uint16, True), (np.int64, False), (np.uint32, False)]:
        plan = qgraph.kernel(csr).plan(*arguments(dtype))
        ((_, code, _),) = Kernels(plan, None, {}).of(plan.nodes[0])
        assert ("_word" in code.source) is narrow


def test_a_group_without_an_iteration_reads_no_inner_one():
    _, read = launch(2, 8)
    last = [place for _, place in read if place >= arguments()[3][-2]]
    # Two lanes, four each, of five elements: one turn.
    assert len(last) == 8


@pytest.mark.parametrize(
    ("inside", "threads", "lanes"),
    [(0, 256, 1), (11, 256, 1), (12, 256, 8), (22, 256, 8), (23, 256, 16), (32, 256, 16), (45, 256, 16), (46, 256, 32)]
    + [(1000, 256, 32), (1000, 100, 1), (1000, 16, 1), (1000, 32, 32), (40, 96, 16)],
)
def test_lanes_follow_the_length(inside, threads, lanes):
    for iterations in (1, 7, 1000):
        shape = threads_per_row(iterations, inside, threads)
        assert (shape.threads, shape.threads_down) == (lanes, threads // lanes)
        assert shape.blocks == -(-iterations // shape.threads_down)
        assert (shape.blocks_down, shape.times) == (1, 1)


@pytest.mark.parametrize(
    ("iterations", "inside", "lanes"),
    [(8, 20_000, 1024), (8, 16_383, 512), (8, 1023, 32), (8, 1024, 64), (64, 20_000, 128), (65, 20_000, 64), (256, 20_000, 32)],
)
def test_few_long_rows_have_several_warps(iterations, inside, lanes):
    """``enough`` threads fill the device: as long as there are fewer, and each has sixteen inner iterations or more."""
    shape = threads_per_row(iterations, inside, 256, enough=8192, widest=1024)
    threads = max(256, lanes)
    assert (shape.threads, shape.threads_down) == (lanes, threads // lanes)
    assert shape.blocks == -(-iterations // shape.threads_down)
    assert threads_per_row(iterations, inside, 256, enough=8192, widest=256).threads == min(lanes, 256)
    # Of those whose neighbours read the same sectors no more are wanted.
    assert threads_per_row(iterations, inside, 256, 8, enough=8192, widest=1024).threads == 8


def test_what_no_launch_holds_is_not_shared():
    assert threads_per_row(2**31 * 16, 1000, 256).threads == 1


def test_loads_of_a_lane_are_on_the_way_together():
    (ptx,) = qgraph.kernel(csr).ptx(*arguments()).values()
    blocks = re.split(r"^\$L\w+:|^\s+@%p\d+ bra.*$", ptx, flags=re.M)
    # Of the shared loop: values, columns and the vector.
    assert max(block.count("ld.global.nc") for block in blocks if "min.s64" in block or "min.u" in block) == 12
    assert ptx.count("shfl.sync.bfly.b32") == 1
    assert ".local" not in ptx


WORDS = {"int8": 1, "uint16": 1, "float16": 1, "int64": 2, "float64": 2, "complex64": 2, "complex128": 4}


@pytest.mark.parametrize(("dtype", "words"), WORDS.items())
def test_numbers_of_all_types_are_shuffled(dtype, words):
    def kernel(y, a):
        for i in range(a.shape[0]):
            s = a[i, 0]
            for k in range(a.shape[1]):
                s += a[i, k]
            y[i] = s

    (ptx,) = qgraph.kernel(kernel).ptx(np.zeros(4, dtype), np.zeros((4, 30), dtype)).values()
    assert ptx.count("shfl.sync.bfly.b32") == words


def test_joined_loops_are_shared():
    def kernel(y, z, a):
        for i in range(a.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k]
            y[i] = s
        for i in range(a.shape[0]):
            z[i] = y[i]

    given = np.zeros(5), np.zeros(5), np.zeros((5, 30))
    for fuse in (False, True):
        plan = qgraph.kernel(kernel, fuse=fuse).plan(*given)
        assert "share it" in str(plan)
        codes = [code for node in plan.nodes for _, code, _ in Kernels(plan, None, {}).of(node)]
        assert sum(bool(code.lanes) for code in codes) == 1
        assert len(codes) == 2 - fuse


def test_plans_and_explanations_say_so():
    args = arguments()
    line = csr.__code__.co_firstlineno + 3
    text = f"the loop at line {line} only combines values in `s`: up to 32 threads share it where it is long"
    assert text in str(qgraph.kernel(csr).plan(*args))
    assert text in str(qgraph.kernel(csr).explain(*args))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_a_literal_start_stays_as_narrow_as_what_is_added(dtype):
    def kernel(y, a):
        for i in range(a.shape[0]):
            s = 0
            for k in range(a.shape[1]):
                s += a[i, k]
            y[i] = s

    (ptx,) = qgraph.kernel(kernel).ptx(np.zeros(3), np.zeros((3, 40), dtype)).values()
    assert ptx.count("shfl.sync.bfly.b32") == 1


def test_generated_code_never_assigns_to_its_parameters():
    """A local of that name would take the place of the parameter, which only a launch on CUDA shows."""
    plan = qgraph.kernel(csr).plan(*arguments())
    for parameter in (NEXT, SLOTS, GUARD):
        with pytest.raises(AssertionError, match=parameter.name):
            parameters_of(plan.program, generated(f"{parameter.name} = 1"))
    assert parameters_of(plan.program, generated(f"_inside = {NEXT.name}")) == (NEXT,)


@pytest.mark.parametrize("value", [np.int8(-7), np.uint64(6), np.float32(-0.0), np.float64(2.5)], ids=repr)
def test_lanes_start_from_what_changes_nothing(value):
    functions = {"+": operator.add, "*": operator.mul, "^": operator.xor}
    assert STARTS.keys() == functions.keys()
    for symbol, word in STARTS.items():
        if symbol == "^" and value.dtype.kind == "f":
            continue
        start = getattr(intrinsics, word.removeprefix("_"))(value)
        combined = functions[symbol](start, value)
        assert (combined, np.signbit(combined)) == (value, np.signbit(value)), symbol

"""Work that grows with the length of the code, and no faster: calls, functions and instructions are counted, not seconds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba.core import cgutils

import qgraph
from benchmarks.long_kernels import KINDS, arrays, long_function
from qgraph.frontend.inference import ranks
from qgraph.ir.functions import Function, ParallelFunction, SeparateFunction
from qgraph.lowering.codegen import cpu_codegen
from qgraph.lowering.numba_backend import cpu
from qgraph.lowering.numba_backend.dead_zero_fills import drop_dead_zeros
from qgraph.lowering.scalar_types import scalar_types

# How much more work twice the length may be; of compiling, which is counted at shorter lengths, less.
TWICE = 2.3
TWICE_COMPILED = 2.15
# What takes more: `explain` compares the accesses of loops that `fuse=True` would join, and each branch looks at those in it.
PAIRWISE = {"equal_loops", "branches"}


def calls_of(action: Callable[[], object]) -> int:
    """The calls of Python functions that ``action`` makes."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - PAIRWISE))
def test_a_plan_of_twice_the_length_is_twice_the_work(kind):
    kernels = [qgraph.kernel(long_function(kind, length)) for length in (3, 40, 80)]
    # The first one imports, and finds what does not change.
    _, once, twice = (calls_of(lambda kernel=kernel: str(kernel.explain(*arrays()).plan)) for kernel in kernels)
    assert twice < TWICE * once


@pytest.mark.parametrize(("kind", "length"), [("terms", 120), ("loops", 12)])
@pytest.mark.parametrize("step", ["ptx", "__call__"])
@pytest.mark.needs("compiler")
def test_compiling_twice_the_length_is_twice_the_work(kind, length, step):
    counts = []
    # The first one imports, and finds what does not change.
    for each in (3, length, 2 * length):
        cpu.forget()
        kernel = qgraph.kernel(backend="cpu")(long_function(kind, each))
        counts.append(calls_of(lambda kernel=kernel: getattr(kernel, step)(*arrays())))
    assert counts[2] < TWICE_COMPILED * counts[1]


def control(kind: str, length: int) -> Function:
    program = qgraph.kernel(long_function(kind, length)).plan(*arrays()).program
    return cpu_codegen.control_function(program, scalar_types(program))[1]


def functions_of(function: Function, seen: dict[int, Function] | None = None) -> dict[int, Function]:
    """``function`` and all that it calls."""
    seen = {} if seen is None else seen
    if id(function) not in seen:
        seen[id(function)] = function
        for value in function.names.values():
            inner = value.function if isinstance(value, (ParallelFunction, SeparateFunction)) else value
            if isinstance(inner, Function):
                functions_of(inner, seen)
    return seen


def task_calls(function: Function) -> int:
    named = {
        name for name, value in function.names.items() if isinstance(value, (Function, ParallelFunction, SeparateFunction))
    }
    calls = (node.func for node in ast.walk(function.tree) if isinstance(node, ast.Call))
    return sum(isinstance(func, ast.Name) and func.id in named - {"_split"} for func in calls)


@pytest.mark.parametrize("kind", ["loops", "equal_loops", "device_loops", "branches", "scalars", "serial_statements"])
def test_no_function_is_long_however_long_the_kernel_is(kind):
    found = [functions_of(control(kind, length)) for length in (64, 128)]
    for functions in found:
        # A loop that sums up is two calls, and one around others has two of its own.
        assert max(map(task_calls, functions.values())) <= 3 * cpu_codegen.MAX_CALLS
    nodes = [sum(len(list(ast.walk(function.tree))) for function in functions.values()) for functions in found]
    assert nodes[1] < TWICE * nodes[0]


def test_a_short_kernel_is_one_function():
    names = control("loops", cpu_codegen.MAX_CALLS).names.values()
    assert not any(isinstance(value, SeparateFunction) for value in names)
    assert any(isinstance(value, SeparateFunction) for value in control("loops", cpu_codegen.MAX_CALLS + 1).names.values())


@pytest.fixture
def compiled(monkeypatch) -> list[Any]:
    """The functions that Numba compiled for the CPU since the test began."""
    cpu.forget()
    found, compile_ = [], cpu._compile
    monkeypatch.setattr(cpu, "_compile", lambda *args, **options: (found.append(args[1]), compile_(*args, **options))[1])
    return found


# Both are longer than one function may be.
@pytest.mark.parametrize(("kind", "length", "most"), [("equal_loops", 96, 8), ("loops", 40, 40 + 8)])
def test_each_loop_is_compiled_once_and_equal_ones_together(compiled, kind, length, most):
    function, (x, y) = long_function(kind, length), arrays()
    expected = arrays()
    function(*expected)
    qgraph.kernel(backend="cpu")(function)(x, y)
    np.testing.assert_array_equal([x, y], expected)
    assert len(compiled) <= most


def two_alike(a, b, c, d):
    for i in range(a.shape[0]):
        b[i] = a[i] * 2
    for i in range(c.shape[0]):
        d[i] = c[i] * 2


def test_a_loop_over_arrays_that_share_memory_has_code_of_its_own():
    """What is compiled for arrays that share nothing may be wrong for those that do."""

    def loops(*args: np.ndarray) -> list[ParallelFunction]:
        program = qgraph.kernel(two_alike).plan(*args).program
        names = cpu_codegen.control_function(program, {})[1].names
        return [value for value in names.values() if isinstance(value, ParallelFunction)]

    apart, same = [np.zeros(3) for _ in range(4)], np.zeros(3)
    first, second = loops(*apart)
    assert first is second
    first, second = loops(*apart[:2], same, same)
    assert (first.disjoint, second.disjoint) == (True, False)


def test_the_rank_of_each_part_of_an_expression_is_found_once(monkeypatch):
    found, rank = [], ranks._rank
    monkeypatch.setattr(ranks, "_rank", lambda *args: (found.append(args[1]), rank(*args))[1])
    qgraph.kernel(long_function("array_terms", 100)).plan(*arrays())
    assert len(found) < 20 * 100


def test_a_callback_that_raises_ends_a_kernel_of_many_parts():
    calls: list[int] = []

    def failing(value: float) -> None:
        calls.append(int(value))
        if value == 7:
            raise ValueError("seven")

    lines = [line for k in range(60) for line in (f"    x[0] = {k}", "    qgraph.host_callback(failing, x[0])")]
    kernel = qgraph.kernel(backend="cpu")(made("def long(x):", lines, failing=failing))
    x = np.zeros(1)
    with pytest.raises(ValueError, match="seven"):
        kernel(x)
    assert (calls, x[0]) == ([*range(8)], 7)


def made(head: str, lines: list[str], **names: object) -> Callable[..., Any]:
    import linecache

    source = "\n".join([head, *lines]) + "\n"
    linecache.cache["<made>"] = (len(source), None, source.splitlines(keepends=True), "<made>")
    known: dict[str, Any] = {"qgraph": qgraph, "__name__": "made", **names}
    exec(compile(source, "<made>", "exec"), known)
    function: Callable[..., Any] = known["long"]
    return function


# --- zeros that nothing reads -------------------------------------------------------------------------------------------

DOUBLE = ir.DoubleType()
PAIR = ir.LiteralStructType([DOUBLE, DOUBLE])


@pytest.fixture
def builder() -> ir.IRBuilder:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [PAIR, ir.IntType(1)]), "function")
    return ir.IRBuilder(function.append_basic_block("entry"))


def stores(builder: ir.IRBuilder) -> list[ir.Instruction]:
    return list(_stores(builder.function))


def _stores(function: ir.Function) -> Iterator[ir.Instruction]:
    for block in function.blocks:
        yield from (each for each in block.instructions if isinstance(each, ir.instructions.StoreInstr))


def test_zeros_that_are_overwritten_first_go(builder):
    place = cgutils.alloca_once(builder, PAIR, zfill=True)
    builder.store(builder.function.args[0], place)
    builder.load(place)
    builder.ret_void()
    assert len(stores(builder)) == 3
    drop_dead_zeros(builder.module)
    assert [store.operands[0] for store in stores(builder)] == [builder.function.args[0]]


def test_zeros_that_are_read_stay(builder):
    place = cgutils.alloca_once(builder, PAIR)
    builder.load(place)
    builder.store(builder.function.args[0], place)
    builder.ret_void()
    drop_dead_zeros(builder.module)
    assert len(stores(builder)) == 2


def test_zeros_of_a_part_and_of_what_one_path_overwrites_stay(builder):
    place = cgutils.alloca_once(builder, PAIR)
    other = cgutils.alloca_once(builder, PAIR)
    # A part of one of them only; the other one on one path only.
    builder.store(ir.Constant(DOUBLE, 1.0), cgutils.gep_inbounds(builder, place, 0, 0))
    with builder.if_then(builder.function.args[1]):
        builder.store(builder.function.args[0], other)
    builder.load(place)
    builder.load(other)
    builder.ret_void()
    before = len(stores(builder))
    drop_dead_zeros(builder.module)
    assert len(stores(builder)) == before


def test_zeros_of_a_variable_whose_address_is_stored_stay(builder):
    place = cgutils.alloca_once(builder, PAIR)
    builder.store(place, cgutils.alloca_once(builder, PAIR.as_pointer()))
    builder.store(builder.function.args[0], place)
    builder.ret_void()
    drop_dead_zeros(builder.module)
    assert sum(store.operands[1] is place for store in stores(builder)) == 2


def test_zeros_before_a_phi_of_the_address_stay(builder):
    place, other = (cgutils.alloca_once(builder, PAIR) for _ in range(2))
    entry, after = builder.block, builder.append_basic_block("after")
    builder.branch(after)
    builder.position_at_end(after)
    which = builder.phi(PAIR.as_pointer())
    which.add_incoming(place, entry)
    builder.load(which)
    builder.store(builder.function.args[0], place)
    builder.store(builder.function.args[0], other)
    builder.ret_void()
    drop_dead_zeros(builder.module)
    assert [store.operands[1] for store in stores(builder)] == [place, place, other]


def test_no_array_is_filled_with_zeros_at_each_subscript(monkeypatch):
    """LLVM needs time that grows with a power of their number for these."""
    filled: list[int] = []

    def noted(module: Any) -> None:
        drop_dead_zeros(module)
        filled.extend(
            sum(
                isinstance(store.operands[0], ir.Constant) and store.operands[0].constant is None for store in _stores(function)
            )
            for function in module.functions
        )

    monkeypatch.setattr("qgraph.lowering.numba_backend.dead_zero_fills.drop_dead_zeros", noted)
    cpu.forget()
    qgraph.kernel(backend="cpu")(long_function("terms", 90))(*arrays())
    assert 0 < max(filled) < 40

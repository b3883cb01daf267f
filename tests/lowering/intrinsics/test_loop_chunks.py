"""The LLVM function that cuts loops into chunks gives what its plain-Python meaning gives."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from llvmlite import ir

from qgraph.lowering.intrinsics import loop_chunks
from qgraph.operations import intrinsics

pytestmark = pytest.mark.needs("compiler")
I64 = ir.IntType(64)


@pytest.fixture(scope="module")
def compiled():
    """The function, called through memory: machine code of it, for this processor."""
    module = ir.Module()
    called = loop_chunks._function(module)
    assert loop_chunks._function(module) is called
    outer = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [I64, I64, I64, I64, called.ftype.return_type.as_pointer()]), "outer"
    )
    builder = ir.IRBuilder(outer.append_basic_block())
    builder.store(builder.call(called, outer.args[:4]), outer.args[4])
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    engine = llvm.create_mcjit_compiler(parsed, llvm.Target.from_default_triple().create_target_machine())
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4, ctypes.POINTER(ctypes.c_int64))(
        engine.get_function_address("outer")
    )

    def split(*given):
        found = (ctypes.c_int64 * 3)()
        function(*given, found)
        return tuple(found)

    yield split
    del engine


SIZES = st.one_of(st.integers(0, 100), st.integers(0, 1 << 29))


@given(SIZES, SIZES, st.one_of(st.integers(1, 300), st.just(1 << 62)), st.sampled_from([2, 8, 64]))
@example(rows=1, cols=100, grain=100, most=64)
@example(rows=1, cols=101, grain=100, most=64)
def test_it_is_what_python_says(compiled, rows, cols, grain, most):
    assert compiled(rows, cols, grain, most) == intrinsics.split_rows(rows, cols, grain, most)

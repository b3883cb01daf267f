"""Parallel loops in CPU code: the function of a chunk is called for each chunk number, on Numba's threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import Status, excinfo_ptr_t
from numba.core.typing import signature
from numba.np.arrayobj import populate_array

from qgraph.compat import numba
from qgraph.ir.functions import ParallelFunction
from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.numba_backend.cpu_runtime import ALONE
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain
from qgraph.records import dataclass

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_BYTES = _I8.as_pointer()
# What a chunk knows of an array. Its strides could be computed from its shape, but LLVM then makes slower loops.
_FIELDS = ("data", "shape", "strides")
# Where in what goes to the threads is how a chunk failed, what the scheduler reads, and the operands.
_CODE, _ERROR, _SCHEDULED, _OPERANDS = 0, 1, 2, 5


def parallel_word(parallel: ParallelFunction) -> Intrinsic:
    """The Numba type of a ``ParallelFunction``: ``f(chunks, *args)``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        operands = tuple(plain(arg) for arg in args[1:])
        function = context.function_word(parallel.function)
        context.resolve_function_type(function, (types.intp, *operands), {})
        return signature(types.none, types.intp, *operands)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        function = context.typing_context.function_word(parallel.function)
        callee = signature(types.none, types.intp, *sig.args[1:])
        _emit_parallel(context, builder, _Callee(context, function, callee), args)
        return context.get_dummy_value()

    return Intrinsic(parallel.function.name, typer, emit)


@dataclass(frozen=True, slots=True)
class _Callee:
    """The compiled function of a chunk."""

    context: Any
    function: Any
    signature: Any

    @property
    def _descriptor(self) -> Any:
        return self.context.typing_context.session.descriptors[self.function.get_impl_key(self.signature)]

    @property
    def name(self) -> str:
        """What LLVM calls it."""
        name: str = self._descriptor.mangled_name
        return name

    def call(self, builder: Any, args: Sequence[ir.Value]) -> Any:
        """Call it, and go on whatever happens; returns the status."""
        return self.context.call_internal_no_propagate(builder, self._descriptor, self.signature, args)[0]


def _emit_parallel(context: Any, builder: Any, callee: _Callee, args: Sequence[ir.Value]) -> None:
    """Call the worker on Numba's threads over the chunk numbers; here one chunk, and all where threads were left behind."""
    chunks, one = args[0], ir.Constant(_I64, 1)
    kinds = callee.signature.args[1:]
    operands = [part for kind, value in zip(kinds, args[1:], strict=True) for part in _parts(context, builder, kind, value)]
    # The scheduler only adds step * chunk to the base pointer: from null, the pointer is the chunk's number.
    scheduled = (ir.Constant(_BYTES, None), chunks, one)
    values = (ir.Constant(_I32, 0), ir.Constant(excinfo_ptr_t, None), *scheduled, *operands)
    packed = ir.Constant(ir.LiteralStructType([value.type for value in values]), ir.Undefined)
    for index, value in enumerate(values):
        packed = builder.insert_value(packed, value, index)
    # In the entry block: a device loop comes here a million times, and the stack must not grow.
    with builder.goto_entry_block():
        data = builder.alloca(packed.type)
    builder.store(packed, data)
    given = [cgutils.gep_inbounds(builder, data, 0, index) for index in range(_SCHEDULED, _OPERANDS)]
    given.append(builder.bitcast(data, _BYTES))
    worker = _worker(context, builder.module, callee, packed.type)
    alone = cgutils.is_not_null(builder, builder.load(_alone(builder.module)))
    single = builder.icmp_signed("<=", chunks, one)
    with builder.if_else(builder.or_(single, alone)) as (here, on_threads):
        with here:
            builder.call(worker, given)
        with on_threads:
            numba.parallel_for(builder, worker, *given)
    failed = builder.load(cgutils.gep_inbounds(builder, data, 0, _CODE))
    with builder.if_then(cgutils.is_not_null(builder, failed), likely=False):
        # Of several errors nobody knows which is the first.
        with builder.if_then(single):
            told = builder.load(cgutils.gep_inbounds(builder, data, 0, _ERROR))
            status = Status(failed, *[None] * (len(Status._fields) - 2), excinfoptr=told)
            context.call_conv.return_status_propagate(builder, status)
        context.call_conv.return_user_exc(builder, RuntimeError, ("an iteration of a parallel loop failed",))


def _parts(context: Any, builder: Any, kind: Any, value: ir.Value) -> list[ir.Value]:
    """What goes to the threads of an operand: each field of an array is a store more at each call of a loop."""
    if not isinstance(kind, types.Array):
        return [value]
    model = context.data_model_manager[kind]
    return [builder.extract_value(value, model.get_field_position(name)) for name in _FIELDS]


def _value(context: Any, builder: Any, kind: Any, parts: Iterator[ir.Value]) -> ir.Value:
    """The operand with the next of ``parts``. An array holds no memory of its own: whoever calls the loop has it."""
    if not isinstance(kind, types.Array):
        return next(parts)
    itemsize = ir.Constant(_I64, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    fields = dict(zip(_FIELDS, itertools.islice(parts, len(_FIELDS)), strict=True))
    array = context.make_array(kind)(context, builder)
    return populate_array(array, **fields, itemsize=itemsize, meminfo=None)._getvalue()


def _alone(module: ir.Module) -> ir.GlobalVariable:
    """The word that is not 0 where the threads were left behind, by name: code that is kept has no addresses in it."""
    if ALONE in module.globals:
        return module.get_global(ALONE)
    word = ir.GlobalVariable(module, _I64, ALONE)
    word.linkage = "external"
    return word


def _worker(context: Any, module: Any, callee: _Callee, packed_type: Any) -> ir.Function:
    """What a thread runs: the chunk function for each number from the "pointer" on. All calls of a loop share one, the only
    copy of its code."""
    name = f"qgraph_worker.{callee.name}"
    if name in module.globals:
        return module.get_global(name)
    size = _I64.as_pointer()
    worker_type = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), size, size, _BYTES])
    worker = ir.Function(module, worker_type, name)
    worker.linkage = "linkonce_odr"
    builder = ir.IRBuilder(worker.append_basic_block("entry"))
    data = builder.bitcast(worker.args[3], packed_type.as_pointer())
    packed = builder.load(data)
    parts = iter([builder.extract_value(packed, index) for index in range(_OPERANDS, len(packed_type))])
    values = [_value(context, builder, kind, parts) for kind in callee.signature.args[1:]]
    first = builder.ptrtoint(builder.load(worker.args[0]), _I64)
    with cgutils.for_range(builder, builder.load(worker.args[1])) as loop:
        status = callee.call(builder, [builder.add(first, loop.index), *values])
        with builder.if_then(status.is_error, likely=False):
            builder.store(status.code, cgutils.gep_inbounds(builder, data, 0, _CODE))
            builder.store(status.excinfoptr, cgutils.gep_inbounds(builder, data, 0, _ERROR))
    builder.ret_void()
    return worker

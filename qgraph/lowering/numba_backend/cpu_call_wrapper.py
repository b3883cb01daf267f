"""The Python wrapper of a CPU kernel: guards of its arrays, then the compiled code on Numba's threads.

Numba's own wrapper takes a reference for each array, and its dispatcher finds the type of each argument; both take as long as a
short loop. Here Python holds the arguments until the call returns, and what a call like the last one must have is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callwrapper import PyCallWrapper

from qgraph.compat.numpy import CLASS, DATA, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, array_type
from qgraph.lowering.numba_backend.cpu_runtime import LOOKED_AT
from qgraph.lowering.number_types.number_llvm import types

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORDS = _I64.as_pointer()

_ARRAY = array_type()


class Wrapper(PyCallWrapper):
    """What Python calls, with the arguments of the compiled function and the address of ``cpu_runtime.places_of`` words, or 0.

    It returns False, and has done nothing, where its arrays are not those of the words; else True, when the function has run.
    Nobody can change an array in between: the GIL is let go of after the looks, and what was seen is what the function gets.
    """

    def __init__(self, *args: Any, watched: int, **options: Any) -> None:
        """``watched``: how many arguments there are, the first ones, whose arrays the words are about."""
        super().__init__(*args, **options)
        self._watched = watched

    def build_wrapper(self, api: Any, builder: Any, closure: Any, args: Any, kws: Any) -> None:
        """Numba's hook."""
        del closure, kws
        kinds = self.fndesc.argtypes
        failed, another = builder.append_basic_block("failed"), builder.append_basic_block("another")
        with builder.goto_block(failed):
            builder.ret(api.get_null_object())
        with builder.goto_block(another):
            builder.ret(api.bool_from_bool(cgutils.false_bit))
        places = [api.alloca_obj() for _ in range(len(kinds) + 1)]
        parsed = api.unpack_tuple(args, self.fndesc.qualname, len(places), len(places), *places)
        _require(builder, cgutils.is_not_null(builder, parsed), failed)
        *objects, last = [builder.load(place) for place in places]
        address = api.long_as_ulonglong(last)
        _require(builder, builder.icmp_unsigned("!=", address, ir.Constant(address.type, -1)), failed)
        with builder.if_then(cgutils.is_not_null(builder, address)):
            words = builder.inttoptr(address, _WORDS)
            watched = zip(objects[: self._watched], kinds, strict=False)
            _look(builder, [(each, kind.ndim) for each, kind in watched if isinstance(kind, types.Array)], words, another)
        natives = []
        for each, kind in zip(objects, kinds, strict=True):
            native = api.to_native_value(kind, each)
            _require(builder, builder.not_(native.is_error), failed)
            natives.append(native.value)
        state = api.save_thread()
        status, _ = self.context.call_conv.call_function(
            builder, self.func, self.fndesc.restype, kinds, natives, attrs=("noinline",)
        )
        api.restore_thread(state)
        with builder.if_then(status.is_ok, likely=True):
            builder.ret(api.bool_from_bool(cgutils.true_bit))
        self.context.call_conv.raise_error(builder, api, status)
        builder.ret(api.get_null_object())


def _look(builder: Any, arrays: Sequence[tuple[ir.Value, int]], words: ir.Value, another: ir.Block) -> None:
    """Go to ``another`` where not all objects are arrays as the words say: each pair is an object and its dimensions."""
    number = itertools.count()

    def expected(value: ir.Value) -> ir.Value:
        return builder.icmp_signed("==", value, builder.load(cgutils.gep_inbounds(builder, words, next(number))))

    for each, ndim in arrays:
        array = builder.bitcast(each, _ARRAY.as_pointer())
        # Before anything else of it is read. No address stands in the code, which other processes run, too.
        _require(builder, expected(builder.ptrtoint(_field(builder, array, CLASS), _I64)), another)
        same = builder.icmp_signed("==", _field(builder, array, NDIM), ir.Constant(_I32, ndim))
        _require(builder, same, another)
        flags = builder.and_(_field(builder, array, FLAGS), ir.Constant(_I32, LOOKED_AT))
        found = [builder.ptrtoint(_field(builder, array, DTYPE), _I64), builder.zext(flags, _I64)]
        found.append(builder.ptrtoint(_field(builder, array, DATA), _I64))
        for part in (SHAPE, STRIDES):
            start = _field(builder, array, part)
            found += [builder.load(cgutils.gep_inbounds(builder, start, axis)) for axis in range(ndim)]
        same = cgutils.true_bit
        for value in found:
            same = builder.and_(same, expected(value))
        _require(builder, same, another)


def _field(builder: Any, array: ir.Value, number: int) -> ir.Value:
    return builder.load(cgutils.gep_inbounds(builder, array, 0, number))


def _require(builder: Any, condition: ir.Value, otherwise: ir.Block) -> None:
    """Go on where it holds, and to a block where it does not."""
    following = builder.append_basic_block()
    builder.cbranch(condition, following, otherwise)
    builder.position_at_end(following)

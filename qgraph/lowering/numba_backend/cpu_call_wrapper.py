"""The Python wrapper of a CPU kernel: guards of its arrays, then the compiled code on Numba's threads.

Numba's own wrapper takes a reference for each array, and its dispatcher finds the type of each argument; both take as long as a
short loop. Here Python holds the arguments until the call returns, and what a call like the last one must have is known.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callwrapper import PyCallWrapper

from qgraph.compat.numpy import CLASS, DATA, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, array_type
from qgraph.lowering.numba_backend.cpu_runtime import LOOKED_AT
from qgraph.lowering.number_types.number_llvm import types

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORDS = _I64.as_pointer()
_OBJECT = ir.IntType(8).as_pointer()
# Words of an array besides those of its shape and its strides.
_FIXED_WORDS = 4

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
        # What looks at arrays, by their dimensions, and what reads them, by their types.
        self._looking: dict[int, ir.Function] = {}
        self._reading: dict[Any, ir.Function] = {}

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
            number = 0
            for each, kind in zip(objects[: self._watched], kinds, strict=False):
                if isinstance(kind, types.Array):
                    place = cgutils.gep_inbounds(builder, words, number)
                    _require(builder, builder.call(self._look(kind.ndim), [each, place]), another)
                    number += _FIXED_WORDS + 2 * kind.ndim
        natives = []
        for each, kind in zip(objects, kinds, strict=True):
            value, is_error = self._native(api, builder, kind, each)
            _require(builder, builder.not_(is_error), failed)
            natives.append(value)
        state = api.save_thread()
        status, _ = self.context.call_conv.call_function(
            builder, self.func, self.fndesc.restype, kinds, natives, attrs=("noinline",)
        )
        api.restore_thread(state)
        with builder.if_then(status.is_ok, likely=True):
            builder.ret(api.bool_from_bool(cgutils.true_bit))
        self.context.call_conv.raise_error(builder, api, status)
        builder.ret(api.get_null_object())

    def _native(self, api: Any, builder: Any, kind: Any, value: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The value of an object, and whether there is none: then an exception is set."""
        if not isinstance(kind, types.Array):
            native = api.to_native_value(kind, value)
            return native.value, native.is_error
        with builder.goto_entry_block():
            place = builder.alloca(self.context.get_value_type(kind))
        is_error = builder.call(self._read(kind, place.type), [value, place])
        return builder.load(place), is_error

    def _function(self, *operands: ir.Type) -> tuple[ir.Function, Any]:
        """A function that tells yes or no, which is called for each array: it is not compiled once more for each."""
        name = self.module.get_unique_name("qgraph_array")
        function = ir.Function(self.module, ir.FunctionType(ir.IntType(1), operands), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        return function, ir.IRBuilder(function.append_basic_block())

    def _read(self, kind: Any, place: ir.Type) -> ir.Function:
        """Reads an array to where it is told, and tells whether it could not."""
        if kind not in self._reading:
            self._reading[kind], builder = self._function(_OBJECT, place)
            value, target = self._reading[kind].args
            native = self.context.get_python_api(builder).to_native_value(kind, value)
            builder.store(native.value, target)
            builder.ret(native.is_error)
        return self._reading[kind]

    def _look(self, ndim: int) -> ir.Function:
        """Tells whether an object is an array as the words say."""
        if ndim not in self._looking:
            self._looking[ndim], builder = self._function(_OBJECT, _WORDS)
            value, words = self._looking[ndim].args
            self._build_look(builder, value, words, ndim)
        return self._looking[ndim]

    def _build_look(self, builder: Any, value: ir.Value, words: ir.Value, ndim: int) -> None:
        another, number = builder.append_basic_block("another"), itertools.count()
        with builder.goto_block(another):
            builder.ret(cgutils.false_bit)

        def expected(found: ir.Value) -> ir.Value:
            return builder.icmp_signed("==", found, builder.load(cgutils.gep_inbounds(builder, words, next(number))))

        array = builder.bitcast(value, _ARRAY.as_pointer())
        # Before anything else of it is read. No address stands in the code, which other processes run, too.
        _require(builder, expected(builder.ptrtoint(_field(builder, array, CLASS), _I64)), another)
        _require(builder, builder.icmp_signed("==", _field(builder, array, NDIM), ir.Constant(_I32, ndim)), another)
        flags = builder.and_(_field(builder, array, FLAGS), ir.Constant(_I32, LOOKED_AT))
        found = [builder.ptrtoint(_field(builder, array, DTYPE), _I64), builder.zext(flags, _I64)]
        found.append(builder.ptrtoint(_field(builder, array, DATA), _I64))
        for part in (SHAPE, STRIDES):
            start = _field(builder, array, part)
            found += [builder.load(cgutils.gep_inbounds(builder, start, axis)) for axis in range(ndim)]
        builder.ret(functools.reduce(builder.and_, map(expected, found)))


def _field(builder: Any, array: ir.Value, number: int) -> ir.Value:
    return builder.load(cgutils.gep_inbounds(builder, array, 0, number))


def _require(builder: Any, condition: ir.Value, otherwise: ir.Block) -> None:
    """Go on where it holds, and to a block where it does not."""
    following = builder.append_basic_block()
    builder.cbranch(condition, following, otherwise)
    builder.position_at_end(following)

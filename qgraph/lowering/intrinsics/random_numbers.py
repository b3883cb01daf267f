"""The words of ``qgraph.random``: LLVM's builder as the machine that does the steps of ``operations/philox.py``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from llvmlite import ir
from numba.core.datamodel import default_manager, models

from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.ambiguous_integers import bare
from qgraph.lowering.number_types.function_llvm import fused
from qgraph.lowering.number_types.number_llvm import call_external, call_library, types
from qgraph.lowering.number_types.type_promotion import is_integral, plain, without_keyword_only
from qgraph.operations import philox, random_numbers

_WORD, _LONG = ir.IntType(32), ir.IntType(64)
_DISTRIBUTIONS: Mapping[Any, Callable[..., list[ir.Value]]] = {
    random_numbers.uniform: philox.uniform,
    random_numbers.normal: philox.normal,
    random_numbers.exponential: philox.exponential,
}


class RandomWord(Intrinsic):
    """The function type of a word of ``qgraph.random``: operands by name, too, and a result by ``dtype`` and ``size``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        self._positional = without_keyword_only(self._signature)
        self._name = function.__name__
        super().__init__(self._name, self._typed, functools.partial(_emit, _DISTRIBUTIONS.get(function)))

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The signature of a call."""
        try:
            bound = self._signature.bind(*map(bare, args), **{name: bare(kind) for name, kind in kws.items()})
        except TypeError as error:
            self._refuse(context, str(error))
        parameters = self._signature.parameters
        kinds = {name: types.none if each.default is None else types.int64 for name, each in parameters.items()}
        return self._typed(context, tuple((kinds | bound.arguments).values())).replace(pysig=self._positional)

    def _typed(self, context: Any, args: tuple[Any, ...]) -> Any:
        given = dict(zip(self._signature.parameters, args, strict=True))
        size, dtype = given.pop("size"), given.pop("dtype", None)
        for name, kind in given.items():
            if not is_integral(plain(kind)):
                self._refuse(context, f"{name} must be an integer, not {plain(kind)}")
        result = types.int64 if dtype is None else self._float_type(context, dtype)
        if size != types.none:
            result = types.UniTuple(result, self._count(context, size, 64 if dtype is None else _bits_of(dtype)))
        others = (size,) if dtype is None else (dtype, size)
        return context.make_signature(result, *[types.int64] * len(given), *others)

    def _float_type(self, context: Any, dtype: Any) -> Any:
        if dtype == types.none:
            return context.float_type
        if isinstance(dtype, types.NumberClass) and dtype.instance_type in (types.float32, types.float64):
            return dtype.instance_type
        return self._refuse(context, f"dtype must be numpy.float32, numpy.float64 or None, not {dtype}")

    def _count(self, context: Any, size: Any, bits: int) -> int:
        if not isinstance(size, types.IntegerLiteral):
            self._refuse(context, "size must be a constant")
        try:
            return random_numbers.check_size(size.literal_value, bits)
        except ValueError as error:
            self._refuse(context, str(error))

    def _refuse(self, context: Any, found: str) -> NoReturn:
        raise context.typing_error(f"qgraph.random.{self._name}(): {found}")


default_manager.register(RandomWord, models.OpaqueModel)


def _bits_of(dtype: Any) -> int:
    """The bits of each number that ``dtype`` asks for."""
    return 64 if dtype != types.none and dtype.instance_type == types.float64 else 32


def random_word(function: Callable[..., Any]) -> Intrinsic:
    """The Numba type of a word of ``qgraph.random``."""
    return RandomWord(function)


def _emit(distribution: Any, context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Numbers of the block for a seed and four counters of 64 bits."""
    words = _Words(context, builder)
    seed, i, j, k, l = args[:5]  # noqa: E741
    counter = (words.low(i), builder.add(words.high(i), words.low(l)), words.low(j), builder.add(words.high(j), words.low(k)))
    block = philox.block(words, (words.low(seed), words.high(seed)), counter)
    result, several = sig.return_type, isinstance(sig.return_type, types.UniTuple)
    kind = result.dtype if several else result
    number = len(result) if several else 1
    if distribution is None:
        found = [_within(words, *block[2 * each : 2 * each + 2], *args[5:7]) for each in range(number)]
    else:
        bits = _bits_of(sig.args[5])
        long = (words.long(*block[:2]), words.long(*block[2:]))
        made = distribution(_Reals(context, builder, bits), block if bits == 32 else long, number)
        found = [context.cast(builder, each, types.float32 if bits == 32 else types.float64, kind) for each in made]
    return context.make_tuple(builder, result, found) if several else found[0]


def _within(words: _Words, high: ir.Value, low: ir.Value, lowest: ir.Value, end: ir.Value) -> ir.Value:
    """``lowest`` and the high 64 of the 128 bits of a random long word times what lies between ``lowest`` and ``end``."""
    builder = words.builder
    is_empty = builder.icmp_signed("<", end, lowest)
    extent = builder.select(is_empty, ir.Constant(_LONG, 0), builder.sub(end, lowest))
    first, second = (builder.zext(each, _LONG) for each in (high, low))
    upper, lower = (builder.zext(each, _LONG) for each in (words.high(extent), words.low(extent)))
    shift = ir.Constant(_LONG, 32)
    carried = builder.add(builder.mul(first, lower), builder.lshr(builder.mul(second, lower), shift))
    middle = builder.add(builder.mul(second, upper), builder.and_(carried, ir.Constant(_LONG, philox.MASK)))
    whole = builder.add(builder.mul(first, upper), builder.lshr(carried, shift))
    return builder.add(lowest, builder.add(whole, builder.lshr(middle, shift)))


# Written for PTX, since NVVM would do all in 64 bits, which take two instructions each.
_PRODUCT = "{ .reg .b64 %product; mul.wide.u32 %product, $2, $3; mov.b64 {$1, $0}, %product; }"
_PRODUCT_TYPE = ir.FunctionType(ir.LiteralStructType((_WORD, _WORD)), (_WORD, _WORD))


class _Words:
    """Words are integers of 32 bits."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        self.builder = builder
        self._on_cuda = context.libdevice

    def low(self, long: ir.Value) -> ir.Value:
        return self.builder.trunc(long, _WORD)

    def high(self, long: ir.Value) -> ir.Value:
        return self.builder.trunc(self.builder.lshr(long, ir.Constant(_LONG, 32)), _WORD)

    def product(self, word: ir.Value, factor: int) -> tuple[ir.Value, ir.Value]:
        if self._on_cuda:
            code = ir.InlineAsm(_PRODUCT_TYPE, _PRODUCT, "=r,=r,r,r", False)
            # Of the same operands the same, so that words of one block are made once.
            both = self.builder.call(code, (word, ir.Constant(_WORD, factor)), attrs=("readnone", "nounwind"))
            return self.builder.extract_value(both, 0), self.builder.extract_value(both, 1)
        found = self.builder.mul(self.builder.zext(word, _LONG), ir.Constant(_LONG, factor))
        return self.high(found), self.low(found)

    def xor(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.xor(a, b)

    def plus(self, word: ir.Value, more: int) -> ir.Value:
        return self.builder.add(word, ir.Constant(_WORD, more))

    def long(self, high: ir.Value, low: ir.Value) -> ir.Value:
        wide = self.builder.shl(self.builder.zext(high, _LONG), ir.Constant(_LONG, 32))
        return self.builder.or_(wide, self.builder.zext(low, _LONG))


class _Reals:
    """Floats of 32 or 64 bits, whose words are integers of as many."""

    def __init__(self, context: Any, builder: ir.IRBuilder, bits: int) -> None:
        self._context, self._builder, self.bits = context, builder, bits
        self.digits = 24 if bits == 32 else 53
        self._kind = types.float32 if bits == 32 else types.float64
        self._type = ir.FloatType() if bits == 32 else ir.DoubleType()
        self._word = ir.IntType(bits)

    def _value(self, value: Any) -> ir.Value:
        return ir.Constant(self._type, value) if isinstance(value, float) else value

    def _bits(self, value: int) -> ir.Constant:
        return ir.Constant(self._word, value)

    def whole(self, word: ir.Value) -> ir.Value:
        # Not negative, so that it is what it is as a signed integer, which x86 converts sooner.
        return self._builder.sitofp(self._builder.lshr(word, self._bits(self.bits - self.digits)), self._type)

    def unsigned(self, word: ir.Value) -> ir.Value:
        return self._builder.uitofp(word, self._type)

    def turned(self, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        part = self.bits - 2
        quarter = self._builder.lshr(self._builder.add(word, self._bits(1 << part - 1)), self._bits(part))
        rest = self._builder.sub(word, self._builder.shl(quarter, self._bits(part)))
        return quarter, self.multiply(self._builder.sitofp(rest, self._type), 2.0 ** (1 - self.bits))

    def split(self, value: ir.Value, least: float) -> tuple[ir.Value, ir.Value]:
        builder, stored = self._builder, self.digits - 1
        word = builder.bitcast(value, self._word)
        above = builder.sub(word, builder.bitcast(self._value(least), self._word))
        exponent = builder.ashr(above, self._bits(stored))
        fraction = builder.sub(word, builder.shl(exponent, self._bits(stored)))
        return builder.sitofp(exponent, self._type), builder.bitcast(fraction, self._type)

    def add(self, a: Any, b: Any) -> ir.Value:
        return self._builder.fadd(self._value(a), self._value(b))

    def subtract(self, a: Any, b: Any) -> ir.Value:
        return self._builder.fsub(self._value(a), self._value(b))

    def multiply(self, a: Any, b: Any) -> ir.Value:
        operands = self._value(a), self._value(b)
        if self.bits == 64 and self._context.libdevice:
            # One that NVVM does not fuse with a sum.
            return call_external(self._builder, "__nv_dmul_rn", operands)
        return self._builder.fmul(*operands)

    def divide(self, a: Any, b: Any) -> ir.Value:
        return self._builder.fdiv(self._value(a), self._value(b))

    def fused(self, a: Any, b: Any, c: Any) -> ir.Value:
        return fused(self._context, self._builder, self._kind, [self._value(each) for each in (a, b, c)])

    def root(self, value: ir.Value) -> ir.Value:
        return call_library(self._context, self._builder, "sqrt", self._kind, (value,))

    def choose(self, quarter: ir.Value, bit: int, yes: ir.Value, no: ir.Value) -> ir.Value:
        chosen = self._builder.and_(quarter, self._bits(bit))
        return self._builder.select(self._builder.icmp_unsigned("!=", chosen, self._bits(0)), yes, no)

    def negated(self, quarter: ir.Value, more: int, value: ir.Value) -> ir.Value:
        builder = self._builder
        chosen = builder.and_(builder.add(quarter, self._bits(more)), self._bits(2))
        sign = builder.shl(chosen, self._bits(self.bits - 2))
        return builder.bitcast(builder.xor(builder.bitcast(value, self._word), sign), self._type)

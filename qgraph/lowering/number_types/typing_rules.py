"""Typing rules: in which type an operation computes, of the types of its operands, and with which code.

The records of ``qgraph.operations`` name them. The same for CUDA and the CPU. A function without a rule is typed by Numba
itself, which fails where it cannot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llvmlite import ir

from qgraph.lowering.number_types import function_llvm
from qgraph.lowering.number_types import number_llvm as code
from qgraph.lowering.number_types.ambiguous_integers import Either, one_of
from qgraph.lowering.number_types.long_ranges import LONG_RANGE, long_range
from qgraph.lowering.number_types.number_llvm import Emitter, types
from qgraph.lowering.number_types.rounded_floats import Rounded, meeting, refusal
from qgraph.lowering.number_types.type_promotion import (
    Alias,
    Choice,
    NumberError,
    PythonImpl,
    Rule,
    fits,
    half_made,
    is_integral,
    is_real,
    join_all,
    plain,
)
from qgraph.lowering.number_types.typing_contexts import NumberTyping

# Operations that are another Python function for complex numbers, and that are compiled from one.
otherwise = Alias
spelled = PythonImpl

Types = tuple[Any, ...]

# --- rules ------------------------------------------------------------------------------------------------------------


def _same(joined: Any, count: int, emit: Emitter) -> Choice:
    """Compute in ``joined``: with our code where it is real, with Numba's where it is complex, float16 in float32."""
    # Numba's own float16 arithmetic calls CUDA's headers, compiled by nvrtc and linked apart.
    kind = types.float32 if joined == types.float16 else joined
    return Choice((kind,) * count, kind, emit if is_real(kind) else None)


def _not_bool(joined: Any) -> Any:
    return types.int64 if isinstance(joined, types.Boolean) else joined


def _of_booleans(joined: Any, emit: Emitter) -> Choice:
    choice = _same(types.int8 if isinstance(joined, types.Boolean) else joined, 2, emit)
    return replace(choice, result=Either(types.int8, (0, 2))) if isinstance(joined, types.Boolean) else choice


def arithmetic(emit: Emitter) -> Rule:
    """In the joined type; of two booleans as int8, which is NumPy's, or a Python integer."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return _of_booleans(join_all(args), emit) if len(args) == 2 else None

    return rule


def no_booleans(emit: Emitter, symbol: str) -> Rule:
    """``+`` and ``-``, which CPython and NumPy answer differently for booleans."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 2:
            return None
        joined = join_all(args)
        if isinstance(joined, types.Boolean):
            raise NumberError(
                f"bool {symbol} bool is a number in Python and not in NumPy: write int(a) {symbol} int(b), "
                "or use and, or, != for a logical result"
            )
        return _same(joined, 2, emit)

    return rule


def bits(emit: Emitter) -> Rule:
    """``& | ^`` and the product: of booleans a boolean."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return _same(join_all(args), 2, emit) if len(args) == 2 else None

    return rule


def integers_only(rule: Rule, symbol: str) -> Rule:
    """``rule``, and a refusal of what is no integer."""

    def checked(typing: NumberTyping, args: Types) -> Choice | None:
        for arg in args:
            if not is_integral(arg):
                raise NumberError(f"`{symbol}` takes integers and bools, not {plain(arg)}")
        if args and not is_integral(join_all(args)):
            shown = " and ".join(str(plain(arg)) for arg in args)
            raise NumberError(f"{shown} have no common integer type: convert one of them first")
        return rule(typing, args)

    return checked


def _float_join(typing: NumberTyping, args: Types) -> Any:
    """The joined type, integers taking F and float16 computing in float32."""
    joined = join_all(args)
    if all(map(is_integral, args)):
        return typing.float_type
    return types.float32 if joined == types.float16 else joined


def floating(emit: Emitter, count: int = 2) -> Rule:
    """A function of ``math``: of Python's floats, which are F, or wider. Complex numbers are Numba's."""

    def rule(typing: NumberTyping, args: Types) -> Choice | None:
        return _same(join_all((*args, typing.float_type)), count, emit) if len(args) == count else None

    return rule


def floating_as_numpy(name: str, emit: Emitter, count: int = 2) -> Rule:
    """A function of NumPy that makes floats of integers: of 16 bits a float32, of more F. Complex numbers are Numba's."""

    def rule(typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != count:
            return None
        joined = join_all(args)
        if is_integral(joined) and joined in _BYTES:
            raise NumberError(half_made(f"numpy.{name}", joined))
        if is_integral(joined):
            joined = types.float32 if joined in (types.int16, types.uint16) else typing.float_type
        return _same(joined, count, emit)

    return rule


_BYTES = (types.boolean, types.int8, types.uint8)


def double(emit: Emitter) -> Rule:
    """``np.float_power``, whose result is a float64, whatever it is given. Complex numbers are Numba's."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return _same(join_all((*args, types.float64)), 2, emit) if len(args) == 2 else None

    return rule


def divide(typing: NumberTyping, args: Types) -> Choice | None:
    """``/``: of integers F."""
    if len(args) != 2:
        return None
    joined = typing.float_type if all(map(is_integral, args)) else join_all(args)
    if isinstance(joined, types.Complex):
        return Choice((joined,) * 2, joined, function_llvm.divide_complex)
    return _same(joined, 2, code.true_divide)


def power(typing: NumberTyping, args: Types) -> Choice | None:
    """``**``: an integer keeps its type; a literal exponent is part of the code."""
    if len(args) != 2:
        return None
    base, exponent = args
    if isinstance(base, types.Boolean) and isinstance(exponent, types.Boolean):
        return _of_booleans(types.boolean, code.power)
    literal = exponent if isinstance(exponent, types.IntegerLiteral) else None
    joined = _not_bool(plain(base) if literal is not None and not isinstance(base, types.IntegerLiteral) else join_all(args))
    if is_integral(joined):
        if literal is not None and literal.literal_value < 0:
            raise NumberError(f"an integer to the power {literal.literal_value} is not an integer: write a float base")
        if literal is not None and not fits(literal.literal_value, joined):
            raise NumberError(f"the Python integer {literal.literal_value} is out of bounds for {joined}")
        # The exponent keeps its sign, which uint64 has not.
        signed = literal is None and code.is_signed(exponent)
        return Choice((joined, plain(exponent) if signed else literal or joined), joined, code.power)
    joined = types.float32 if joined == types.float16 else joined
    small = literal is not None and abs(literal.literal_value) <= 8
    if small and isinstance(joined, types.Complex):
        return Choice((joined, literal), joined, function_llvm.power_of_complex)
    if not is_real(joined):
        return _same(joined, 2, code.power)
    if small:
        return Choice((joined, literal), joined, code.power)
    return Choice((joined, joined), joined, code.power)


def comparison(symbol: str) -> Rule:
    """Exact, whatever the types of two integers."""
    emit = code.comparison(symbol)

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 2:
            return None
        if symbol not in ("==", "!="):
            _refuse_complex(args)
        if not all(map(is_integral, args)):
            joined = join_all(args)
            joined = types.float32 if joined == types.float16 else joined
            return Choice((joined, joined), types.boolean, emit if is_real(joined) else None)
        return Choice(tuple(map(_exact, args)), types.boolean, emit)

    return rule


def _refuse_complex(args: Types) -> None:
    if any(isinstance(arg, types.Complex) for arg in args):
        raise NumberError("complex numbers have no order: compare their parts, or their absolute values")


def _exact(item: Any) -> Any:
    """The 64-bit type that holds every value of an integer type."""
    if isinstance(item, types.Boolean):
        return types.uint64
    if isinstance(item, types.IntegerLiteral):
        return types.uint64 if item.literal_value >= 0 else types.int64
    return types.int64 if item.signed else types.uint64


def extreme(emit: Emitter, *, largest: bool) -> Rule:
    """Builtin ``min`` and ``max`` of two or more numbers."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) < 2:
            raise NumberError("min and max take two numbers or more: of one there is nothing to choose")
        _refuse_complex(args)
        choice = _choice_of_one(args, emit, largest=largest)
        return replace(choice, result=one_of(meeting(choice.result, args), args, least=not largest))

    return rule


def one_of_two(emit: Emitter) -> Rule:
    """``min`` and ``max`` of two, of floats without their order."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        choice = _same(join_all(args), 2, emit) if len(args) == 2 else None
        return choice and replace(choice, result=one_of(choice.result, args))

    return rule


def extreme_of_two(emit: Emitter, *, largest: bool) -> Rule:
    """NumPy's ``minimum`` and its kin."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return _choice_of_one(args, emit, largest=largest) if len(args) == 2 else None

    return rule


def _choice_of_one(args: Types, emit: Emitter, *, largest: bool) -> Choice:
    joined = join_all(args)
    if joined == types.uint64 and any(is_integral(arg) and _exact(arg) == types.int64 for arg in args):
        # Python integers, which may be negative, with numbers that have no sign.
        return Choice(tuple(map(_exact, args)), joined, code.mixed_extreme(largest=largest))
    return _same(joined, len(args), emit)


def joined(emit: Emitter, count: int) -> Rule:
    """In the type that all operands have together."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return _same(join_all(args), count, emit) if len(args) == count else None

    return rule


def unary(emit: Emitter, *, of_numpy: bool = True) -> Rule:
    """Of the operand's type. Python's ``abs``, not ``of_numpy``, is an integer of its booleans, and NumPy's of NumPy's."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if not of_numpy and isinstance(args[0], types.Boolean):
            raise NumberError("abs of a boolean is a number in Python and a boolean in NumPy: write int(a), or leave it out")
        return _same(plain(args[0]), 1, emit) if len(args) == 1 else None

    return rule


def signed(emit: Emitter, symbol: str) -> Rule:
    """``-`` and ``+`` of one number, which NumPy has for no boolean."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 1:
            return None
        if isinstance(args[0], types.Boolean):
            raise NumberError(f"{symbol} of a boolean is a number in Python and an error in NumPy: write {symbol}int(a)")
        return _same(plain(args[0]), 1, emit)

    return rule


def invert(_typing: NumberTyping, args: Types) -> Choice | None:
    """``~``, which CPython and NumPy answer differently for booleans."""
    if isinstance(args[0], types.Boolean):
        raise NumberError("~ of a boolean is -1 or -2 in Python and a boolean in NumPy: write `not a`")
    return _same(plain(args[0]), 1, code.bit_not)


def logical(emit: Emitter, count: int = 2) -> Rule:
    """Of numbers as booleans."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        return Choice((types.boolean,) * count, types.boolean, emit) if len(args) == count else None

    return rule


def is_such(emit: Emitter) -> Rule:
    """``isnan`` and its kin."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 1:
            return None
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        return Choice((kind,), types.boolean, emit) if is_real(kind) else None

    return rule


def to_integer(name: str | None) -> Rule:
    """``math.floor`` and its kin, ``int``: Python's integers, which are int64; they keep the bits of a uint64."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = code.call_library(context, builder, name, sig.args[0], args) if name else args[0]
        return builder.fptosi(value, context.get_value_type(sig.return_type))

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 1:
            return None
        if isinstance(args[0], Rounded) and args[0].loses:
            raise NumberError(refusal(f"{name or 'int'}() is given"))
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        if is_integral(kind):
            return Choice((types.int64,), types.int64, code.identity)
        return Choice((kind,), types.int64, emit) if is_real(kind) else None

    return rule


def index(_typing: NumberTyping, args: Types) -> Choice | None:
    """``operator.index``: an integer as Python's, which is an int64 whatever it was."""
    if len(args) != 1:
        return None
    if not is_integral(args[0]):
        raise NumberError(f"range() takes integers, not {plain(args[0])}")
    return Choice((types.int64,), types.int64, code.identity)


def range_(_typing: NumberTyping, args: Types) -> Choice | None:
    """``range`` is Numba's, which would cut off a float, where its length surely has 63 bits."""
    for arg in args:
        if not is_integral(arg):
            raise NumberError(f"range() takes integers, not {plain(arg)}")
    if len(args) < 2 or types.uint64 in args or _is_short(*args):
        return None
    if len(args) == 2:
        return Choice((types.int64,) * 2, LONG_RANGE, _range_of_ones)
    return Choice((types.int64,) * 3, LONG_RANGE, long_range)


def _is_short(start: Any, stop: Any, step: Any = None) -> bool:
    """Whether the bounds of a range are surely less than 2**63 apart, in the direction of its step."""
    if types.int64 not in (plain(start), plain(stop)):
        return True
    if not isinstance(start, types.IntegerLiteral) or not (step is None or isinstance(step, types.IntegerLiteral)):
        return False
    return bool(start.literal_value >= 0 if step is None or step.literal_value > 0 else start.literal_value < 0)


def _range_of_ones(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return long_range(context, builder, sig, (*args, args[0].type(1)))


def to_float(typing: NumberTyping, args: Types) -> Choice | None:
    """``float``: F, or what is wider."""
    if len(args) != 1 or not (is_real(plain(args[0])) or args[0] == types.float16):
        return None
    kind = types.float64 if args[0] == types.float64 else typing.float_type
    return Choice((kind,), kind, code.identity)


def to_complex(typing: NumberTyping, args: Types) -> Choice | None:
    """``complex``: of the joined type."""
    if any(isinstance(arg, types.Complex) for arg in args):
        return None
    return Choice((_float_join(typing, args),) * len(args))


def without_nan(_typing: NumberTyping, args: Types) -> Choice | None:
    """``np.nan_to_num``: 0 for nan, and the largest float for inf; integers unchanged."""
    if len(args) != 1:
        raise NumberError("numpy.nan_to_num takes one number here: write conditional expressions for other values than its own")
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if not is_real(kind):
        return None
    return Choice((kind,), kind, code.identity if is_integral(kind) else function_llvm.without_nan)


def where(_typing: NumberTyping, args: Types) -> Choice | None:
    """``np.where`` of a condition and two numbers."""
    if len(args) != 3:
        return None
    joined = join_all(args[1:])
    return Choice((types.boolean, joined, joined), joined, code.select)


def sign(typing: NumberTyping, args: Types) -> Choice | None:
    """``np.sign``: of nan itself."""
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if len(args) != 1 or not is_real(kind):
        return None
    if isinstance(kind, types.Boolean):
        raise NumberError("numpy.sign does not take a boolean")
    return Choice((kind,), kind, _emit_sign)


def _emit_sign(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (a,) = args
    kind = sig.return_type
    number = 1.0 if code.is_float(kind) else 1
    zero, one = a.type(number * 0), a.type(number)
    below = a.type(-number) if code.is_float(kind) or code.is_signed(kind) else zero
    negative = builder.select(code.less(builder, kind, a, zero), below, zero)
    sign = builder.select(code.less(builder, kind, zero, a), one, negative)
    return builder.select(code.is_nan(builder, kind, a), a, sign)


def reciprocal(typing: NumberTyping, args: Types) -> Choice | None:
    """``np.reciprocal`` of a float."""
    if len(args) != 1 or not is_real(plain(args[0])):
        return None
    if is_integral(args[0]):
        raise NumberError("numpy.reciprocal of an integer is 0 or 1: write 1 / x, or 1 // x")
    kind = plain(args[0])
    return Choice((kind,), kind, lambda _c, builder, _s, args: builder.fdiv(args[0].type(1.0), args[0]))


def widened(_typing: NumberTyping, args: Types) -> Choice | None:
    """An integer of 64 bits."""
    if not is_integral(args[0]):
        raise NumberError(f"math.gcd() takes integers, not {plain(args[0])}")
    kind = types.uint64 if plain(args[0]) == types.uint64 else types.int64
    return Choice((kind,), kind, code.identity)


def bit_count(_typing: NumberTyping, args: Types) -> Choice | None:
    """``qgraph.popcount``: of an integer's absolute value, as a Python integer."""
    if len(args) != 1 or not is_integral(args[0]):
        raise NumberError(f"popcount() takes one integer, not {', '.join(str(plain(arg)) for arg in args)}")
    return Choice((plain(args[0]),), types.int64, _emit_bit_count)


def _emit_bit_count(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, (value,) = sig.args[0], args
    # The bits of the lowest integer, which has no absolute value with a sign, are those of the one without.
    size = value if isinstance(kind, types.Boolean) else code.absolute_integer(builder, kind, value)
    wide = context.get_value_type(sig.return_type)
    # NVVM counts in no less than 32 bits.
    size = builder.zext(size, ir.IntType(32)) if size.type.width < 32 else size
    return builder.zext(builder.ctpop(size), wide)


def of_vectors(_typing: NumberTyping, args: Types) -> Choice | None:
    """A method of vectors and matrices, which were asked for before: here are numbers."""
    raise NumberError(f"a method of vectors is called of {', '.join(str(plain(arg)) for arg in args)}")


def of_indices(emit: Emitter) -> Rule:
    """A function of int64 that gives int64, as code: compiled as Python, anew for each kernel, it takes longer than a loop."""

    def rule(_typing: NumberTyping, args: tuple[Any, ...]) -> Choice | None:
        return Choice((types.int64,) * len(args), types.int64, emit) if all(map(is_integral, args)) else None

    return rule


def in_place(_typing: NumberTyping, args: Types) -> Choice | None:
    """``intrinsics.in_place``: the first number, whose kind may be no wider than that of the second."""
    value, element = plain(args[0]), plain(args[1])
    if _width(value) > _width(element):
        raise NumberError(
            f"an operation in place computes {value}, and the array is of type {element}: NumPy refuses this, too"
        )
    return Choice((value, element), value, code.identity)


def _width(kind: types.Type) -> int:
    """Kinds in the order in which NumPy converts them by itself."""
    if isinstance(kind, types.Boolean):
        return 0
    if isinstance(kind, types.Integer):
        return 1
    return 3 if isinstance(kind, types.Complex) else 2

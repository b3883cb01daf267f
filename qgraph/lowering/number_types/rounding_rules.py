"""Typing rules of rounding: ceil, floor, round, whose a number is included, `//` and `%`, and divmod."""

from __future__ import annotations

import operator
from typing import Any

from qgraph.lowering.number_types import function_llvm
from qgraph.lowering.number_types import number_llvm as code
from qgraph.lowering.number_types.number_llvm import Emitter, types
from qgraph.lowering.number_types.rounded_floats import integers_divided_by_zero
from qgraph.lowering.number_types.type_promotion import (
    Choice,
    NumberError,
    Rule,
    half_made,
    is_integral,
    is_real,
    plain,
)
from qgraph.lowering.number_types.typing_contexts import NumberTyping
from qgraph.lowering.number_types.typing_rules import Types, arithmetic, to_integer


def rounding(emit: Emitter) -> Rule:
    """NumPy's ``floor`` and its kin: a float of a float, integers unchanged."""

    def rule(_typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) != 1:
            return None
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        if not is_real(kind):
            return None
        return Choice((kind,), kind, code.identity if is_integral(kind) else emit)

    return rule


def division(emit: Emitter) -> Rule:
    """``//`` and ``%``. An integer divided by zero gives 0 or raises, and a float gives inf or nan: it must be known which."""

    def rule(typing: NumberTyping, args: Types) -> Choice | None:
        if len(args) == 2 and integers_divided_by_zero(*args):
            raise NumberError(
                "a number is an integer or a float, as in max(n, 0.5), and a division by zero depends on which: "
                "write float(...) for a float, or int(...)"
            )
        return arithmetic(emit)(typing, args)

    return rule


def quotient_and_rest(typing: NumberTyping, args: Types) -> Choice | None:
    """``divmod``: of the types of ``//`` and ``%``, where a literal takes the type of the other number."""
    if len(args) != 2:
        return None
    words = [typing.resolve_value_type(function) for function in (operator.floordiv, operator.mod)]
    parts = [(word, typing.resolve_function_type(word, args, {})) for word in words]
    if any(signature is None or signature.args != parts[0][1].args for _, signature in parts):
        return None
    result = types.BaseTuple.from_types(tuple(signature.return_type for _, signature in parts))

    def emit(context: Any, builder: Any, _sig: Any, values: Any) -> Any:
        items = [context.get_function(word, signature)(builder, values) for word, signature in parts]
        return context.make_tuple(builder, result, items)

    return Choice(parts[0][1].args, result, emit)


def round_(typing: NumberTyping, args: Types) -> Choice | None:
    """Builtin ``round``: half to even; with digits of the operand's type, as NumPy's scalars."""
    if len(args) == 1:
        return to_integer("rint")(typing, args)
    return _round_to_digits(args, function_llvm.round_float)


def round_as_numpy(typing: NumberTyping, args: Types) -> Choice | None:
    """``np.round``: of the operand's type."""
    if args and isinstance(args[0], types.Boolean):
        raise NumberError(half_made("numpy.round", types.boolean))
    return (
        rounding(code.library_function("rint"))(typing, args)
        if len(args) == 1
        else _round_to_digits(args, function_llvm.round_float)
    )


def round_as_python(_typing: NumberTyping, args: Types) -> Choice | None:
    """``intrinsics.round_python``: rounded once, as CPython rounds its floats."""
    kind, digits = plain(args[0]), args[1]
    most = 10 if kind == types.float32 else 22
    exact = isinstance(digits, types.IntegerLiteral) and abs(digits.literal_value) <= most
    if kind in (types.float32, types.float64) and not exact:
        raise NumberError(
            f"round() of a Python float takes a literal number of digits here, from {-most} to {most}: "
            "numpy.round takes any, and rounds as NumPy does"
        )
    return _round_to_digits(args, function_llvm.round_exactly)


def round_either(_typing: NumberTyping, args: Types) -> Choice | None:
    """``intrinsics.round_either``: of a number that is Python's or NumPy's, which round floats in two ways."""
    if not is_integral(args[0]):
        raise NumberError(
            "round() of a float that may be Python's or NumPy's, which round in two ways: write round(float(a), digits) "
            "or numpy.round(a, digits)"
        )
    return _round_to_digits(args, function_llvm.round_float)


def _round_to_digits(args: Types, emit: Emitter) -> Choice | None:
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if len(args) != 2 or not is_real(kind):
        return None
    if not is_integral(args[1]):
        raise NumberError(f"round() takes a whole number of digits, not {plain(args[1])}")
    if isinstance(kind, types.Boolean):
        raise NumberError("NumPy does not round booleans: write int(a)")
    digits = args[1] if isinstance(args[1], types.IntegerLiteral) else types.int64
    return Choice((kind, digits), kind, function_llvm.round_integer if is_integral(kind) else emit)

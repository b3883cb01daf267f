"""Functions that are chosen by the types of what they are called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.ir.functions import Function, TypedFunction
from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.rounded_floats import Rounded
from qgraph.lowering.number_types.type_promotion import plain


def typed_word(typed: TypedFunction) -> Intrinsic:
    """The Numba type of a ``TypedFunction``: the chosen function, compiled for these types."""

    def chosen(operands: Sequence[Any]) -> Function:
        return typed.choose(tuple(map(plain, operands)))

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        # A function refuses an integer that may have lost digits, where it stores one.
        operands = tuple(arg if isinstance(arg, Rounded) else plain(arg) for arg in args)
        return context.resolve_function_type(context.function_word(chosen(operands)), operands, {})

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        function = context.typing_context.function_word(chosen(sig.args))
        return context.get_function(function, sig)(builder, tuple(args))

    word = Intrinsic(typed.name, typer, emit)
    word.keeps_rounded = True
    return word

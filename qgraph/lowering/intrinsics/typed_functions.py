"""Functions that are chosen by the types of what they are called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.ir.functions import TypedFunction
from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.numbers.type_promotion import plain


def typed_word(typed: TypedFunction) -> Intrinsic:
    """The Numba type of a ``TypedFunction``: the chosen function, compiled for these types."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        operands = tuple(map(plain, args))
        return context.resolve_function_type(context.function_word(typed.choose(operands)), operands, {})

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        function = context.typing_context.function_word(typed.choose(sig.args))
        return context.get_function(function, sig)(builder, tuple(args))

    return Intrinsic(typed.name, typer, emit)

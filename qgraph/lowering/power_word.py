"""The word ``language.power`` as code for Numba: ``a ** b``, which notes a fault where an integer has a negative power."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.lowering.atomics import CodeWord
from qgraph.lowering.number_code import is_signed
from qgraph.lowering.numbers import is_integral, plain

# Where the address of the elements stands in Numba's record of an array.
_DATA = 4


def power_word() -> CodeWord:
    """The Numba type of ``language.power``."""
    # By the types of base and exponent, what computes the power.
    operators: dict[tuple[Any, ...], Any] = {}

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        base, exponent, *noting = args
        word = context.resolve_value_type(operator.pow)
        plainly = context.resolve_function_type(word, (base, exponent), {})
        if plainly is None:
            raise context.typing_error(f"no implementation of {plain(base)} ** {plain(exponent)}")
        operators[plainly.args] = (word, plainly)
        return context.make_signature(plainly.return_type, *plainly.args, *map(plain, noting))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        kinds = tuple(sig.args[:2])
        if all(map(is_integral, kinds)) and is_signed(kinds[1]):
            _note(builder, *args[1:])
        word, plainly = operators[kinds]
        return context.get_function(word, plainly)(builder, args[:2])

    return CodeWord("power", typer, emit)


def _note(builder: Any, exponent: ir.Value, noted: ir.Value, number: ir.Value, slots: ir.Value, failed: ir.Value) -> None:
    with builder.if_then(builder.icmp_signed("<", exponent, ir.Constant(exponent.type, 0)), likely=False):
        builder.store(ir.Constant(ir.IntType(64), 1), builder.gep(builder.extract_value(slots, _DATA), [failed]))
        # Threads that meet several faults at once leave the number of one of them: a word is written as a whole.
        first = builder.extract_value(noted, _DATA)
        with builder.if_then(builder.icmp_signed("==", builder.load(first), ir.Constant(number.type, 0))):
            builder.store(number, first)

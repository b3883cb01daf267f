"""The intrinsic that writes a row of a ring of progress: ``progress_ring.publish``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.lowering.intrinsics.clock import read_clock
from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain
from qgraph.operations.progress_ring import FACTORS, HEAD, LAST, ROW, ROWS, RUNS

# Where the address of the elements stands in Numba's record of an array.
_DATA = 4
_WORD = ir.IntType(64)


def publish_word() -> Intrinsic:
    """The Numba type of ``progress_ring.publish``: stores of one thread, for which it does not wait."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        ring, _, _, _, iteration, value = map(plain, args)
        if not isinstance(iteration, types.Integer | types.Boolean):
            raise context.typing_error(f"progress() of iteration {iteration}: the number of an iteration is an integer")
        if not isinstance(value, types.Integer | types.Boolean | types.Float):
            raise context.typing_error(f"progress() of {value}: a residual is a real number")
        return context.make_signature(types.none, ring, *[types.int64] * 4, types.float64)

    return Intrinsic("publish", typer, _publish)


def _publish(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    ring, *row, value = args
    words = builder.extract_value(ring, _DATA)
    row += [builder.bitcast(value, _WORD), read_clock(context, builder)]
    check = _constant(0)
    for word, factor in zip(row, FACTORS, strict=True):
        check = builder.add(check, builder.mul(word, _constant(factor - (factor >> 63 << 64))))
    number, run = row[:2]
    place = builder.and_(number, _constant(ROWS - 1))
    first = builder.add(builder.mul(place, _constant(ROW)), _constant(HEAD))
    for offset, word in enumerate((*row, check)):
        builder.store(word, builder.gep(words, [builder.add(first, _constant(offset))]))
    for offset, word in ((LAST, number), (RUNS, run)):
        builder.store(word, builder.gep(words, [_constant(offset)]))
    return context.get_dummy_value()


def _constant(value: int) -> ir.Value:
    return ir.Constant(_WORD, value)

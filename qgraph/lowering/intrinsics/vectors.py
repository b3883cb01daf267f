"""``qgraph.vec`` and ``qgraph.mat`` of numbers and tuples, and small systems in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.lowering.intrinsics.intrinsic import Intrinsic, check_scalar
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import is_integral, is_number, join_all, plain
from qgraph.lowering.number_types.vectors import shape_of, type_of
from qgraph.operations.small_systems import rows_of, solved


def vector_word(name: str) -> Intrinsic:
    """The Numba type of ``qgraph.vec`` or ``qgraph.mat``: all components have the float type in which they meet."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        args = tuple(map(plain, args))
        if name == "mat" and len(args) == 1 and shape_of(args[0]) is not None and len(shape_of(args[0]) or ()) == 2:
            return context.make_signature(args[0], *args)
        rows = [_numbers(context, name, each) for each in (args if name == "mat" else [_flat(args)])]
        lengths = {len(row) for row in rows}
        if len(lengths) != 1 or lengths == {0}:
            raise context.typing_error("the rows of a matrix have one length" if name == "mat" else "vec() has no components")
        joined = join_all(tuple(number for row in rows for number in row))
        if is_integral(joined):
            joined = context.float_type
        if joined not in (types.float32, types.float64):
            raise context.typing_error(f"a component of {name}() is a real number, not {joined}")
        shape = (len(rows), *lengths) if name == "mat" else (*lengths,)
        return context.make_signature(type_of(joined, shape), *args)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        result = sig.return_type
        if sig.args == (result,):
            return args[0]
        if name == "vec":
            return _vector(context, builder, result, sig.args, args)
        return context.make_tuple(
            builder,
            result,
            [_vector(context, builder, result.dtype, (kind,), (value,)) for kind, value in zip(sig.args, args, strict=True)],
        )

    return Intrinsic(name, typer, emit)


def _flat(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], types.BaseTuple) else types.BaseTuple.from_types(args)


def _numbers(context: Any, name: str, kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, types.Array):
        raise context.typing_error(f"{name}() of an array whose extent is not known: write its components out")
    if not isinstance(kind, types.BaseTuple) or not all(map(is_number, kind.types)):
        raise context.typing_error(f"{name}() takes {'numbers' if name == 'vec' else 'rows of numbers'}, not {kind}")
    return tuple(kind.types)


def _vector(context: Any, builder: Any, result: Any, kinds: Sequence[Any], values: Sequence[ir.Value]) -> ir.Value:
    if len(kinds) == 1 and isinstance(kinds[0], types.BaseTuple):
        (whole,), kinds = values, kinds[0].types
        values = [builder.extract_value(whole, at) for at in range(len(kinds))]
    cast = [context.cast(builder, value, kind, result.dtype) for value, kind in zip(values, kinds, strict=True)]
    return context.make_tuple(builder, result, cast)


def check_number_or_vector(context: Any, item: Any) -> None:
    """A typing error for what is no number, and no vector or matrix of numbers."""
    if shape_of(item) is None:
        check_scalar(context, item)


def by_component(builder: Any, function: Callable[[ir.Value], ir.Value], value: ir.Value) -> ir.Value:
    """``function`` of a number, or of each component of a vector or matrix, which is an array of LLVM's."""
    if not isinstance(value.type, ir.ArrayType):
        return function(value)
    return cgutils.pack_array(builder, [by_component(builder, function, part) for part in cgutils.unpack_tuple(builder, value)])


def system_word() -> Intrinsic:
    """The Numba type of ``solve_in_registers``: of floats of one type."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (kind,) = {plain(each) for each in args}
        return context.make_signature(types.UniTuple(kind, math.isqrt(len(args)) + 1), *(kind,) * len(args))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        found, failed = solved(rows_of(args), Floats(builder))
        return context.make_tuple(builder, sig.return_type, [*found, builder.uitofp(failed, args[0].type)])

    return Intrinsic("solve_in_registers", typer, emit)


class Floats:
    """Instructions of LLVM for floats, for ``small_systems.solved``."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def greater(self, a: ir.Value, b: ir.Value) -> Any:
        """Of absolute values."""
        return self._builder.fcmp_ordered(">", self._absolute(a), self._absolute(b))

    def choose(self, test: ir.Value, a: ir.Value, b: ir.Value) -> Any:
        """One of two."""
        return self._builder.select(test, a, b)

    def is_zero(self, a: ir.Value) -> Any:
        """Whether it is 0 of either sign."""
        return self._builder.fcmp_ordered("==", a, ir.Constant(a.type, 0.0))

    def either(self, a: ir.Value, b: ir.Value) -> Any:
        """Whether one of two is true."""
        return self._builder.or_(a, b)

    def quotient(self, a: ir.Value, b: ir.Value) -> Any:
        """That by 0 is anything."""
        return self._builder.fdiv(a, b)

    def reduced(self, a: ir.Value, b: ir.Value, c: ir.Value) -> Any:
        """``a - b * c``."""
        return self._builder.fsub(a, self._builder.fmul(b, c))

    def _absolute(self, a: ir.Value) -> Any:
        return self._builder.call(self._builder.module.declare_intrinsic("llvm.fabs", [a.type]), [a])

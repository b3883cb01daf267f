"""Intrinsics for Numba: a function type that types its own calls and emits their LLVM code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel import default_manager, models

from qgraph.lowering.number_types.ambiguous_integers import bare
from qgraph.lowering.number_types.number_llvm import Emitter, types
from qgraph.lowering.number_types.type_promotion import is_number, plain

_Callable: Any = types.Callable
_Opaque: Any = types.Opaque


class Intrinsic(_Callable, _Opaque):
    """A function type with one typing function and one emitter."""

    # Whether the typing function is told which floats are integers that may have lost digits.
    keeps_rounded = False

    def __init__(self, name: str, typer: Callable[[Any, tuple[Any, ...]], Any], emit: Emitter) -> None:
        self._identity = object()
        self._typer = typer
        self.emit = emit
        super().__init__(name=name)

    @property
    def key(self) -> object:
        """What makes two of these types equal."""
        return self._identity

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The signature of a call; a typing error says what cannot be compiled."""
        return self._typer(context, tuple(map(bare, (*args, *kws.values()))))

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Numba's hook for its messages: no fixed signatures."""
        return [], True

    def get_impl_key(self, sig: Any) -> object:
        """Numba's hook: what finds the code."""
        return (self._identity, sig.args)


default_manager.register(Intrinsic, models.OpaqueModel)


def signature(result: Any, *operands: Any) -> Callable[[Any, tuple[Any, ...]], Any]:
    """The typing function of what has one signature; an operand that is None keeps the type that it has."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        kinds = (plain(given) if kind is None else kind for given, kind in zip(args, operands, strict=True))
        return context.make_signature(result, *kinds)

    return typer


def cast_to_result(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The emitter of what is its operand in the type of the result."""
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


def element(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The pointer to the element of the array ``args[0]`` at the index ``args[1]``; negative ones count from the end."""
    array_type, index_type = sig.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    count = len(index_type) if isinstance(index_type, types.BaseTuple) else None
    indices = [args[1]] if count is None else cgutils.unpack_tuple(builder, args[1], count)
    return cgutils.get_item_pointer(context, builder, array_type, array, indices, wraparound=True)


def check_scalar(context: Any, item: Any) -> None:
    """A typing error for what is no number."""
    if not is_number(item):
        raise context.typing_error(f"a kernel scalar holds a number, not {plain(item)}")

"""The record of an operation: all that is known of an operator, a function of numbers or a word of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any, Literal

import numpy as np

from qgraph.operations.intervals import Interval
from qgraph.polyhedral.symbolic_integers import Poly
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """One operation, in every way in which Python spells it.

    Attributes:
        functions: Python's objects that mean it; its meaning is what the first of them does.
        ufuncs: NumPy's that mean the same of NumPy's numbers, and of arrays element by element.
        syntax: the class of its operator in a syntax tree.
        symbol: how that is written.
        typing: of lowering's rules and emitters, the typing rule with the code of its choices; None where Numba has both.
        intrinsic: of lowering's intrinsics, its function type, where it has one of its own.
        pure: it computes numbers of numbers, and does nothing else.
        elementwise: the numbers of operands with which it is one of whole arrays, too.
        reduces: of arrays it gives one number; the name of that reduction, which an array's method has too.
        result: whose type and sign the result has: a float's, that of the first operand, that which all operands have together.
        owner: whose number it gives, Python's or NumPy's: the same always, that of the first operand, that of any.
        integers: its value as a symbolic integer, of operands that are; None where it is not followed.
        interval: the interval of its values, of those of its operands (Python's integers); None where it raises or grows large.
        integers_of_integers: of integers it gives an integer that is exact as a float is where an operand is a rounded one.
        takes: the numbers of which every backend has code, where NumPy may have more; empty for all that its rule takes.
        takes_ambiguous: it takes numbers that may be Python's or NumPy's as they are.
        reassociable: the intrinsic that computes the same, in an order of many that the compiler chooses.
    """

    functions: tuple[Any, ...] = ()
    ufuncs: tuple[np.ufunc, ...] = ()
    syntax: type[Any] | None = None
    symbol: str = ""
    typing: Callable[[Any, Any], Any] | None = None
    intrinsic: Callable[[Any], Any] | None = None
    pure: bool = True
    elementwise: tuple[int, ...] = ()
    reduces: str = ""
    result: Literal["", "float", "first", "joined"] = ""
    owner: Literal["", "python", "numpy", "first", "any"] = ""
    integers: Callable[..., Poly | None] | None = None
    interval: Callable[..., Interval | None] | None = None
    integers_of_integers: bool = False
    takes_ambiguous: bool = False
    takes: Literal["", "real numbers", "integers", "numbers that are no booleans"] = ""
    reassociable: Callable[..., Any] | None = None

    def integers_of(self, operands: Sequence[Poly]) -> Poly | None:
        """Its value as a symbolic integer, of ``operands``; None where it is not followed."""
        return None if self.integers is None else self.integers(*operands)


def typed(function: Any, typing: Callable[[Any, Any], Any], **more: Any) -> Operation:
    """The record of one function, Python's or NumPy's, that has a typing rule."""
    more["ufuncs" if isinstance(function, np.ufunc) else "functions"] = (function,)
    return Operation(typing=typing, **more)


class Registry:
    """Operations by their functions, by identity: an alias works, and a shadowed name is what it is."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.all = tuple(operations)
        self._by_function = {id(function): operation for operation in self.all for function in operation.functions}
        self._by_function |= {id(ufunc): _as_numpys(operation, ufunc) for operation in self.all for ufunc in operation.ufuncs}
        self.methods = {each.reduces for each in self.all if each.reduces and hasattr(np.ndarray, each.reduces)}
        self.by_syntax = {operation.syntax: operation for operation in self.all if operation.syntax is not None}

    def knows(self, function: object) -> bool:
        """Whether a function has a record of its own."""
        return id(function) in self._by_function

    def of(self, function: object) -> Operation:
        """The record of a function; one of its kind where it has none of its own."""
        return self._by_function.get(id(function)) or _of_kind(function)


# What may be any function: nothing is known.
OPAQUE = Operation(pure=False)
_NUMPY = Operation(pure=False, owner="numpy")
_MATH = Operation(result="float", owner="python")
_PURE = Operation()
_NUMPY_TYPE = Operation(owner="numpy")
_UFUNCS = {
    operands: Operation(elementwise=(operands,), result="joined" if operands > 1 else "", owner="numpy")
    for operands in range(9)
}
_OTHER_UFUNC = Operation(result="joined", owner="numpy")


def _as_numpys(operation: Operation, ufunc: np.ufunc) -> Operation:
    """What is known of a universal function: of Python's integers it makes NumPy's, so nothing of what it does to them."""
    known = _of_kind(ufunc)
    # Of integers an integer.
    first = ufunc.nin == 1 and "Q->Q" in ufunc.types
    return replace(
        known,
        ufuncs=(ufunc,),
        typing=operation.typing,
        result="first" if first else known.result,
        integers=operation.integers,
        takes=operation.takes,
        reassociable=operation.reassociable,
    )


def _of_kind(function: object) -> Operation:
    if isinstance(function, np.ufunc):
        # Of whole matrices, not of their elements; or of elements several results, which are no array.
        return _UFUNCS[function.nin] if function.signature is None and function.nout == 1 else _OTHER_UFUNC
    if isinstance(function, type):
        numbers = issubclass(function, (int, float, complex, np.generic))
        return _NUMPY_TYPE if issubclass(function, np.generic) else _PURE if numbers or function is range else OPAQUE
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, BuiltinFunctionType) and module in ("math", "cmath"):
        return _MATH if module == math.__name__ else _PURE
    return _NUMPY if module.startswith("numpy") else OPAQUE

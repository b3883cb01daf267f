"""Scalars that are updated between launches, on the host."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from qgraph.errors import ArgumentError


class HostScalar(np.ndarray):
    """One value at an address that never changes: a NumPy array without axes."""

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        # What is computed from it is a number, as from any array without axes, and no scalar that could be updated.
        return array if array is self else np.asarray(array)[()] if return_scalar else np.asarray(array)

    @property
    def value(self) -> Any:
        """The value."""
        return self[()]

    def update(self, value: object) -> None:
        """Let launches from now on see ``value``.

        Raises:
            ArgumentError: the type does not hold it.
        """
        self[()] = element_of(self.dtype, value)


def scalar(dtype: DTypeLike, value: object) -> HostScalar:
    """A new one."""
    return element_of(dtype, value).view(HostScalar)


def element_of(dtype: DTypeLike, value: object) -> np.ndarray:
    """``value`` as an array without axes.

    Raises:
        ArgumentError: it is no number, or ``dtype`` does not hold it.
    """
    kind = np.dtype(dtype)
    given = np.asarray(value)
    # An integer of more than 64 bits is an object for NumPy, and its floats take it.
    number = given.dtype.kind in "biufc" or isinstance(value, int)
    if given.ndim or not number or (given.dtype.kind == "c" and kind.kind != "c"):
        raise ArgumentError(f"{value!r} is no value of {kind}", hint="pass one number that the type holds")
    element = np.empty((), kind)
    try:
        element[()] = value
    except (OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(f"{value!r} is no value of {kind}: {error}", hint="pass one number that the type holds") from None
    if kind.kind in "iu" and element[()] != given:
        raise ArgumentError(f"{value!r} is no value of {kind}", hint="pass an integer that the type holds")
    return element


def bytes_of(dtype: np.dtype, value: object) -> bytes:
    """The bytes of ``element_of(dtype, value)``; raises as it does."""
    pack = _PACKS.get((dtype.char, type(value)))
    if pack is not None:
        try:
            return pack(value)
        except (OverflowError, struct.error):  # NumPy says what becomes of it
            pass
    return element_of(dtype, value).tobytes()


# NumPy's characters of types are those of ``struct``. Integers become floats by way of Python's, in NumPy too.
_PACKS: dict[tuple[str, type], Callable[..., bytes]] = {
    **{(char, of): struct.Struct(char).pack for char in "fd" for of in (float, int)},
    **{(char, int): struct.Struct(char).pack for char in "bBhHiIlLqQ"},
    ("?", bool): struct.Struct("?").pack,
}

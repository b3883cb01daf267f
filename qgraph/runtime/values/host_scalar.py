"""Scalars that are updated between launches, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from qgraph.errors import ArgumentError


class HostScalar(np.ndarray):
    """One value at an address that never changes: a NumPy array without axes."""

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
    if given.ndim or given.dtype.kind not in "biufc" or (given.dtype.kind == "c" and kind.kind != "c"):
        raise ArgumentError(f"{value!r} is no value of {kind}", hint="pass one number that the type holds")
    element = np.empty((), kind)
    try:
        element[()] = value
    except (OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(f"{value!r} is no value of {kind}: {error}", hint="pass one number that the type holds") from None
    if kind.kind in "iu" and element[()] != given:
        raise ArgumentError(f"{value!r} is no value of {kind}", hint="pass an integer that the type holds")
    return element

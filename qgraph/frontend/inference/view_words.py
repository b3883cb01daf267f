"""NumPy's functions and methods that give a part of an array in another order: `np.flip(x)`, `x.transpose(1, 0, 2)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# For each dimension of the view that of the array, -1 for a new one; and which of them run backwards.
Order = tuple[tuple[int, ...], frozenset[int]]


def order_of(function: object, ndim: int, *given: Any, **named: Any) -> Order | None:
    """The view that ``function`` gives of an array of ``ndim`` dimensions; None where it is no such function, or misused."""
    word = next((word for each, word in _FUNCTIONS if each is function), None)
    return _ordered(word, ndim, given, named)


def order_of_method(name: str, ndim: int, *given: Any, **named: Any) -> Order | None:
    """The same for a method of the array."""
    return _ordered(_METHODS.get(name), ndim, given, named)


def _ordered(word: Callable[..., Order] | None, ndim: int, given: Sequence[Any], named: dict[str, Any]) -> Order | None:
    try:
        return None if word is None else word(ndim, *given, **named)
    except (TypeError, ValueError):
        return None


def _axes(ndim: int, axis: int | Sequence[int] | None) -> list[int]:
    if axis is None:
        return list(range(ndim))
    axes = [axis] if isinstance(axis, int) else list(axis)
    if any(not -ndim <= each < ndim for each in axes) or len({each % ndim for each in axes}) < len(axes):
        raise ValueError("no such axis, or one twice")
    return [each % ndim for each in axes]


def _transpose(ndim: int, *axes: Any) -> Order:
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    order = _axes(ndim, given)[::-1] if given is None else _axes(ndim, given)
    if len(order) < ndim:
        raise ValueError("axes are left out")
    return tuple(order), frozenset()


def _transposed(ndim: int, axes: Any = None) -> Order:
    return _transpose(ndim, axes)


def _swapaxes(ndim: int, axis1: int, axis2: int) -> Order:
    order = list(range(ndim))
    (first,), (second,) = _axes(ndim, axis1), _axes(ndim, axis2)
    order[first], order[second] = second, first
    return tuple(order), frozenset()


def _moveaxis(ndim: int, source: int, destination: int) -> Order:
    (taken,), (place,) = _axes(ndim, source), _axes(ndim, destination)
    order = [each for each in range(ndim) if each != taken]
    order.insert(place, taken)
    return tuple(order), frozenset()


def _expand_dims(ndim: int, axis: int | Sequence[int]) -> Order:
    several = 1 if isinstance(axis, int) else len(axis)
    new = _axes(ndim + several, axis)
    left = iter(range(ndim))
    return tuple(-1 if each in new else next(left) for each in range(ndim + several)), frozenset()


def _flip(ndim: int, axis: Any = None) -> Order:
    return tuple(range(ndim)), frozenset(_axes(ndim, axis))


def _fliplr(ndim: int) -> Order:
    return _flip(ndim, 1)


def _flipud(ndim: int) -> Order:
    return _flip(ndim, 0)


def _same(ndim: int) -> Order:
    return tuple(range(ndim)), frozenset()


_FUNCTIONS: tuple[tuple[object, Callable[..., Order]], ...] = (
    (np.transpose, _transposed),
    (np.swapaxes, _swapaxes),
    (np.moveaxis, _moveaxis),
    (np.expand_dims, _expand_dims),
    (np.flip, _flip),
    (np.fliplr, _fliplr),
    (np.flipud, _flipud),
    (np.asarray, _same),
)
_METHODS: dict[str, Callable[..., Order]] = {"transpose": _transpose, "swapaxes": _swapaxes}

"""Versions by name, as functions for ``jax.jit``: they take what the programs take, and return what those change, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax


@dataclass(frozen=True)
class Version:
    """``function`` returns what the program does, flat, then the new values of ``changes``; ``static``: for ``jax.jit``."""

    function: Callable[..., Any]
    static: tuple[str, ...]
    changes: tuple[str, ...]


VERSIONS: dict[str, Version] = {}


def version(
    static: tuple[str, ...] = (), changes: tuple[str, ...] = ()
) -> Callable[[Callable[..., tuple[Any, ...]]], Callable[..., tuple[Any, ...]]]:
    """Register a function under its name."""

    def register(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        VERSIONS[function.__name__] = Version(function, static, changes)
        return function

    return register


def put(block: Any, array: Any, *start: Any) -> Any:
    """``array`` with ``block`` from ``start`` on. ``array.at[...].set`` would be a scatter, also where it's a plain slice."""
    return lax.dynamic_update_slice(array, block, start)


def put_row(row: Any, array: Any, index: Any) -> Any:
    """``array`` with another row, or element.

    The barrier keeps what computes the row out of the kernel that stores it: if that read other rows, it could not write in
    place, and each turn of a loop would copy the array.
    """
    return lax.dynamic_update_index_in_dim(array, lax.optimization_barrier(row), index, 0)


def put_column(column: Any, array: Any, index: Any) -> Any:
    """``array`` with another column."""
    return lax.dynamic_update_index_in_dim(array, lax.optimization_barrier(column), index, 1)


def first(count: Any, vector: Any) -> Any:
    """The first ``count`` elements, then zeros: a slice whose length changes from turn to turn of a loop."""
    return jnp.where(jnp.arange(vector.shape[0]) < count, vector, 0)

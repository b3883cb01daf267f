"""What the loops work on: inputs, the answer in float64 with the error that float32 may have, and the bytes to move."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The largest relative error of one float32 operation.
U = 2.0**-24
# Random numbers repeat after so many: a prime, so that no index that is off by a row or a block finds the same ones.
PERIOD = 1_000_003
SCALE = 2.0
# Elements that are compared at a time.
PIECE = 2**21


@dataclass(frozen=True, slots=True)
class Problem:
    """An operation on arrays of one size.

    ``wanted`` gives slices of the answer in float64, along its first axis, NaN where nothing may be written; ``bound`` is how
    far from it an answer may be, one number or one a row of the answer. ``nbytes`` is what the algorithm must move: each
    input read once, each result written once.
    """

    operation: str
    size: str
    inputs: dict[str, Array] = field(repr=False)
    shape: tuple[int, ...]
    wanted: Callable[[slice], Array] = field(repr=False)
    bound: float | Array = field(repr=False)
    nbytes: int

    def check(self, found: Array) -> None:
        """Raise AssertionError where an element is off by more than its bound, missing, or written and should not be."""
        if found.shape != self.shape:
            raise AssertionError(f"shape {found.shape}, wanted {self.shape}")
        rows = max(PIECE // math.prod(self.shape[1:]), 1)
        for start in range(0, self.shape[0], rows):
            piece = slice(start, start + rows)
            ours, wanted = found[piece], self.wanted(piece)
            bound = self.bound[piece] if isinstance(self.bound, np.ndarray) else self.bound
            right = np.abs(ours - wanted) <= bound
            right |= np.isnan(ours) & np.isnan(wanted)
            if not right.all():
                first, *others = (int(k) for k in np.argwhere(~right)[0])
                values = f"{ours[first, *others]} instead of {wanted[first, *others]}"
                raise AssertionError(f"{self.operation}, {self.size}: {values} at {(start + first, *others)}")


def repeated(shape: int | tuple[int, ...], seed: int) -> Array:
    """Random float32 in [0, 1)."""
    return np.resize(np.random.default_rng(seed).random(PERIOD, np.float32), shape)


def triad(n: int) -> Problem:
    """``y = b + 2 c``."""
    b, c = repeated(n, 1), repeated(n, 2)

    def wanted(piece: slice) -> Array:
        return b[piece] + SCALE * c[piece].astype(np.float64)

    return Problem("triad", f"{n:,}", {"b": b, "c": c}, (n,), wanted, 4 * U * (1 + SCALE), 3 * 4 * n)


def stencil(n: int, m: int) -> Problem:
    """The mean of the four neighbours less the element, but at the edge."""
    x = repeated((n, m), 3)

    def wanted(piece: slice) -> Array:
        start, stop, _ = piece.indices(n)
        # The rows and those above and below; the first and the last row of all have none, and are NaN in the end.
        around = np.pad(x[max(start - 1, 0) : stop + 1].astype(np.float64), ((start == 0, stop == n), (0, 0)))
        y = np.full((stop - start, m), np.nan)
        y[:, 1:-1] = 0.25 * (around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]) - around[1:-1, 1:-1]
        y[[row - start for row in (0, n - 1) if start <= row < stop]] = np.nan
        return y

    # Each of at most six roundings is of a number below 4.
    return Problem("stencil", f"{n} x {m}", {"x": x}, (n, m), wanted, 6 * U * 4, 4 * n * m + 4 * (n - 2) * (m - 2))


def transpose(n: int, m: int) -> Problem:
    """Columns become rows, to the bit."""
    x = repeated((n, m), 4)
    return Problem("transpose", f"{n} x {m}", {"x": x}, (m, n), x.T.__getitem__, 0.0, 2 * 4 * n * m)


def poisson(n: int, m: int) -> Problem:
    """The matrix of the five-point Laplacian on a grid of n x m points, a row a point, by a vector."""
    rows = n * m
    i, j = np.divmod(np.arange(rows, dtype=np.int32), m)
    inside = np.stack([i > 0, j > 0, np.ones(rows, bool), j < m - 1, i < n - 1], axis=1)
    offsets = np.array([-m, -1, 0, 1, m], np.int32)
    columns = (np.arange(rows, dtype=np.int32)[:, None] + offsets)[inside]
    values = np.broadcast_to(np.array([-1, -1, 4, -1, -1], np.float32), inside.shape)[inside]
    return _csr(f"Poisson, {rows:,} rows", values, columns, inside.sum(axis=1), rows)


def varied(rows: int) -> Problem:
    """A square matrix by a vector; rows have 32 entries on average, many have few and some have hundreds."""
    rng = np.random.default_rng(5)
    lengths = np.minimum(rng.geometric(1 / 32, rows), rows)
    # Entry k of a row lies somewhere in the k-th of as many equal parts as it has entries, but at the end of the part: columns
    # ascend, and no two are the same.
    each = np.repeat(lengths, lengths)
    k = np.arange(each.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    width = rows / each
    columns = (k * width + repeated(each.size, 9) * (width - 1)).astype(np.int32)
    return _csr(f"varied, {rows:,} rows", repeated(each.size, 6) - np.float32(0.5), columns, lengths, rows)


def _csr(size: str, values: Array, columns: Array, lengths: Array, rows: int) -> Problem:
    starts = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    x = repeated(rows, 7)
    products = values * x.astype(np.float64)[columns]
    y = np.add.reduceat(products, starts[:-1])
    # Whatever the order of the sum.
    bound = (lengths + 2) * U * np.add.reduceat(np.abs(products), starts[:-1])
    inputs = {"values": values, "columns": columns, "starts": starts, "x": x}
    return Problem("csr", size, inputs, y.shape, y.__getitem__, bound, sum(part.nbytes for part in inputs.values()) + 4 * rows)


def dot(n: int, operation: str = "dot") -> Problem:
    """The sum of products of small integers of both signs.

    A partial sum in float32 is exact as long as it stays below 2**24; these stay around 1,000,000, so that whatever the
    order of the sum, there is one right answer.
    """
    whole = np.random.default_rng(8).integers(-4, 5, (2, PERIOD), np.int8)
    x, y = (np.resize(part, n).astype(np.float32) for part in whole)
    repeats, rest = divmod(n, PERIOD)
    products = whole[0].astype(np.int64) * whole[1]
    total = repeats * products.sum() + products[:rest].sum()
    return Problem(operation, f"{n:,}", {"a": x, "b": y}, (1,), np.array([total], np.float64).__getitem__, 0.0, 2 * 4 * n)


# By operation: the problems, or smaller ones, whose sizes no block divides.
FULL: dict[str, tuple[Callable[[], Problem], ...]] = {
    "triad": (lambda: triad(2**26), lambda: triad(2**27)),
    "stencil": (lambda: stencil(8192, 8192),),
    "transpose": (lambda: transpose(8192, 8192),),
    "csr": (lambda: poisson(2048, 2048), lambda: varied(2**20)),
    "dot": (lambda: dot(2**27),),
    "dot_returned": (lambda: dot(2**27, "dot_returned"),),
}
QUICK: dict[str, tuple[Callable[[], Problem], ...]] = {
    "triad": (lambda: triad(2**20 + 77),),
    "stencil": (lambda: stencil(515, 1030),),
    "transpose": (lambda: transpose(515, 1030),),
    "csr": (lambda: poisson(131, 257), lambda: varied(2**14 + 77)),
    "dot": (lambda: dot(2**21 + 77),),
    "dot_returned": (lambda: dot(2**21 + 77, "dot_returned"),),
}

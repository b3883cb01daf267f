"""Systems of equations that are small enough for registers, without a loop or an index.

The order of operations is known when code is made, and each number has a register of its own. Golub and Van Loan, Matrix
Computations, 3.4, Gaussian elimination with partial pivoting: in the registers of one thread rows are exchanged by choosing,
number by number, as soon as a greater pivot is met. Where the lanes of a warp have a row each, rows stay where they are, and
the row of the pivot is broadcast. 4.2: the Cholesky factor, row by row in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# Registers of 32 bits that a matrix may take: a thread has 255, and with 144 of them it needs about 175 and spills none.
MOST_REGISTERS = 144
# Rows of a matrix that a warp has; and registers for a row of it with its right sides: of more there would be much code.
WARP = 32
MOST_IN_ROW = 72


def solved(rows: list[list[Any]], by: Any) -> tuple[list[Any], Any]:
    """The solution of ``rows``, each of the matrix with its right side, and whether the matrix is singular.

    ``by`` computes, as ``_Plain``: numbers of plain Python, or instructions of code.
    """
    n = len(rows)
    failed: Any = None
    for k in range(n):
        for i in range(k + 1, n):
            swaps = by.greater(rows[i][k], rows[k][k])
            for j in range(k, n + 1):
                a, b = rows[i][j], rows[k][j]
                rows[i][j], rows[k][j] = by.choose(swaps, b, a), by.choose(swaps, a, b)
        singular = by.is_zero(rows[k][k])
        failed = singular if failed is None else by.either(failed, singular)
        for i in range(k + 1, n):
            factor = by.quotient(rows[i][k], rows[k][k])
            for j in range(k + 1, n + 1):
                rows[i][j] = by.reduced(rows[i][j], factor, rows[k][j])
    found: list[Any] = []
    for i in reversed(range(n)):
        left = rows[i][n]
        for j, x in zip(reversed(range(i + 1, n)), found, strict=True):
            left = by.reduced(left, rows[i][j], x)
        found.append(by.quotient(left, rows[i][i]))
    return found[::-1], failed


def rows_of(numbers: Sequence[Any]) -> list[list[Any]]:
    """The rows of ``solve_in_registers``: a matrix by rows, then the right side."""
    n = math.isqrt(len(numbers))
    return [[*numbers[n * i : n * (i + 1)], numbers[n * n + i]] for i in range(n)]


def solve_in_registers(*numbers: Any) -> tuple[Any, ...]:
    """The solution of a matrix, by rows, and a right side; then 1 where the matrix is singular, else 0."""
    found, failed = solved(rows_of(numbers), _Plain())
    return (*found, type(numbers[0])(failed))


class _Plain:
    """Python's numbers. ``greater`` is of absolute values; a quotient by 0 is anything."""

    def greater(self, a: Any, b: Any) -> Any:
        return abs(a) > abs(b)

    def choose(self, test: Any, a: Any, b: Any) -> Any:
        return a if test else b

    def is_zero(self, a: Any) -> Any:
        return a == 0

    def either(self, a: Any, b: Any) -> Any:
        return a or b

    def quotient(self, a: Any, b: Any) -> Any:
        return a / b if b != 0 else b

    def reduced(self, a: Any, b: Any, c: Any) -> Any:
        return a - b * c


# --- by a warp ---------------------------------------------------------------------------------------------------------


def solve_in_warp(_x: Any, _a: Any, _b: Any, _rows: int, _columns: int) -> int:
    """Let the threads of a warp solve their systems together, one after another: ``x`` such that ``a @ x`` is ``b``.

    Returns 0, 1 where the matrix is singular and nothing is written, or -1 where nothing was done: on CUDA where a warp has
    not all its threads there, elsewhere always. What is to be done then follows, and says to analyses what is written.

    Args:
        _x, _a, _b: parts of arrays, of the iteration.
        _rows: literals, as ``_columns``: the matrix has as many columns, ``b`` has this many, or 0 where it is a vector.
    """
    return -1


def invert_in_warp(_x: Any, _a: Any, _rows: int) -> int:
    """The same for the inverse of ``a``."""
    return -1


def factor_in_warp(_x: Any, _a: Any, _rows: int) -> int:
    """The same for the Cholesky factor of ``a``; 1 where it is not positive definite."""
    return -1


IN_WARP = (solve_in_warp, invert_in_warp, factor_in_warp)


def solved_by_lanes(row: list[Any], right: list[Any], by: Any) -> tuple[list[Any], Any]:
    """Gaussian elimination where each lane has a ``row`` of the matrix, and that of the ``right`` sides.

    Returns the solutions, of each right side the number of its row in a lane, and whether the matrix is singular. ``by``
    computes as ``solved`` has it, for all lanes at once; ``by.of_lane(value, lane)`` is that of one of them.
    """
    n = len(row)
    row, right, pivots = list(row), list(right), []
    failed: Any = None
    done = by.beyond(n)
    for k in range(n):
        pivots.append(by.greatest(row[k], done))
        pivot = by.of_lane(row[k], pivots[k])
        singular = by.is_zero(pivot)
        failed = singular if failed is None else by.either(failed, singular)
        done = by.either(done, by.is_lane(pivots[k]))
        factor = by.quotient(row[k], pivot)
        for numbers, first in ((row, k + 1), (right, 0)):
            for j in range(first, len(numbers)):
                less = by.reduced(numbers[j], factor, by.of_lane(numbers[j], pivots[k]))
                numbers[j] = by.choose(done, numbers[j], less)
    found = list(right)
    for k in reversed(range(n)):
        mine = by.is_lane(k)
        for j in range(len(right)):
            x = by.of_lane(by.quotient(right[j], row[k]), pivots[k])
            found[j] = by.choose(mine, x, found[j])
            # Of lanes whose pivots come later, nobody asks again.
            right[j] = by.reduced(right[j], row[k], x)
    return found, failed


def inverted_by_lanes(column: list[Any], by: Any) -> tuple[list[Any], list[Any], Any, Any]:
    """Gauss-Jordan elimination in place, where each lane has a ``column`` of the matrix: as a row of its transpose.

    Returns numbers that a lane has of a column of the inverse, the rows where they are, which column it is, and whether the
    matrix is singular.
    """
    column, rows = list(column), []
    failed: Any = None
    done, place = by.beyond(len(column)), by.index(0)
    for k in range(len(column)):
        rows.append(by.greatest(column[k], done))
        pivot = by.of_lane(column[k], rows[k])
        singular = by.is_zero(pivot)
        failed = singular if failed is None else by.either(failed, singular)
        here = by.is_lane(rows[k])
        done, place = by.either(done, here), by.choose(here, by.index(k), place)
        inverse, factor = by.quotient(by.one(pivot), pivot), by.quotient(column[k], pivot)
        for j in range(len(column)):
            of_pivot = by.of_lane(column[j], rows[k])
            column[j] = by.choose(here, by.product(of_pivot, inverse), by.reduced(column[j], factor, of_pivot))
        column[k] = by.choose(here, inverse, by.reduced(by.zero(pivot), factor, by.one(pivot)))
    return column, rows, place, failed


def factored_by_lanes(column: list[Any], by: Any) -> tuple[list[Any], Any]:
    """The Cholesky factor of a matrix of which each lane has a ``column``, and whether the matrix is not positive definite."""
    n, column = len(column), list(column)
    failed: Any = None
    for k in range(n):
        square = by.of_lane(column[k], k)
        refused = by.is_not_positive(square)
        failed = refused if failed is None else by.either(failed, refused)
        root = by.root(square)
        inverse, here = by.quotient(by.one(root), root), by.is_lane(k)
        column[k] = by.choose(here, root, column[k])
        below = [by.product(by.of_lane(column[i], k), inverse) for i in range(k + 1, n)]
        # What the lane's own row has there; 0 in columns that are done. Where that is times no number, the matrix is refused.
        own = by.zero(root)
        for i, number in enumerate(below, start=k + 1):
            own = by.choose(by.is_lane(i), number, own)
        for i, number in enumerate(below, start=k + 1):
            column[i] = by.choose(here, number, by.reduced(column[i], number, own))
    return [by.choose(by.beyond(i + 1), by.zero(each), each) for i, each in enumerate(column)], failed

"""Systems of equations that are small enough for registers: Gaussian elimination without a loop or an index.

The order of operations is known when code is made: each number has a register of its own, and rows are exchanged by choosing,
number by number. Golub and Van Loan, Matrix Computations, 3.4: partial pivoting; rows are exchanged as soon as a greater pivot
is met.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# Registers of 32 bits that a matrix may take: a thread has 255, and with 144 of them it needs about 175 and spills none.
MOST_REGISTERS = 144


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

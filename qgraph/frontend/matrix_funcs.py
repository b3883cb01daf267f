"""Dense solvers of one small system, for an iteration of a parallel loop: funcs, written in the language of kernels.

Each works on ``work``, memory of the iteration, and reads its operands before it writes; so its arrays may share memory. It
returns 1 where the matrix is singular, or not positive definite, and has then written nothing. Where the sizes are known when
code is made, and are small, the threads of a warp work together, if all are there; else ``rows`` is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.frontend.func_decorator import own_func
from qgraph.language import Static
from qgraph.operations.intrinsics import thread_array
from qgraph.operations.small_systems import factor_in_warp, invert_in_warp, solve_in_warp


@own_func
def solve_vector(x: Any, a: Any, b: Any, work: Any, rows: Static) -> int:
    """``x`` such that ``a @ x`` is the vector ``b``; ``work`` has a column more than ``a``."""
    failed = solve_in_warp(x, a, b, rows, 0) if rows else -1
    if failed >= 0:
        return failed
    return solve_vector_alone(x, a, b, thread_array(work, rows, rows + 1) if rows else work)


@own_func
def solve_vector_alone(x: Any, a: Any, b: Any, work: Any) -> int:
    """The same, by one thread."""
    n = a.shape[0]
    copy_in(work, a)
    for i in range(n):
        work[i, n] = b[i]
    failed = eliminate(work, n, n + 1)
    if failed == 0:
        for i in range(n):
            x[i] = work[i, n]
    return failed


@own_func
def solve_columns(x: Any, a: Any, b: Any, work: Any, rows: Static, columns: Static) -> int:
    """The same for each of the ``columns`` of the matrix ``b``; ``work`` has as many columns more."""
    failed = solve_in_warp(x, a, b, rows, columns) if rows else -1
    if failed >= 0:
        return failed
    return solve_columns_alone(x, a, b, thread_array(work, rows, rows + columns) if rows else work)


@own_func
def solve_columns_alone(x: Any, a: Any, b: Any, work: Any) -> int:
    """The same, by one thread."""
    n = a.shape[0]
    copy_in(work, a)
    for i in range(n):
        for j in range(b.shape[1]):
            work[i, n + j] = b[i, j]
    failed = eliminate(work, n, n + b.shape[1])
    if failed == 0:
        for i in range(n):
            for j in range(b.shape[1]):
                x[i, j] = work[i, n + j]
    return failed


@own_func
def invert(x: Any, a: Any, work: Any, rows: Static) -> int:
    """The inverse of ``a``; ``work`` is twice as wide."""
    failed = invert_in_warp(x, a, rows) if rows else -1
    if failed >= 0:
        return failed
    return invert_alone(x, a, thread_array(work, rows, 2 * rows) if rows else work)


@own_func
def invert_alone(x: Any, a: Any, work: Any) -> int:
    """The same, by one thread."""
    n = a.shape[0]
    copy_in(work, a)
    for i in range(n):
        for j in range(n):
            work[i, n + j] = 1 if i == j else 0
    failed = eliminate(work, n, 2 * n)
    if failed == 0:
        for i in range(n):
            for j in range(n):
                x[i, j] = work[i, n + j]
    return failed


@own_func
def factor_cholesky(x: Any, a: Any, work: Any, rows: Static) -> int:
    """The lower Cholesky factor of ``a``, of which the lower triangle is read; ``work`` is as large."""
    failed = factor_in_warp(x, a, rows) if rows else -1
    if failed >= 0:
        return failed
    return factor_alone(x, a, thread_array(work, rows, rows) if rows else work)


@own_func
def factor_alone(x: Any, a: Any, work: Any) -> int:
    """The same, by one thread."""
    n = a.shape[0]
    failed = 0
    for j in range(n):
        for i in range(j, n):
            left = a[i, j]
            for k in range(j):
                left -= work[i, k] * np.conj(work[j, k])
            if i > j:
                work[i, j] = left / work[j, j]
            elif np.real(left) > 0:
                work[j, j] = np.sqrt(np.real(left))
            else:
                # A nan is no answer, either, as in LAPACK.
                failed = 1
                work[j, j] = 1
    if failed == 0:
        for i in range(n):
            for j in range(n):
                x[i, j] = work[i, j] if j <= i else 0
    return failed


@own_func
def copy_in(work: Any, a: Any) -> None:
    """The matrix, as the first columns."""
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            work[i, j] = a[i, j]


@own_func
def eliminate(work: Any, n: int, columns: int) -> int:
    """Gaussian elimination with partial pivoting of ``n`` columns; the solutions take the place of the right-hand sides."""
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(work[i, k]) > abs(work[pivot, k]):
                pivot = i
        if work[pivot, k] == 0:
            return 1
        for j in range(k, columns):
            kept = work[k, j]
            work[k, j] = work[pivot, j]
            work[pivot, j] = kept
        for i in range(k + 1, n):
            factor = work[i, k] / work[k, k]
            for j in range(k + 1, columns):
                work[i, j] -= factor * work[k, j]
    substitute(work, n, columns)
    return 0


@own_func
def substitute(work: Any, n: int, columns: int) -> None:
    """Back substitution in each column of the right-hand sides."""
    for j in range(n, columns):
        for back in range(n):
            i = n - 1 - back
            left = work[i, j]
            for k in range(i + 1, n):
                left -= work[i, k] * work[k, j]
            work[i, j] = left / work[i, i]

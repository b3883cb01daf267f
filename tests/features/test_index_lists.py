"""Lists of indices, which NumPy takes for arrays of indices: `x[[0, 2]]`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError
from tests.conftest import thorough


@qgraph.func
def exchanged(v: Any, k: Any) -> Any:
    v[[0, 1]] = v[[1, 0]]
    return v[[0, k]].sum()


def read(x: Any, a: Any, n: Any) -> Any:
    return x[[0, n]] * 2, a[:, [2, 0]], a[[0, -1]][:, [1, -1]], a[[0, 1], [1, n]], a[1, [0, 2]], np.sum(a[[0, 1]])


def written(x: Any, a: Any, n: Any) -> Any:
    x[[0, 2]] = 5
    x[[0, 2, 0]] += x[[1, 1, n]]
    a[[0, 2], :2] = x[[3, 4]]
    return exchanged(x, n)


def in_control_flow(x: Any, a: Any, n: Any) -> Any:
    if x[[0, 1]].sum() > 0:
        x[[n]] = 4
    else:
        x[[1]] = 3
    while x[[0, n]].max() < 10:
        x[[0, n]] = x[[0, n]] * 2 + 1
    for i in range(a.shape[0]):
        a[i, 0] += i
    return x[[3, 1]][0] + x[[True, False, True, False, True]].sum()


@pytest.mark.parametrize("n", [1, *thorough(2)])
@pytest.mark.parametrize("program", [read, written, in_control_flow], ids=lambda program: program.__name__)
def test_lists_of_indices(check: Any, program: Any, n: int) -> None:
    check(program, lambda: (np.arange(5.0), np.arange(12.0).reshape(3, 4), n))


def in_a_loop(a: Any, x: Any) -> None:
    for i in range(a.shape[0]):
        a[i] = np.sum(x[[0, 1]])


def nothing(a: Any, x: Any) -> None:
    a[:] = x[[]].sum()


def nested(a: Any, x: Any) -> Any:
    return x[[[0, 1], [1, 0]]]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (in_a_loop, r"a list cannot be used in a loop(.|\n)*an array of indices before the loop, k = np.array\(\(0, 2\)\)"),
        (nothing, "a list cannot be used in a kernel"),
        (nested, "a list cannot be used in a kernel"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_lists_that_are_refused(rig: Any, program: Any, said: str) -> None:
    with pytest.raises(KernelSyntaxError, match=said):
        qgraph.kernel(backend=rig.backend)(program)(np.zeros(3), np.ones(3))

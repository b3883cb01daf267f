"""Ten array operations, one behind the other: how does their time compare with that of one loop written by hand?

``python -m benchmarks.array_chain [--quick]``, on a GPU or, where there is none, on the CPU. The loop is Numba's: a kernel with
an element a thread, or ``prange``. The operations are one expression, or ten statements that each make an array, which
``fuse=True`` joins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange

import qgraph
from benchmarks import plots
from benchmarks.cpu import paired
from benchmarks.results import Answer, Target, has_gpu, main

COUNT, QUICK = 1 << 26, 1 << 16
# Of the time of the loop.
LIMIT = 1.15


def expression(y, a, b, c):
    """Ten operations in one statement."""
    y[:] = ((((a * b + c) * a - b) * c + a) * b - c) * a + b


def statements(y, a, b, c):
    """The same in ten, of which each makes an array."""
    t0 = a * b
    t1 = t0 + c
    t2 = t1 * a
    t3 = t2 - b
    t4 = t3 * c
    t5 = t4 + a
    t6 = t5 * b
    t7 = t6 - c
    t8 = t7 * a
    y[:] = t8 + b


@njit(parallel=True)
def loop(y, a, b, c):
    """The same by hand, on all cores."""
    for i in prange(y.shape[0]):
        y[i] = ((((a[i] * b[i] + c[i]) * a[i] - b[i]) * c[i] + a[i]) * b[i] - c[i]) * a[i] + b[i]


def _on_gpu() -> Callable[..., Any]:
    from numba import cuda

    @cuda.jit
    def kernel(y, a, b, c):
        i = cuda.grid(1)
        if i < y.shape[0]:
            y[i] = ((((a[i] * b[i] + c[i]) * a[i] - b[i]) * c[i] + a[i]) * b[i] - c[i]) * a[i] + b[i]

    def run(*arrays: Any) -> None:
        kernel[-(-arrays[0].shape[0] // 256), 256](*arrays)

    return run


def _for_numba(arrays: list[Any]) -> list[Any]:
    from numba import cuda

    return [cuda.as_cuda_array(each) for each in arrays]


FORMS: dict[str, tuple[Callable[..., Any], bool]] = {"expression": (expression, False), "statements": (statements, True)}


def measure(quick: bool) -> Answer:
    """Microseconds a call, both taking turns on the same arrays, until all work is done."""
    backend, where = ("cuda", "a GPU") if has_gpu() else ("cpu", "the CPU")
    count = QUICK if quick else COUNT
    name = "array_chain" if backend == "cuda" else "array_chain_cpu"
    columns = ("operations", "dtype", "fuse", "qgraph", "by hand", "ratio")
    answer = Answer(name, f"Ten operations on {count:,} elements on {where}, us a call", columns)
    by_hand = _on_gpu() if backend == "cuda" else loop
    for form, (function, fuse) in FORMS.items():
        for dtype in ("float32", "float64"):
            values = [np.random.default_rng(number).random(count).astype(dtype) for number in range(4)]
            kernel = qgraph.kernel(backend=backend, fuse=fuse)(function)
            check(kernel, function, [value[:1000] for value in values], backend)
            arrays = [qgraph.asarray(value, backend=backend) for value in values]
            given = _for_numba(arrays) if backend == "cuda" else values
            runs = [functools.partial(_until_done, kernel, arrays), functools.partial(_until_done, by_hand, given)]
            (ours, theirs), ratio = paired(runs, rounds=5 if quick else 15)
            found = (form, dtype, fuse, ours.as_json(), theirs.as_json(), ratio)
            answer.rows.append(dict(zip(columns, found, strict=True)))
            answer.targets.append(Target(f"{form}, {dtype}: time over that of the loop", ratio, "<=", LIMIT, "x"))
    return answer


def _until_done(run: Callable[..., Any], arrays: list[Any]) -> None:
    run(*arrays)
    qgraph.synchronize()


def check(kernel: Callable[..., Any], function: Callable[..., Any], values: list[np.ndarray], backend: Any) -> None:
    """The kernel gives what NumPy does."""
    expected, arrays = [value.copy() for value in values], [qgraph.asarray(value.copy(), backend=backend) for value in values]
    function(*expected)
    kernel(*arrays)
    np.testing.assert_allclose(qgraph.to_numpy(arrays[0]), expected[0], rtol=1e-4 if values[0].dtype == "float32" else 1e-12)


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a form and dtype: the time over that of the loop, and the limit."""
    title = "Ten array operations: time, as a multiple of one loop's"
    plots.below(record, file, ("operations", "dtype"), LIMIT, title=title, what="the loop")


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))

"""Does the sum of a profile agree with the run without one? The calls that the examples make, with and without, in turns.

``python -m benchmarks.profile_sums [--quick]``
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import io
import pkgutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import examples
import qgraph
from benchmarks import plots
from benchmarks.results import Answer, Target, has_gpu, main
from qgraph.kernel import Kernel

COLUMNS = ("call", "call_ms", "sum_ms", "sum over call", "stamps")
# Both sums and calls, where a call takes milliseconds: what is launched is some tens of microseconds besides.
NEAR, FROM_MS = 0.05, 2.0
# The demo runs its kernel in several ways, the animations what others have; NPBench's programs have benchmarks of their own.
LEFT_OUT = ("inpaint", "animations", "npbench")


def calls() -> Iterator[tuple[str, Kernel[..., Any], tuple[Any, ...]]]:
    """The last call of each kernel in the examples whose libraries are installed, with what it was given."""
    plain = Kernel.__call__
    for name in sorted(module.name for module in pkgutil.iter_modules(examples.__path__)):
        seen: dict[str, tuple[Kernel[..., Any], tuple[Any, ...]]] = {}

        def noted(kernel: Kernel[..., Any], *args: Any, _seen: dict[str, Any] = seen) -> Any:
            _seen[kernel.__name__] = kernel, copied(args)
            return plain(kernel, *args)

        if name in LEFT_OUT:
            continue
        with patch.object(Kernel, "__call__", noted), contextlib.redirect_stdout(io.StringIO()):
            try:
                importlib.import_module(f"examples.{name}").main()
            except ImportError:
                continue
        for kernel, args in seen.values():
            yield name, kernel, args


def copied(value: Any) -> Any:
    """Arguments with arrays of their own."""
    if isinstance(value, tuple):
        parts = map(copied, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: copied(getattr(value, name)) for name in names})
    if hasattr(value, "__cuda_array_interface__"):
        return qgraph.asarray(qgraph.to_numpy(value), backend="cuda")
    return copy.deepcopy(value)


def refill(kept: Any, values: Any) -> None:
    """Give arrays of arguments the values that those of others have."""
    if isinstance(kept, tuple):
        for mine, other in zip(kept, values, strict=True):
            refill(mine, other)
    elif dataclasses.is_dataclass(kept):
        for each in dataclasses.fields(kept):
            refill(getattr(kept, each.name), getattr(values, each.name))
    elif hasattr(kept, "__cuda_array_interface__") or isinstance(kept, np.ndarray):
        kept[...] = qgraph.to_numpy(values)


def timed(run: Callable[..., Any], given: Any) -> tuple[float, Any]:
    """Milliseconds of a call with the arguments ``given``, and what it gives."""
    qgraph.synchronize()
    began = time.perf_counter()
    found = run(*given)
    qgraph.synchronize()
    return (time.perf_counter() - began) * 1e3, found


def measure(quick: bool) -> Answer:
    """Milliseconds of each call, with and without a profile in turns, and of the profile's own sum."""
    where = "" if has_gpu() else "_cpu"
    answer = Answer(f"profile_sums{where}", "kernel.profile of the examples' calls, ms", COLUMNS)
    for name, kernel, args in calls():
        # The same arrays for both: where an array lies in the cache of an H200 can be worth a tenth of a short loop.
        given = copied(args)

        def of(run: Callable[..., Any], given: Any = given, args: Any = args) -> tuple[float, Any]:
            refill(given, args)
            return timed(run, given)

        for run in (kernel, kernel.profile):
            # The second call may run otherwise than the first, in copies of a loop for one.
            of(run)
            of(run)
        # The second of two calls in a row: behind another graph a launch takes longer, by up to 0.3 ms on an H200.
        turns = [(of(kernel) and of(kernel)[0], of(kernel.profile)[1]) for _ in range(2 if quick else 7)]
        call = statistics.median(plain for plain, _ in turns)
        total = statistics.median(profile.total for _, profile in turns) / 1e6
        stamps = sum(row.count for row in turns[-1][1].rows if row.kind == "task")
        figures = (round(call, 3), round(total, 3), round(total / call, 3), stamps)
        answer.rows.append(dict(zip(COLUMNS, (name, *figures), strict=True)))
        if call >= FROM_MS:
            answer.targets.append(Target(f"{name}: sum over call, apart from 1", round(abs(total / call - 1), 3), "<=", NEAR))
    return answer


def draw(record: dict[str, Any], file: Path) -> None:
    """The sum of each profile over the time of the call without one."""
    rows = record["rows"]
    figure, axes = plots.figure("Sum of a profile over the call without one", record, height=0.9 + 0.26 * len(rows))
    axes.barh([row["call"] for row in rows], [row["sum over call"] for row in rows], color=plots.COLOURS["qgraph"])
    axes.axvline(1.0, color="#7b8794", linewidth=1)
    axes.invert_yaxis()
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))

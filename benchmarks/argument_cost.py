"""What does a call cost where nothing changed, by what its arguments are? Against the driver's own launch of the same graph."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.chains import N
from benchmarks.launch import expect
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing
from qgraph.dispatch.dispatch_cache import MAX_RECENT

ARRAYS, FIELDS = 6, 65
# Microseconds more than the driver's launch, through its Python bindings: a bound call, and calls with these arguments.
BOUND = 0.15
MORE = {"qgraph": 0.8, "Numba": 0.8, "CuPy": 0.8, "PyTorch": 1.3, f"{FIELDS} fields": 2.0}
COLUMNS = (
    "arguments",
    "cuGraphLaunch",
    f"{MAX_RECENT} graphs in turn",
    "bound",
    "unchanged",
    f"{MAX_RECENT} sets in turn",
)

Fields = dataclasses.make_dataclass("Fields", [f"x{number}" for number in range(FIELDS)])


def six(a, b, c, d, e, x):
    """The sum of five arrays in a sixth."""
    for i in range(x.shape[0]):
        x[i] = a[i] + b[i] + c[i] + d[i] + e[i]


def of_fields(fields):
    """The same in fields of a dataclass."""
    for i in range(fields.x64.shape[0]):
        fields.x64[i] = fields.x0[i] + fields.x1[i] + fields.x2[i] + fields.x3[i] + fields.x4[i]


def measure(quick: bool) -> Answer:
    """CPU microseconds of a call for each kind of arguments."""
    # As in a process that compiled its kernels. One that found them on disk has no machine code for its first 50,000 calls.
    import llvmlite.binding  # noqa: F401

    title = f"CPU cost of a call with {ARRAYS} arrays of {N:,} float32, or a dataclass of {FIELDS}, us"
    answer = Answer("argument_cost", title, COLUMNS)
    for kind in MORE:
        row = parts.attempt(answer, kind, f"qgraph with {kind}", functools.partial(_row, kind))
        if row is not None:
            answer.rows.append({"arguments": kind, **{name: timed.as_json() for name, timed in row.items()}})
            answer.targets += _targets(kind, {name: timed.median for name, timed in row.items()})
    return answer


def _row(kind: str) -> dict[str, Timing]:
    """The times of one kind of arguments, once its answers are right."""
    make = _MAKERS.get(kind, _qgraph)
    sets = [_arguments(kind, make) for _ in range(MAX_RECENT)]
    function = of_fields if len(sets[0]) == 1 else six
    kernel = qgraph.kernel(backend="cuda")(function)
    # Both are handed out by an iterator, which takes some time itself.
    following, same = itertools.cycle(sets).__next__, itertools.repeat(sets[0]).__next__

    def unchanged() -> None:
        kernel(*same())

    def in_turn() -> None:
        kernel(*following())

    for _ in range(8 * len(sets)):
        in_turn()
    qgraph.synchronize()
    for arguments in sets:
        last = arguments[0].x64 if len(arguments) == 1 else arguments[-1]
        expect(qgraph.to_numpy(last), sum(range(1, ARRAYS)), kind)
    bound = kernel.bind(*sets[0])
    # Of kernels of their own: who gives its graph away keeps none for sets that take turns.
    given = [qgraph.kernel(backend="cuda")(function).bind(*arguments) for arguments in sets]
    # What is compared is timed in turns: a machine may change its pace.
    samples: list[tuple[Timing, ...]] = []
    for _ in range(9):
        actions = (_raw(given[0]), _raw_in_turn(given), bound.launch, unchanged, in_turn)
        samples.append(tuple(timing.cpu(action, qgraph.synchronize) for action in actions))
    columns = [timing.middle(column) for column in zip(*samples, strict=True)]
    return dict(zip(COLUMNS[1:], columns, strict=True))


def _raw(bound: Any) -> Callable[[], Any]:
    """The driver's launch of a bound kernel's graph, as ``cuda.bindings`` has it."""
    from cuda.bindings import driver

    launch, stream = driver.cuGraphLaunch, driver.CUstream(0)
    executable = bound.graph.executable

    def action(_bound: Any = bound) -> None:
        launch(executable, stream)

    return action


def _raw_in_turn(several: Sequence[Any]) -> Callable[[], Any]:
    """The same of several, one after the other."""
    from cuda.bindings import driver

    launch, stream = driver.cuGraphLaunch, driver.CUstream(0)
    following = itertools.cycle([bound.graph.executable for bound in several]).__next__

    def action(_several: Any = several) -> None:
        launch(following(), stream)

    return action


def _arguments(kind: str, make: Callable[[Any], Any]) -> Sequence[Any]:
    if kind == f"{FIELDS} fields":
        return (Fields(*(make(np.full(N, (number % 64) + 1, np.float32)) for number in range(FIELDS))),)
    return [make(np.full(N, number + 1, np.float32)) for number in range(ARRAYS)]


def _qgraph(array: Any) -> Any:
    return qgraph.asarray(array, backend="cuda")


def _numba(array: Any) -> Any:
    from qgraph.compat.numba_cuda import cuda

    return cuda.to_device(array)


def _cupy(array: Any) -> Any:
    import cupy

    return cupy.asarray(array)


def _torch(array: Any) -> Any:
    import torch

    return torch.from_numpy(array).cuda()


_MAKERS: dict[str, Callable[[Any], Any]] = {"Numba": _numba, "CuPy": _cupy, "PyTorch": _torch}


def _targets(kind: str, found: dict[str, float]) -> list[Target]:
    raw, turns = found["cuGraphLaunch"], f"{MAX_RECENT} sets in turn"
    return [
        Target(f"{kind}: a bound call, more than cuGraphLaunch", found["bound"] - raw, "<=", BOUND, "us"),
        Target(f"{kind}: the last call again, more than cuGraphLaunch", found["unchanged"] - raw, "<=", MORE[kind], "us"),
        Target(f"{kind}: {turns}, over unchanged ones", found[turns] / found["unchanged"], "<=", 1.1, "x"),
    ]


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars for each kind of arguments."""
    figure, axes = plots.figure("CPU time of a call where nothing changed", record)
    rows = record["rows"]
    named = ("raw C, host loop", "CPU of the call", "qgraph", "numba-cuda")
    colours = (plots.INK, *(plots.COLOURS[name] for name in named))
    width = 0.8 / len(colours)
    for number, (column, colour) in enumerate(zip(COLUMNS[1:], colours, strict=True)):
        places = [place + (number - (len(colours) - 1) / 2) * width for place in range(len(rows))]
        axes.bar(places, [row[column]["median"] for row in rows], width * 0.92, color=colour, label=column)
    axes.set_xticks(range(len(rows)), [row["arguments"] for row in rows])
    axes.set_ylabel("microseconds")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))

"""Programs of NumPy as people write them: those of NPBench, at its sizes "L", in qgraph and in what else runs NumPy's source.

``python -m benchmarks.npbench [--only gemm ...] [--without NumPy ...] [--quick] [--device cpu]``

qgraph, NumPy, Numba (``njit``) and CuPy run one source, the words of qgraph taken away for the others; JAX has versions of its
own (``npbench_in_jax``). Each is checked against plain Python at a small size and against qgraph at the size measured. With
``--device cpu`` the question is how soon a program runs: the first call without a cache, and in a new process with one.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib
import inspect
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("QGRAPH_CACHE", "0")

import numpy as np

import qgraph
from benchmarks import parts, plots
from benchmarks.npbench_sizes import LARGE
from benchmarks.peers import Device, require
from benchmarks.results import Answer, Target
from benchmarks.timing import Timing
from examples.npbench import data, grids, linear_algebra
from examples.npbench.programs import PROGRAMS, Program
from qgraph.language import Func

MODULES = {"linear_algebra": linear_algebra, "grids": grids, "data": data}
FUSED = "qgraph, fuse=True"
PEERS = ("qgraph", FUSED, "NumPy", "Numba", "CuPy", "JAX")
COLUMNS = ("program", "size", "peer", "us", "ratio", "words", "first call, s", "new process, s")
WORDS = ("serial", "static", "parallel", "Static")
# Seconds for the calls that are measured; and for the first ones of a peer, with what it compiles, which are stopped then.
SECONDS, LONGEST = 0.2, {"NumPy": 2.0, "Numba": 20.0, "CuPy": 2.0, "JAX": 20.0}
# Where a difference of the last bit grows to all of the answer, which is compared at the size of the tests only.
CHAOTIC = ("nbody",)
# Wanted on the CPU: seconds of a first call, and of one in a new process with a warm cache.
COLD, WARM = 3.0, 0.3
# A program run in a new process: the seconds of its first call.
_START = """
import sys, time, warnings
warnings.simplefilter("ignore")
import qgraph
from examples.npbench import data, grids, linear_algebra
from examples.npbench.programs import PROGRAMS
program = PROGRAMS[sys.argv[1]]
args, kernel = program.make(program.size), qgraph.kernel(backend="cpu")(program.function)
start = time.perf_counter()
kernel(*args)
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Way:
    """How one library runs a program.

    ``run`` takes the arguments and gives the results and the new values of the arguments that change; ``place`` puts an
    argument where the library wants it, ``fresh`` copies one, ``wait`` returns when all work is done, and ``free`` gives memory
    back that the library keeps.
    """

    run: Callable[..., tuple[Any, ...]]
    place: Callable[[Any], Any]
    fresh: Callable[[Any], Any]
    wait: Callable[[], Any] = lambda: None
    free: Callable[[], Any] = lambda: None


class _Plain(ast.NodeTransformer):
    """Takes the words of qgraph away."""

    def __init__(self) -> None:
        self.words = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in WORDS and ast.unparse(node.func.value) == "qgraph":
            self.words += 1
            return node.args[0]
        return node


def words_and_plain(
    program: Program, numpy: Any = np, wrap: Callable[[Any], Any] = lambda function: function
) -> tuple[int, Callable[..., Any]]:
    """The number of words of qgraph in a program and its helpers; and it without them, with another library as ``np``."""
    words, namespace = 0, {**vars(inspect.getmodule(program.function)), "np": numpy}
    needed = [program.function]
    for function in needed:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        helpers = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        found = (namespace.get(name) for name in sorted(helpers))
        needed += [each.source.function for each in found if isinstance(each, Func) and each.source.function not in needed]
    for function in reversed(needed):
        tree, plain = ast.parse(textwrap.dedent(inspect.getsource(function))), _Plain()
        definition = plain.visit(tree).body[0]
        words += plain.words
        definition.decorator_list, definition.returns = [], None
        for argument in definition.args.args:
            words += argument.annotation is not None and "Static" in ast.unparse(argument.annotation)
            argument.annotation = None
        exec(compile(ast.fix_missing_locations(tree), "<plain>", "exec"), namespace)
        namespace[function.__name__] = wrap(namespace[function.__name__])
    return words, namespace[program.function.__name__]


def begin(device: Device) -> Answer:
    """An answer without rows."""
    if device == "cpu":
        return Answer("npbench_cpu", "Programs of NumPy (NPBench), small: how soon they run on the CPU, and us a call", COLUMNS)
    return Answer("npbench", "Programs of NumPy (NPBench) at its sizes L, from the call to its end, us", COLUMNS)


def measure(name: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one program."""
    warnings.simplefilter("ignore")
    program, times = PROGRAMS[name], dict[str, Timing]()
    more: dict[str, dict[str, float]] = {"words": {"qgraph": words_and_plain(program)[0]}}
    small = program.make(program.size)
    expected, changed = _expected(program, small)
    at_tests = quick or device == "cpu"
    args, wanted = small if at_tests else LARGE[name](), None
    for peer, make in _ways(name, changed, device).items():
        if peer in answer.missing:
            continue
        start = time.perf_counter()
        way = _attempt(answer, name, peer, functools.partial(_checked, make, small, changed, expected))
        if way is None:
            continue
        if peer == "qgraph" and device == "cpu":
            more["first call, s"] = {"qgraph": round(time.perf_counter() - start, 2)}
        found = _attempt(answer, name, peer, functools.partial(_measured, way, args, changed, wanted, device))
        if found is not None:
            times[peer], outputs = found
            wanted = wanted or (outputs if device == "cuda" and name not in CHAOTIC else None)
        way.free()
    if device == "cpu":
        more["new process, s"] = {"qgraph": round(_started(name), 2)}
    parts.add_rows(answer, name, "tests" if at_tests else "L", times, more)


def _attempt(answer: Answer, name: str, peer: str, make: Callable[[], Any]) -> Any:
    """As for any peer; what qgraph refuses by name is a row that is missing, too."""
    limit = patience(LONGEST[peer]) if peer in LONGEST else contextlib.nullcontext()
    key = f"{name}: {peer}"
    try:
        with limit:
            found = parts.attempt(answer, name, peer, make)
        if key in answer.missing:
            # Numba's messages go on with all that it tried.
            answer.missing[key] = answer.missing[key].partition(" (step")[0]
        return found
    except qgraph.QGraphError as error:
        here = f"{Path(__file__).resolve().parent.parent}{os.sep}"
        answer.missing[key] = " ".join(str(error).replace(here, "").split())[:300]
        return None


def _expected(program: Program, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The outputs of plain Python, and the places of the arguments that it changes."""
    given = copy.deepcopy(args)
    result = words_and_plain(program)[1](*given)
    pairs = enumerate(zip(args, given, strict=True))
    changed = tuple(k for k, (old, new) in pairs if isinstance(old, np.ndarray) and not np.array_equal(old, new))
    return (*flat(result), *(given[k] for k in changed)), changed


def flat(result: Any) -> tuple[Any, ...]:
    """What a program returns, each for itself."""
    return () if result is None else result if isinstance(result, tuple) else (result,)


def _ways(name: str, changed: tuple[int, ...], device: Device) -> dict[str, Callable[[], Way]]:
    """What makes each library's way of running a program."""
    makers = {
        "qgraph": _with_qgraph,
        FUSED: _with_fusion,
        "NumPy": _with_numpy,
        "Numba": _with_numba,
        "CuPy": _with_cupy,
        "JAX": _with_jax,
    }
    return {peer: functools.partial(make, name, changed, device) for peer, make in makers.items()}


def _running(function: Callable[..., Any], changed: tuple[int, ...]) -> Callable[..., tuple[Any, ...]]:
    def run(*args: Any) -> tuple[Any, ...]:
        return (*flat(function(*args)), *(args[k] for k in changed))

    return run


def _with_qgraph(name: str, changed: tuple[int, ...], device: Device, *, fuse: bool = False) -> Way:
    kernel = qgraph.kernel(backend=device, fuse=fuse)(PROGRAMS[name].function)
    run = _running(kernel, changed)
    if device == "cpu":
        return Way(run, copy.copy, copy.copy)
    require("cupy", device)
    require("torch", device)
    import cupy
    import torch

    def free() -> None:
        kernel.clear_cache()
        torch.cuda.empty_cache()

    return Way(run, _to(cupy.asarray), copy.copy, cupy.cuda.Device().synchronize, free)


def _with_fusion(name: str, changed: tuple[int, ...], device: Device) -> Way:
    return _with_qgraph(name, changed, device, fuse=True)


def _with_numpy(name: str, changed: tuple[int, ...], device: Device) -> Way:
    return Way(_running(words_and_plain(PROGRAMS[name])[1], changed), copy.copy, copy.copy)


def _with_numba(name: str, changed: tuple[int, ...], device: Device) -> Way:
    import numba

    return Way(_running(words_and_plain(PROGRAMS[name], np, numba.njit)[1], changed), copy.copy, copy.copy)


def _with_cupy(name: str, changed: tuple[int, ...], device: Device) -> Way:
    require("cupy", device)
    import cupy

    run = _running(words_and_plain(PROGRAMS[name], cupy)[1], changed)
    free = cupy.get_default_memory_pool().free_all_blocks
    return Way(run, _to(cupy.asarray), copy.copy, cupy.cuda.Device().synchronize, free)


def _with_jax(name: str, changed: tuple[int, ...], device: Device) -> Way:
    require("jax", device)
    import jax

    jax.config.update("jax_enable_x64", True)
    for module in MODULES:
        importlib.import_module(f"benchmarks.npbench_in_jax.{module}")
    version = importlib.import_module("benchmarks.npbench_in_jax.versions").VERSIONS[name]
    compiled = jax.jit(version.function, static_argnames=version.static)
    names = list(inspect.signature(version.function).parameters)

    def run(*args: Any) -> tuple[Any, ...]:
        # By name, since an argument that is static by name may come by place in some versions of JAX only.
        outputs = jax.block_until_ready(compiled(**dict(zip(names, args, strict=True))))
        results = len(outputs) - len(version.changes)
        new = dict(zip(version.changes, outputs[results:], strict=True))
        return (*outputs[:results], *(new[names[k]] for k in changed))

    return Way(run, _to(jax.numpy.asarray), lambda each: each, free=jax.clear_caches)


def _to(put: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    return lambda each: put(each) if isinstance(each, np.ndarray) else each


def _checked(make: Callable[[], Way], args: tuple[Any, ...], changed: tuple[int, ...], expected: tuple[Any, ...]) -> Way:
    """A way that gave what plain Python gives, at the size of the tests."""
    way = make()
    try:
        outputs = way.run(*_given(way, [way.place(each) for each in args], changed))
    except AssertionError as error:
        # Numba's compiler has assertions of its own, and those are no wrong answer.
        raise RuntimeError("an assertion of its own does not hold") from error
    for found, wanted in zip(outputs, expected, strict=True):
        assert _close(qgraph.to_numpy(found), qgraph.to_numpy(wanted), np), f"{found} and not {wanted}"
    return way


def _measured(
    way: Way, args: tuple[Any, ...], changed: tuple[int, ...], wanted: tuple[Any, ...] | None, device: Device
) -> tuple[Timing, tuple[Any, ...]]:
    """Times of calls with fresh arguments, and the outputs of the last, which are those ``wanted``."""
    placed = [way.place(each) for each in args]
    outputs = way.run(*_given(way, placed, changed))
    way.wait()
    samples: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(samples) < 3 or (time.perf_counter() < until and len(samples) < 25):
        given = _given(way, placed, changed)
        start = time.perf_counter()
        outputs = way.run(*given)
        way.wait()
        samples.append((time.perf_counter() - start) * 1e6)
        if samples[0] > 1e6:
            break
    if wanted is not None:
        import cupy

        for number, (found, other) in enumerate(zip(outputs, wanted, strict=True)):
            assert _close(cupy.asarray(found), cupy.asarray(other), cupy), f"output {number} is another than qgraph's"
    return Timing.of(samples), outputs


def _given(way: Way, placed: list[Any], changed: tuple[int, ...]) -> list[Any]:
    """Arguments for one call: those that it changes are copies."""
    given = [way.fresh(each) if k in changed else each for k, each in enumerate(placed)]
    way.wait()
    return given


def _close(found: Any, wanted: Any, numpy: Any) -> bool:
    """Whether two arrays are equal but for rounding, or all but a thousandth of them: a fractal's edge is chaotic."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    scale = float(numpy.abs(numpy.where(numpy.isfinite(wanted), wanted, 0)).max()) if wanted.size else 0.0
    apart = ~numpy.isclose(found, wanted, 1e-6, 1e-6 * scale, equal_nan=True)
    return bool(apart.sum() <= wanted.size // 1000)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Stop what takes longer: Python's loops over elements take minutes."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"stopped after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _started(name: str) -> float:
    """Seconds of a first call in a new process with a warm cache."""
    with tempfile.TemporaryDirectory() as folder:
        # With bytecode, as installed modules have it.
        apart = {"QGRAPH_CACHE": "1", "QGRAPH_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": folder}
        environment = {**os.environ, **apart}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(2):
            command = [sys.executable, "-c", _START, name]
            found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(found.stdout)


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Ahead of each peer at L, with ``fuse=True`` or without; on the CPU, soon enough."""
    found = []
    at_large = [row for row in rows if row["size"] == "L"]
    best = _best(at_large, key)
    for row in at_large:
        if not row["peer"].startswith("qgraph") and row[key] in best:
            ahead = round(row["us"]["median"] / best[row[key]], 4)
            found.append(Target(f"{row[key]}: time of {row['peer']} over qgraph's, the faster one", ahead, ">=", 1.0, "x"))
    for column, most in (("first call, s", COLD), ("new process, s", WARM)):
        here = [row for row in rows if row["size"] == "tests" and column in row]
        found += [Target(f"{row[key]}: {column}", row[column], "<=", most, "s") for row in here]
    return found


def draw(record: dict[str, Any], file: Path) -> None:
    """A line a program, and on it a point a peer: its time over that of the faster qgraph, which is ahead of what is right."""
    names = dict.fromkeys(row["program"] for row in record["rows"])
    height = 2.0 + 0.18 * len(names)
    drawn, axes = plots.figure("Programs of NumPy: time over qgraph's", record, width=8.0, height=height)
    best = _best(record["rows"], "program")
    for peer in (each for each in PEERS if any(row["peer"] == each for row in record["rows"])):
        here = [row for row in record["rows"] if row["peer"] == peer and row["program"] in best]
        times = [row["us"]["median"] / best[row["program"]] for row in here]
        places = [list(names).index(row["program"]) for row in here]
        axes.plot(times, places, "o", color=plots.COLOURS.get(peer, plots.INK), label=peer, markersize=5, alpha=0.85)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), list(names), fontsize=7)
    axes.set_ylim(len(names), -1)
    axes.axvline(1, color=plots.COLOURS["qgraph"], linewidth=1.2)
    axes.set_xlabel("time over that of qgraph, the faster one of both")
    axes.grid(visible=True, axis="y", color="#e4e7eb", linewidth=0.6)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=len(PEERS))
    plots.save(drawn, file)


def _best(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """The microseconds of the faster qgraph, by program."""
    best: dict[str, float] = {}
    for row in rows:
        if row["peer"].startswith("qgraph"):
            best[row[key]] = min(best.get(row[key], math.inf), row["us"]["median"])
    return best


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {name: functools.partial(measure, name) for name in sorted(PROGRAMS)}, draw, judge))

"""Does a loop that solves a small system in each iteration keep up with the batched solvers of libraries?

``python -m benchmarks.small_solves [--only "solve 6x6, float32" ...] [--quick] [--device cpu]``

Microseconds for 65,536 systems, each of its own matrix. On the CPU NumPy, which solves the whole stack, is the peer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import panels, parts, timing
from benchmarks.peers import Device, Run, nothing, require
from benchmarks.results import Answer, Target
from qgraph.compat.numpy import as_before_2_5

COLUMNS = ("systems", "size", "peer", "us", "ratio")
COUNT, QUICK = 65_536, 1_024
PEERS = ("NumPy", "CuPy", "PyTorch", "PyTorch, unchecked", "nvmath", "qgraph, one library call")
TOLERANCE = {"float32": 1e-3, "float64": 1e-10}


def _solve(a, b, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])


def _invert(a, b, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.inv(a[i])


def _factor(a, b, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.cholesky(a[i])


def _solve_at_once(a, b, x):
    x[:] = np.linalg.solve(a, b)


def _invert_at_once(a, b, x):
    x[:] = np.linalg.inv(a)


def _factor_at_once(a, b, x):
    x[:] = np.linalg.cholesky(a)


@dataclasses.dataclass(frozen=True)
class Systems:
    """One kind of systems: ``name`` of ``numpy.linalg``, of matrices of so many ``rows``."""

    name: str
    rows: int
    dtype: str

    @property
    def in_a_loop(self) -> Callable[..., None]:
        """A loop with a system in each iteration."""
        return {"solve": _solve, "inv": _invert, "cholesky": _factor}[self.name]

    @property
    def at_once(self) -> Callable[..., None]:
        """The same of whole stacks, by a library."""
        return {"solve": _solve_at_once, "inv": _invert_at_once, "cholesky": _factor_at_once}[self.name]

    def of(self, library: Any, a: Any, b: Any, ending: str = "") -> Any:
        """The answer of a library of batched functions."""
        function = getattr(library, f"{self.name}{ending}")
        found = function(a, b) if self.name == "solve" else function(a)
        return found[0] if ending else found


SYSTEMS = {
    f"{name} {rows}x{rows}, {dtype}": Systems(name, rows, dtype)
    for name, rows, dtype in (
        *(("solve", rows, "float32") for rows in (6, 12, 16, 32)),
        *(("solve", rows, "float64") for rows in (6, 16, 32)),
        *((name, rows, "float32") for name in ("inv", "cholesky") for rows in (6, 16)),
    )
}


def problem(systems: Systems, count: int) -> tuple[Any, Any, Any]:
    """Matrices, right sides as columns, and NumPy's answers in float64: of systems that need row exchanges, where they may."""
    rng = np.random.default_rng(0)
    rows = systems.rows
    # Rows in any order, each with an element that is greater than the others together: well-conditioned.
    order = rng.permuted(np.arange(rows)[None].repeat(count, 0), axis=1)
    a = rng.random((count, rows, rows)) - 0.5 + rows * np.eye(rows)[order]
    if systems.name == "cholesky":
        a = a @ a.swapaxes(1, 2)
    b = rng.random((count, rows, 1))
    a, b = a.astype(systems.dtype), b.astype(systems.dtype)
    return a, b, systems.of(np.linalg, a.astype(np.float64), b.astype(np.float64))


def begin(device: Device) -> Answer:
    """An answer without rows."""
    where = "_cpu" if device == "cpu" else ""
    return Answer(f"small_solves{where}", "A small system in each iteration: us for all of them", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one kind of system: each peer's answer is checked, then all take turns."""
    systems, count = SYSTEMS[part], QUICK if quick else COUNT
    a, b, wanted = problem(systems, count)
    measures = {}
    for peer, make in _MAKERS.items():
        if peer in answer.missing:
            continue
        run = parts.attempt(answer, part, peer, functools.partial(checked, make, systems, a, b, wanted, device))
        if run is not None:
            calls = 2 if quick or device == "cpu" else 20
            measures[peer] = functools.partial(timing.total, run.action, run.wait, calls=calls, repeats=3 if quick else 9)
    parts.add_rows(answer, part, count, parts.in_turns(measures, rounds=1 if quick else 5), {})


def checked(make: Callable[..., Run], systems: Systems, a: Any, b: Any, wanted: Any, device: Device) -> Run:
    """A peer's program, whose answer was compared with NumPy's."""
    run = make(systems, a, b, device)
    run.action()
    run.wait()
    tolerance = TOLERANCE[a.dtype.name]
    np.testing.assert_allclose(run.answer()["x"], wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    return run


# --- peers -------------------------------------------------------------------------------------------------------------


def _qgraph(systems: Systems, a: Any, b: Any, device: Device) -> Run:
    x = np.full_like(b[..., 0] if systems.name == "solve" else a, np.nan)
    arrays = [qgraph.asarray(each, backend=device) for each in (a, b[..., 0], x)]
    kernel = qgraph.kernel(systems.in_a_loop, backend=device)

    def answer() -> dict[str, Any]:
        x = qgraph.to_numpy(arrays[2])
        return {"x": x[..., None] if systems.name == "solve" else x}

    return Run(lambda: kernel(*arrays), qgraph.synchronize, answer)


def _library_call(systems: Systems, a: Any, b: Any, device: Device) -> Run:
    require("torch", device)
    x = np.full_like(b if systems.name == "solve" else a, np.nan)
    arrays = [qgraph.asarray(each, backend=device) for each in (a, b, x)]
    kernel = qgraph.kernel(systems.at_once, backend=device)
    try:
        kernel(*arrays)
    except qgraph.ArgumentError as error:
        if "stream is capturing" not in str(error):
            raise
        raise ImportError("PyTorch waits for the device, which no graph holds") from error
    return Run(lambda: kernel(*arrays), qgraph.synchronize, lambda: {"x": qgraph.to_numpy(arrays[2])})


def _numpy(systems: Systems, a: Any, b: Any, device: Device) -> Run:
    if device != "cpu":
        raise ImportError("it is compared on the CPU only")
    found: list[Any] = []

    def action() -> None:
        found[:] = [systems.of(np.linalg, a, b)]

    return Run(action, nothing, lambda: {"x": found[0]})


def _cupy(systems: Systems, a: Any, b: Any, device: Device) -> Run:
    require("cupy", device)
    import cupy

    given, found = (cupy.asarray(a), cupy.asarray(b)), []

    def action() -> None:
        found[:] = [systems.of(cupy.linalg, *given)]

    return Run(action, cupy.cuda.Device().synchronize, lambda: {"x": cupy.asnumpy(found[0])})


def _torch(systems: Systems, a: Any, b: Any, device: Device, ending: str = "") -> Run:
    require("torch", device)
    import torch

    given = torch.tensor(a, device="cuda"), torch.tensor(b, device="cuda")
    found: list[Any] = []

    def action() -> None:
        found[:] = [systems.of(torch.linalg, *given, ending)]

    return Run(action, torch.cuda.synchronize, lambda: {"x": found[0].cpu().numpy()})


@as_before_2_5()
def _nvmath(systems: Systems, a: Any, b: Any, device: Device) -> Run:
    """A kernel of numba-cuda in which a block solves some systems in shared memory, by cuSOLVERDx; recorded, as qgraph's is."""
    require("nvmath.device", device)
    from nvmath.device import CholeskySolver, LUPivotSolver

    from qgraph.compat.numba_cuda import cuda

    count, rows, _ = a.shape
    columns = 1 if systems.name == "solve" else rows
    options = {"execution": "Block", "batches_per_block": "suggested", "block_dim": "suggested"}
    options |= {"size": (rows, rows, columns), "precision": a.dtype.type, "arrangement": ("row_major", "row_major")}
    factors = systems.name == "cholesky"
    solver = CholeskySolver(fill_mode="lower", **options) if factors else LUPivotSolver(**options)
    batches, threads, dtype = solver.batches_per_block, solver.block_dim[0], solver.value_type
    of_a, of_x = batches * rows * rows, batches * rows * columns
    of_pivots = 1 if factors else solver.ipiv_size
    blocks = -(-count // batches)

    @cuda.jit
    def solve(a, b, x, info):
        matrices, right = cuda.shared.array(of_a, dtype), cuda.shared.array(of_x, dtype)
        pivots = cuda.shared.array(of_pivots, np.int32)
        block = cuda.blockIdx.x
        for k in range(cuda.threadIdx.x, of_a, cuda.blockDim.x):
            matrices[k] = a[block * of_a + k]
        for k in range(cuda.threadIdx.x, of_x, cuda.blockDim.x):
            right[k] = b[block * of_x + k]
        cuda.syncthreads()
        solver.factorize(matrices, pivots, info[block * batches :])
        cuda.syncthreads()
        solver.solve(matrices, pivots, right)
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, of_x, cuda.blockDim.x):
            x[block * of_x + k] = right[k]

    @cuda.jit
    def factor(a, b, x, info):
        matrices = cuda.shared.array(of_a, dtype)
        block = cuda.blockIdx.x
        for k in range(cuda.threadIdx.x, of_a, cuda.blockDim.x):
            matrices[k] = a[block * of_a + k]
        cuda.syncthreads()
        solver.factorize(matrices, info[block * batches :])
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, of_a, cuda.blockDim.x):
            row, column = k // rows % rows, k % rows
            x[block * of_a + k] = matrices[k] if column <= row else 0

    # The last block is filled up with systems that have a solution.
    more, eye = blocks * batches - count, np.eye(rows, dtype=a.dtype)
    right = b if systems.name == "solve" else np.broadcast_to(eye, a.shape)
    filled = np.concatenate([a, np.broadcast_to(eye, (more, rows, rows))])
    right = np.concatenate([right, np.ones((more, rows, columns), b.dtype)])
    given = [cuda.to_device(each.ravel()) for each in (filled, right)]
    x, info = cuda.device_array_like(given[1]), cuda.device_array(blocks * batches, np.int32)
    kernel = factor if factors else solve
    kernel[blocks, threads](*given, x, info)
    with qgraph.capture() as recorded:
        kernel[blocks, threads, cuda.external_stream(recorded.stream)](*given, x, info)
    shape = (-1, rows, columns)
    return Run(recorded, cuda.synchronize, lambda: {"x": x.copy_to_host().reshape(shape)[:count]})


_MAKERS: dict[str, Callable[..., Run]] = {
    "qgraph": _qgraph,
    "NumPy": _numpy,
    "CuPy": _cupy,
    "PyTorch": _torch,
    # Without the wait that `torch.linalg` needs to raise for singular matrices.
    "PyTorch, unchecked": functools.partial(_torch, ending="_ex"),
    "nvmath": _nvmath,
    "qgraph, one library call": _library_call,
}


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Ahead of the batched solvers, and near a device function that a block of threads calls together."""
    return parts.targets(rows, key, {"nvmath": 0.9})


def draw(record: dict[str, Any], file: Path) -> None:
    """A panel a word: each peer's time over that of the loop, a group of bars a size."""
    rows = []
    for row in record["rows"]:
        word, size = row["systems"].split(" ", 1)
        rows.append({**row, "word": word, "size": size})
    record = {**record, "columns": ("word", *record["columns"]), "rows": rows}
    names = {word: f"np.linalg.{word}" for word in ("solve", "inv", "cholesky")}
    panels.ratios(record, file, "Time for 65,536 small systems, as a multiple of the loop's in qgraph", PEERS, names)


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {part: functools.partial(measure, part) for part in SYSTEMS}, draw, judge))

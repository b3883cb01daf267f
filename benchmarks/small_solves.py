"""Does a loop that solves a small system in each iteration keep up with the batched solvers of libraries?

``python -m benchmarks.small_solves [--only "6x6, float32" ...] [--quick] [--device cpu]``

Microseconds for 65,536 systems, each of its own matrix. On the CPU NumPy, which solves the whole stack, is the peer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device, Run, nothing, require
from benchmarks.results import Answer, Target

COLUMNS = ("systems", "size", "peer", "us", "ratio")
SYSTEMS = {"6x6, float32": (6, "float32"), "6x6, float64": (6, "float64"), "12x12, float32": (12, "float32")}
COUNT, QUICK = 65_536, 1_024
PEERS = ("NumPy", "CuPy", "PyTorch", "PyTorch, unchecked", "nvmath", "qgraph, one library call")
TOLERANCE = {"float32": 1e-3, "float64": 1e-10}


def _in_a_loop(a, b, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])


def _at_once(a, b, x):
    x[:] = np.linalg.solve(a, b)


def problem(count: int, rows: int, dtype: str) -> tuple[Any, Any, Any]:
    """Matrices that need row exchanges, right sides, and NumPy's solutions in float64."""
    rng = np.random.default_rng(0)
    # Rows in any order, each with an element that is greater than the others together: well-conditioned.
    order = rng.permuted(np.arange(rows)[None].repeat(count, 0), axis=1)
    a = rng.random((count, rows, rows)) - 0.5 + rows * np.eye(rows)[order]
    b = rng.random((count, rows))
    a, b = a.astype(dtype), b.astype(dtype)
    return a, b, np.linalg.solve(a.astype(np.float64), b.astype(np.float64)[..., None])[..., 0]


def begin(device: Device) -> Answer:
    """An answer without rows."""
    where = "_cpu" if device == "cpu" else ""
    return Answer(f"small_solves{where}", "A small system in each iteration: us for all of them", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one kind of system: each peer's answer is checked, then all take turns."""
    rows, dtype = SYSTEMS[part]
    count = QUICK if quick else COUNT
    a, b, wanted = problem(count, rows, dtype)
    measures = {}
    for peer, make in _MAKERS.items():
        run = parts.attempt(answer, part, peer, functools.partial(checked, make, a, b, wanted, device))
        if run is not None:
            calls = 2 if quick or device == "cpu" else 20
            measures[peer] = functools.partial(timing.total, run.action, run.wait, calls=calls, repeats=3 if quick else 9)
    parts.add_rows(answer, part, count, parts.in_turns(measures, rounds=1 if quick else 5), {})


def checked(make: Callable[..., Run], a: Any, b: Any, wanted: Any, device: Device) -> Run:
    """A peer's program, whose answer was compared with NumPy's."""
    run = make(a, b, device)
    run.action()
    run.wait()
    tolerance = TOLERANCE[a.dtype.name]
    np.testing.assert_allclose(run.answer()["x"], wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    return run


# --- peers -------------------------------------------------------------------------------------------------------------


def _qgraph(a: Any, b: Any, device: Device) -> Run:
    arrays = [qgraph.asarray(each, backend=device) for each in (a, b, np.full_like(b, np.nan))]
    kernel = qgraph.kernel(_in_a_loop, backend=device)
    return Run(lambda: kernel(*arrays), qgraph.synchronize, lambda: {"x": qgraph.to_numpy(arrays[2])})


def _library_call(a: Any, b: Any, device: Device) -> Run:
    require("torch", device)
    arrays = [qgraph.asarray(each, backend=device) for each in (a, b[..., None], np.full_like(b, np.nan)[..., None])]
    kernel = qgraph.kernel(_at_once, backend=device)
    return Run(lambda: kernel(*arrays), qgraph.synchronize, lambda: {"x": qgraph.to_numpy(arrays[2])[..., 0]})


def _numpy(a: Any, b: Any, device: Device) -> Run:
    if device != "cpu":
        raise ImportError("it is compared on the CPU only")
    x = np.full_like(b, np.nan)

    def action() -> None:
        x[:] = np.linalg.solve(a, b[..., None])[..., 0]

    return Run(action, nothing, lambda: {"x": x})


def _cupy(a: Any, b: Any, device: Device) -> Run:
    require("cupy", device)
    import cupy

    matrices, right, found = cupy.asarray(a), cupy.asarray(b)[..., None], []

    def action() -> None:
        found[:] = [cupy.linalg.solve(matrices, right)]

    return Run(action, cupy.cuda.Device().synchronize, lambda: {"x": cupy.asnumpy(found[0])[..., 0]})


def _torch(a: Any, b: Any, device: Device, name: str = "solve") -> Run:
    require("torch", device)
    import torch

    matrices, right = torch.tensor(a, device="cuda"), torch.tensor(b, device="cuda")[..., None]
    found: list[Any] = []
    solve = getattr(torch.linalg, name)

    def action() -> None:
        found[:] = [solve(matrices, right)]

    def answer() -> dict[str, Any]:
        x = found[0] if name == "solve" else found[0][0]
        return {"x": x.cpu().numpy()[..., 0]}

    return Run(action, torch.cuda.synchronize, answer)


def _nvmath(a: Any, b: Any, device: Device) -> Run:
    """A kernel of numba-cuda in which a block solves some systems in shared memory, by cuSOLVERDx."""
    require("nvmath.device", device)
    from nvmath.device import LUPivotSolver

    from qgraph.compat.numba_cuda import cuda

    count, rows = b.shape
    solver = LUPivotSolver(
        size=(rows, rows),
        precision=a.dtype.type,
        execution="Block",
        arrangement=("row_major", "row_major"),
        batches_per_block="suggested",
        block_dim="suggested",
    )
    batches, threads, dtype = solver.batches_per_block, solver.block_dim[0], solver.value_type
    of_a, of_b, of_pivots = batches * rows * rows, batches * rows, solver.ipiv_size
    blocks = -(-count // batches)

    @cuda.jit
    def kernel(a, b, x, info):
        matrices, right = cuda.shared.array(of_a, dtype), cuda.shared.array(of_b, dtype)
        pivots = cuda.shared.array(of_pivots, np.int32)
        block = cuda.blockIdx.x
        for k in range(cuda.threadIdx.x, of_a, cuda.blockDim.x):
            matrices[k] = a[block * of_a + k]
        for k in range(cuda.threadIdx.x, of_b, cuda.blockDim.x):
            right[k] = b[block * of_b + k]
        cuda.syncthreads()
        solver.factorize(matrices, pivots, info[block * batches :])
        cuda.syncthreads()
        solver.solve(matrices, pivots, right)
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, of_b, cuda.blockDim.x):
            x[block * of_b + k] = right[k]

    # The last block is filled up with systems that have a solution.
    more = blocks * batches - count
    filled = np.concatenate([a, np.broadcast_to(np.eye(rows, dtype=a.dtype), (more, rows, rows))])
    given = [cuda.to_device(each.ravel()) for each in (filled, np.concatenate([b, np.ones((more, rows), b.dtype)]))]
    x, info = cuda.device_array_like(given[1]), cuda.device_array(blocks * batches, np.int32)
    run = kernel[blocks, threads]
    return Run(lambda: run(*given, x, info), cuda.synchronize, lambda: {"x": x.copy_to_host().reshape(-1, rows)[:count]})


_MAKERS: dict[str, Callable[..., Run]] = {
    "qgraph": _qgraph,
    "NumPy": _numpy,
    "CuPy": _cupy,
    "PyTorch": _torch,
    # Without the wait that `torch.linalg.solve` needs to raise for singular matrices.
    "PyTorch, unchecked": functools.partial(_torch, name="solve_ex"),
    "nvmath": _nvmath,
    "qgraph, one library call": _library_call,
}


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Ahead of the batched solvers, and near a device function that a block of threads calls together."""
    return parts.targets(rows, key, {"nvmath": 0.9})


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time for all systems, relative to that of the loop."""
    plots.ratios(record, file, "systems", PEERS, title="A small system in each iteration", what="all systems")


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {part: functools.partial(measure, part) for part in SYSTEMS}, draw, judge))

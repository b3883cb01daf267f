"""In CuPy: CUDA C kernels, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.fdtd.problem import COURANT, Problem

SOURCE = r"""
extern "C" __global__ void magnetic(const float* ez, float* hx, float* hy, float courant, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n - 1 || j >= n - 1) return;
    int k = i * n + j;
    hx[k] -= courant * (ez[k + 1] - ez[k]);
    hy[k] += courant * (ez[k + n] - ez[k]);
}
extern "C" __global__ void electric(float* ez, const float* hx, const float* hy, float courant, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x + 1, i = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (i >= n - 1 || j >= n - 1) return;
    int k = i * n + j;
    ez[k] += courant * (hy[k] - hy[k - n] - hx[k] + hx[k - 1]);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (32, 8)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    magnetic, electric = module.get_function("magnetic"), module.get_function("electric")
    ez = cp.asarray(problem.pulse)
    hx, hy = cp.zeros_like(ez), cp.zeros_like(ez)
    grid = (-(-n // BLOCK[0]), -(-n // BLOCK[1]))
    arguments = (ez, hx, hy, np.float32(COURANT), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps):
            magnetic(grid, BLOCK, arguments)
            electric(grid, BLOCK, arguments)
        graph = stream.end_capture()
    return Run(
        lambda: graph.launch(stream),
        stream.synchronize,
        lambda: {"ez": cp.asnumpy(ez), "hx": cp.asnumpy(hx), "hy": cp.asnumpy(hy)},
    )

"""In CuPy: a CUDA C kernel, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.heat3.problem import ALPHA, Problem

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(512)
heat(const float* __restrict__ u, float* __restrict__ v, float alpha, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int i = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (i >= n - 1 || j >= n - 1 || k >= n - 1) return;
    const int plane = n * n, here = i * plane + j * n + k;
    float around = u[here - plane] + u[here + plane] + u[here - n] + u[here + n] + u[here - 1] + u[here + 1];
    v[here] = u[here] + alpha * (around - 6.0f * u[here]);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (32, 4, 4)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    heat = module.get_function("heat")
    u = cp.asarray(problem.beginning)
    v = cp.zeros_like(u)
    grid = tuple(-(-(n - 2) // width) for width in BLOCK)
    rest = (np.float32(ALPHA), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps // 2):
            heat(grid, BLOCK, (u, v, *rest))
            heat(grid, BLOCK, (v, u, *rest))
        graph = stream.end_capture()
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"u": cp.asnumpy(u)})

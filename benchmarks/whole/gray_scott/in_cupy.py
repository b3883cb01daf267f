"""In CuPy: a CUDA C kernel, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.gray_scott.problem import FEED, KILL, SPREAD_U, SPREAD_V, Problem

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256)
react(const float* __restrict__ u, const float* __restrict__ v, float* __restrict__ new_u, float* __restrict__ new_v,
      float spread_u, float spread_v, float feed, float kill, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    const int here = i * n + j;
    const int up = i > 0 ? here - n : here + (n - 1) * n, down = i < n - 1 ? here + n : j;
    const int left = j > 0 ? here - 1 : here + n - 1, right = j < n - 1 ? here + 1 : here - j;
    float a = u[here], b = v[here];
    float laplacian_u = u[up] + u[down] + u[left] + u[right] - 4.0f * a;
    float laplacian_v = v[up] + v[down] + v[left] + v[right] - 4.0f * b;
    float reacting = a * b * b;
    new_u[here] = a + (spread_u * laplacian_u - reacting + feed * (1.0f - a));
    new_v[here] = b + (spread_v * laplacian_v + reacting - (feed + kill) * b);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (32, 8)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    react = module.get_function("react")
    u, v = (cp.asarray(substance) for substance in problem.beginning)
    new_u, new_v = cp.zeros_like(u), cp.zeros_like(v)
    grid = (-(-n // BLOCK[0]), -(-n // BLOCK[1]))
    rest = (*(np.float32(rate) for rate in (SPREAD_U, SPREAD_V, FEED, KILL)), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps // 2):
            react(grid, BLOCK, (u, v, new_u, new_v, *rest))
            react(grid, BLOCK, (new_u, new_v, u, v, *rest))
        graph = stream.end_capture()
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"u": cp.asnumpy(u), "v": cp.asnumpy(v)})

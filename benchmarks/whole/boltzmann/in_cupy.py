"""In CuPy: a CUDA C kernel, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.boltzmann.problem import LID, OMEGA, Problem

SOURCE = r"""
__device__ float relaxed(float f, float weight, float rho, float c, float square, float omega) {
    return (1.0f - omega) * f + omega * weight * rho * (1.0f + c + 0.5f * c * c - square);
}
extern "C" __global__ void collide(const float* __restrict__ f, float* __restrict__ g, float lid, float omega, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    const int top = n - 1, size = n * n, k = i * n + j;
    float push = i == top ? lid / 6.0f : 0.0f;
    float f0 = f[k];
    float f1 = j > 0 ? f[size + k - 1] : f[3 * size + k];
    float f2 = i > 0 ? f[2 * size + k - n] : f[4 * size + k];
    float f3 = j < top ? f[3 * size + k + 1] : f[size + k];
    float f4 = i < top ? f[4 * size + k + n] : f[2 * size + k];
    float f5 = i > 0 && j > 0 ? f[5 * size + k - n - 1] : f[7 * size + k];
    float f6 = i > 0 && j < top ? f[6 * size + k - n + 1] : f[8 * size + k];
    float f7 = i < top && j < top ? f[7 * size + k + n + 1] : f[5 * size + k] - push;
    float f8 = i < top && j > 0 ? f[8 * size + k + n - 1] : f[6 * size + k] + push;
    float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    float u = 3.0f * (f1 - f3 + f5 - f6 - f7 + f8) / rho;
    float v = 3.0f * (f2 - f4 + f5 + f6 - f7 - f8) / rho;
    float square = (u * u + v * v) / 6.0f;
    const float straight = 1.0f / 9.0f, diagonal = 1.0f / 36.0f;
    g[k] = relaxed(f0, 4.0f / 9.0f, rho, 0.0f, square, omega);
    g[size + k] = relaxed(f1, straight, rho, u, square, omega);
    g[2 * size + k] = relaxed(f2, straight, rho, v, square, omega);
    g[3 * size + k] = relaxed(f3, straight, rho, -u, square, omega);
    g[4 * size + k] = relaxed(f4, straight, rho, -v, square, omega);
    g[5 * size + k] = relaxed(f5, diagonal, rho, u + v, square, omega);
    g[6 * size + k] = relaxed(f6, diagonal, rho, v - u, square, omega);
    g[7 * size + k] = relaxed(f7, diagonal, rho, -u - v, square, omega);
    g[8 * size + k] = relaxed(f8, diagonal, rho, u - v, square, omega);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (32, 8)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    collide = module.get_function("collide")
    f = cp.asarray(problem.rest)
    g = cp.zeros_like(f)
    grid = (-(-n // BLOCK[0]), -(-n // BLOCK[1]))
    rest = (np.float32(LID), np.float32(OMEGA), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps // 2):
            collide(grid, BLOCK, (f, g, *rest))
            collide(grid, BLOCK, (g, f, *rest))
        graph = stream.end_capture()
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"f": cp.asnumpy(f)})

"""In CuPy: a CUDA C kernel for each stage, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.shallow.problem import GRAVITY, RATIO, Problem

SOURCE = r"""
// Depth, momentum along a row of cells, momentum beside it.
struct Water { float h, m, t; };
__device__ __forceinline__ float minmod(float a, float b) {
    return fmaxf(0.0f, fminf(a, b)) + fminf(0.0f, fmaxf(a, b));
}
__device__ __forceinline__ Water half_slope(Water a, Water b, Water c) {
    return {0.5f * minmod(b.h - a.h, c.h - b.h), 0.5f * minmod(b.m - a.m, c.m - b.m), 0.5f * minmod(b.t - a.t, c.t - b.t)};
}
__device__ __forceinline__ Water plus(Water a, Water b) { return {a.h + b.h, a.m + b.m, a.t + b.t}; }
__device__ __forceinline__ Water minus(Water a, Water b) { return {a.h - b.h, a.m - b.m, a.t - b.t}; }
__device__ __forceinline__ Water flux(Water a, Water b, float gravity) {
    float u = a.m / a.h, v = b.m / b.h;
    float speed = fmaxf(fabsf(u) + sqrtf(gravity * a.h), fabsf(v) + sqrtf(gravity * b.h));
    return {
        0.5f * (a.m + b.m - speed * (b.h - a.h)),
        0.5f * (a.m * u + 0.5f * gravity * a.h * a.h + (b.m * v + 0.5f * gravity * b.h * b.h) - speed * (b.m - a.m)),
        0.5f * (a.t * u + b.t * v - speed * (b.t - a.t))};
}
__device__ __forceinline__ Water gained(Water a, Water b, Water c, Water d, Water e, float gravity) {
    Water slope_b = half_slope(a, b, c), slope_c = half_slope(b, c, d), slope_d = half_slope(c, d, e);
    return minus(flux(plus(b, slope_b), minus(c, slope_c), gravity), flux(plus(c, slope_c), minus(d, slope_d), gravity));
}
__device__ __forceinline__ Water along(const float* __restrict__ q, int k, int size) {
    return {q[k], q[size + k], q[2 * size + k]};
}
__device__ __forceinline__ Water across(const float* __restrict__ q, int k, int size) {
    return {q[k], q[2 * size + k], q[size + k]};
}
__device__ __forceinline__ Water later(const float* __restrict__ q, int i, int j, int n, float ratio, float gravity) {
    const int size = n * n, row = i * n, k = row + j;
    int a = (i > 1 ? i - 2 : i + n - 2) * n + j, b = (i > 0 ? i - 1 : n - 1) * n + j;
    int d = (i < n - 1 ? i + 1 : 0) * n + j, e = (i < n - 2 ? i + 2 : i + 2 - n) * n + j;
    Water c = along(q, k, size);
    Water x = gained(along(q, a, size), along(q, b, size), c, along(q, d, size), along(q, e, size), gravity);
    a = row + (j > 1 ? j - 2 : j + n - 2), b = row + (j > 0 ? j - 1 : n - 1);
    d = row + (j < n - 1 ? j + 1 : 0), e = row + (j < n - 2 ? j + 2 : j + 2 - n);
    Water y = gained(
        across(q, a, size), across(q, b, size), {c.h, c.t, c.m}, across(q, d, size), across(q, e, size), gravity);
    return {c.h + ratio * (x.h + y.h), c.m + ratio * (x.m + y.t), c.t + ratio * (x.t + y.m)};
}
extern "C" __global__ void __launch_bounds__(256)
first(const float* __restrict__ q, float* __restrict__ once, float ratio, float gravity, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    const int size = n * n, k = i * n + j;
    Water w = later(q, i, j, n, ratio, gravity);
    once[k] = w.h;
    once[size + k] = w.m;
    once[2 * size + k] = w.t;
}
extern "C" __global__ void __launch_bounds__(256)
second(const float* __restrict__ once, float* __restrict__ q, float ratio, float gravity, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    const int size = n * n, k = i * n + j;
    Water w = later(once, i, j, n, ratio, gravity);
    q[k] = 0.5f * (q[k] + w.h);
    q[size + k] = 0.5f * (q[size + k] + w.m);
    q[2 * size + k] = 0.5f * (q[2 * size + k] + w.t);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (32, 8)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    first, second = module.get_function("first"), module.get_function("second")
    q = cp.asarray(problem.beginning)
    once = cp.zeros_like(q)
    grid = (-(-n // BLOCK[0]), -(-n // BLOCK[1]))
    rest = (np.float32(RATIO), np.float32(GRAVITY), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps):
            first(grid, BLOCK, (q, once, *rest))
            second(grid, BLOCK, (once, q, *rest))
        graph = stream.end_capture()
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"q": cp.asnumpy(q)})

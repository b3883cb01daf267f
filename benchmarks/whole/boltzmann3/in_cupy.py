"""In CuPy: a CUDA C kernel, all steps captured from a stream in one graph."""

from __future__ import annotations

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.boltzmann3.problem import OMEGA, Problem

SOURCE = r"""
struct Pair { float first, second; };
__device__ __forceinline__ Pair relaxed(float f, float opposite, float weight, float c, float still, float omega) {
    float even = weight * (still + 0.5f * c * c), odd = weight * c;
    return {(1.0f - omega) * f + even + odd, (1.0f - omega) * opposite + even - odd};
}
#define STORE(n, f, opposite, weight, c) { \
    Pair p = relaxed(f, opposite, weight, c, still, omega); \
    g[(n) * size + here] = p.first; \
    g[((n) + 1) * size + here] = p.second; }
extern "C" __global__ void __launch_bounds__(256)
collide(const float* __restrict__ f, float* __restrict__ g, float omega, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, i = blockIdx.z;
    if (j >= n || k >= n) return;
    const int size = n * n * n, here = (i * n + j) * n + k;
    // How far it is to the cells before and behind along each axis.
    const int a = i > 0 ? -n * n : (n - 1) * n * n, x = i < n - 1 ? n * n : -(n - 1) * n * n;
    const int b = j > 0 ? -n : (n - 1) * n, y = j < n - 1 ? n : -(n - 1) * n;
    const int c = k > 0 ? -1 : n - 1, z = k < n - 1 ? 1 : 1 - n;
    float f0 = f[here];
    float f1 = f[size + here + a], f2 = f[2 * size + here + x];
    float f3 = f[3 * size + here + b], f4 = f[4 * size + here + y];
    float f5 = f[5 * size + here + c], f6 = f[6 * size + here + z];
    float f7 = f[7 * size + here + a + b], f8 = f[8 * size + here + x + y];
    float f9 = f[9 * size + here + a + y], f10 = f[10 * size + here + x + b];
    float f11 = f[11 * size + here + a + c], f12 = f[12 * size + here + x + z];
    float f13 = f[13 * size + here + a + z], f14 = f[14 * size + here + x + c];
    float f15 = f[15 * size + here + b + c], f16 = f[16 * size + here + y + z];
    float f17 = f[17 * size + here + b + z], f18 = f[18 * size + here + y + c];
    float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8 + f9 + f10 + f11 + f12 + f13 + f14 + f15 + f16 + f17 + f18;
    float thrice = 3.0f / rho;
    float u = thrice * (f1 - f2 + f7 - f8 + f9 - f10 + f11 - f12 + f13 - f14);
    float v = thrice * (f3 - f4 + f7 - f8 - f9 + f10 + f15 - f16 + f17 - f18);
    float w = thrice * (f5 - f6 + f11 - f12 - f13 + f14 + f15 - f16 - f17 + f18);
    float still = 1.0f - (u * u + v * v + w * w) * (1.0f / 6.0f);
    float one = omega * (1.0f / 18.0f) * rho, two = omega * (1.0f / 36.0f) * rho;
    g[here] = (1.0f - omega) * f0 + omega * (1.0f / 3.0f) * rho * still;
    STORE(1, f1, f2, one, u)
    STORE(3, f3, f4, one, v)
    STORE(5, f5, f6, one, w)
    STORE(7, f7, f8, two, u + v)
    STORE(9, f9, f10, two, u - v)
    STORE(11, f11, f12, two, u + w)
    STORE(13, f13, f14, two, u - w)
    STORE(15, f15, f16, two, v + w)
    STORE(17, f17, f18, two, v - w)
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (64, 4, 1)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    collide = module.get_function("collide")
    f = cp.asarray(problem.vortices)
    g = cp.zeros_like(f)
    grid = (-(-n // BLOCK[0]), -(-n // BLOCK[1]), n)
    rest = (np.float32(OMEGA), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps // 2):
            collide(grid, BLOCK, (f, g, *rest))
            collide(grid, BLOCK, (g, f, *rest))
        graph = stream.end_capture()
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"f": cp.asnumpy(f)})

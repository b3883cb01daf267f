"""In CuPy: CUDA C kernels, all steps captured from a stream in one graph; vectors are a float4 each."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.molecules.problem import CAPACITY, CUTOFF, STEP, Problem

SOURCE = r"""
__device__ __forceinline__ float inside(float x, float box) { return x < 0.0f ? x + box : x >= box ? x - box : x; }
__device__ __forceinline__ int cell(float x, float scale, int m) { return min((int)(x * scale), m - 1); }
extern "C" __global__ void __launch_bounds__(128)
move(float4* __restrict__ x, float4* __restrict__ v, const float4* __restrict__ force, int* __restrict__ count,
     float4* __restrict__ table, float box, float dt, int m, int capacity, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = x[i], w = v[i], f = force[i];
    w.x += 0.5f * dt * f.x;
    w.y += 0.5f * dt * f.y;
    w.z += 0.5f * dt * f.z;
    p.x = inside(p.x + dt * w.x, box);
    p.y = inside(p.y + dt * w.y, box);
    p.z = inside(p.z + dt * w.z, box);
    v[i] = w;
    x[i] = p;
    const float scale = m / box;
    int here = (cell(p.x, scale, m) * m + cell(p.y, scale, m)) * m + cell(p.z, scale, m);
    int place = atomicAdd(&count[here], 1);
    if (place < capacity) table[here * capacity + place] = p;
}
extern "C" __global__ void __launch_bounds__(128)
push(const float4* __restrict__ x, float4* __restrict__ v, float4* __restrict__ force, const int* __restrict__ count,
     const float4* __restrict__ table, float box, float dt, float cutoff, int m, int capacity, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 p = x[i];
    const float scale = m / box, enough = cutoff * cutoff;
    const int a = cell(p.x, scale, m), b = cell(p.y, scale, m), c = cell(p.z, scale, m);
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int da = a - 1; da <= a + 1; da++) {
        const int f = da < 0 ? da + m : da >= m ? da - m : da;
        const float px = da < 0 ? p.x + box : da >= m ? p.x - box : p.x;
        for (int db = b - 1; db <= b + 1; db++) {
            const int g = db < 0 ? db + m : db >= m ? db - m : db;
            const float py = db < 0 ? p.y + box : db >= m ? p.y - box : p.y;
            for (int dc = c - 1; dc <= c + 1; dc++) {
                const int h = dc < 0 ? dc + m : dc >= m ? dc - m : dc;
                const float pz = dc < 0 ? p.z + box : dc >= m ? p.z - box : p.z;
                const int there = (f * m + g) * m + h, held = min(count[there], capacity);
                const float4* others = table + there * capacity;
                for (int k = 0; k < held; k++) {
                    const float4 q = others[k];
                    const float dx = px - q.x, dy = py - q.y, dz = pz - q.z;
                    const float square = dx * dx + dy * dy + dz * dz;
                    if (square < enough && square > 0.0f) {
                        const float inverse = 1.0f / square, sixth = inverse * inverse * inverse;
                        const float factor = 24.0f * inverse * sixth * (2.0f * sixth - 1.0f);
                        fx += factor * dx;
                        fy += factor * dy;
                        fz += factor * dz;
                    }
                }
            }
        }
    }
    float4 w = v[i];
    w.x += 0.5f * dt * fx;
    w.y += 0.5f * dt * fy;
    w.z += 0.5f * dt * fz;
    v[i] = w;
    force[i] = make_float4(fx, fy, fz, 0.0f);
}
"""
module = cp.RawModule(code=SOURCE)
BLOCK = (128,)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n, m = problem.particles, problem.cells
    move, push = module.get_function("move"), module.get_function("push")
    x, v = (_padded(array) for array in (problem.lattice, problem.velocities))
    force = cp.zeros((n, 4), cp.float32)
    count, table = cp.zeros((m, m, m), cp.int32), cp.zeros((m, m, m, CAPACITY, 4), cp.float32)
    grid = (-(-n // BLOCK[0]),)
    box, dt, cutoff = np.float32(problem.box), np.float32(STEP), np.float32(CUTOFF)
    sizes = (np.int32(m), np.int32(CAPACITY), np.int32(n))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(problem.steps):
            count.data.memset_async(0, count.nbytes)
            move(grid, BLOCK, (x, v, force, count, table, box, dt, *sizes))
            push(grid, BLOCK, (x, v, force, count, table, box, dt, cutoff, *sizes))
        graph = stream.end_capture()
    return Run(
        lambda: graph.launch(stream),
        stream.synchronize,
        lambda: {"x": cp.asnumpy(x)[:, :3], "v": cp.asnumpy(v)[:, :3]},
    )


def _padded(array: np.ndarray[Any, Any]) -> Any:
    """With a fourth column, of zeros."""
    return cp.asarray(np.pad(array, ((0, 0), (0, 1))))

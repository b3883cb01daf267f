"""In CuPy: CUDA C kernels, an iteration captured from a stream in one graph; the host asks whether to go on."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.whole.newton.problem import CONTACTS, FAR, SLOPE, TRIALS, UNKNOWNS, Problem

SOURCE = r"""
#define PLACE const int e = blockIdx.x * blockDim.x + threadIdx.x; if (e >= n || !active[e]) return

extern "C" __global__ void touch(const float* jacobian, const float* gap, const float* stiffness, const float* slip,
                                 const float* x, const int* active, float* residual, float* force, float* stiff, int n) {
    PLACE;
    const int c = blockIdx.y, k = c * n + e;
    float r = gap[k];
    #pragma unroll
    for (int a = 0; a < SIX; a++) r += jacobian[(c * SIX + a) * n + e] * x[a * n + e];
    residual[k] = r;
    float f = 0.0f, d = 0.0f;
    if (r < -slip[k]) {
        f = -stiffness[k] * slip[k];
    } else if (r < 0.0f) {
        d = stiffness[k];
        f = d * r;
    }
    force[k] = f;
    stiff[k] = d;
}

extern "C" __global__ void assemble(const float* mass, const float* aim, const float* jacobian, const float* x,
                                    const int* active, const float* force, const float* stiff, float* gradient,
                                    float* hessian, int n) {
    PLACE;
    const int a = blockIdx.y / SIX, b = blockIdx.y % SIX;
    if (b > a) return;
    float total = mass[(a * SIX + b) * n + e];
    #pragma unroll
    for (int c = 0; c < EIGHT; c++)
        total += stiff[c * n + e] * jacobian[(c * SIX + a) * n + e] * jacobian[(c * SIX + b) * n + e];
    hessian[(a * SIX + b) * n + e] = total;
    if (b) return;
    float slope = 0.0f;
    #pragma unroll
    for (int k = 0; k < SIX; k++) slope += mass[(a * SIX + k) * n + e] * (x[k * n + e] - aim[k * n + e]);
    #pragma unroll
    for (int c = 0; c < EIGHT; c++) slope += jacobian[(c * SIX + a) * n + e] * force[c * n + e];
    gradient[a * n + e] = slope;
}

extern "C" __global__ void direct(const float* gradient, const float* hessian, float* step, int* active, int* left,
                                  float tolerance, int n) {
    PLACE;
    float b[SIX], h[SIX][SIX], largest = 0.0f;
    #pragma unroll
    for (int a = 0; a < SIX; a++) {
        b[a] = gradient[a * n + e];
        largest = fmaxf(largest, fabsf(b[a]));
    }
    if (largest <= tolerance) {
        active[e] = 0;
        return;
    }
    *left = 1;
    #pragma unroll
    for (int i = 0; i < SIX; i++)
        #pragma unroll
        for (int j = 0; j <= i; j++) h[i][j] = hessian[(i * SIX + j) * n + e];
    #pragma unroll
    for (int j = 0; j < SIX; j++) {
        #pragma unroll
        for (int k = 0; k < j; k++) h[j][j] -= h[j][k] * h[j][k];
        h[j][j] = 1.0f / sqrtf(h[j][j]);
        #pragma unroll
        for (int i = j + 1; i < SIX; i++) {
            #pragma unroll
            for (int k = 0; k < j; k++) h[i][j] -= h[i][k] * h[j][k];
            h[i][j] *= h[j][j];
        }
    }
    #pragma unroll
    for (int j = 0; j < SIX; j++) {
        #pragma unroll
        for (int k = 0; k < j; k++) b[j] -= h[j][k] * b[k];
        b[j] *= h[j][j];
    }
    #pragma unroll
    for (int j = SIX - 1; j >= 0; j--) {
        #pragma unroll
        for (int k = j + 1; k < SIX; k++) b[j] -= h[k][j] * b[k];
        b[j] *= h[j][j];
    }
    #pragma unroll
    for (int a = 0; a < SIX; a++) step[a * n + e] = -b[a];
}

extern "C" __global__ void search(const float* mass, const float* jacobian, const float* stiffness, const float* slip,
                                  float* x, const int* active, const float* gradient, const float* step,
                                  const float* residual, float* along, const float* force, int n) {
    PLACE;
    float smooth = 0.0f, curve = 0.0f, d[SIX];
    #pragma unroll
    for (int a = 0; a < SIX; a++) d[a] = step[a * n + e];
    #pragma unroll
    for (int a = 0; a < SIX; a++) {
        smooth += gradient[a * n + e] * d[a];
        #pragma unroll
        for (int b = 0; b < SIX; b++) curve += d[a] * mass[(a * SIX + b) * n + e] * d[b];
    }
    const float first = smooth;
    #pragma unroll
    for (int c = 0; c < EIGHT; c++) {
        float total = 0.0f;
        #pragma unroll
        for (int a = 0; a < SIX; a++) total += jacobian[(c * SIX + a) * n + e] * d[a];
        along[c * n + e] = total;
        smooth -= total * force[c * n + e];
    }
    float t = 1.0f, low = 0.0f, high = FAR;
    for (int trial = 0; trial < TRIALS; trial++) {
        float slope = smooth + t * curve, curvature = curve;
        #pragma unroll
        for (int c = 0; c < EIGHT; c++) {
            const int k = c * n + e;
            float r = residual[k] + t * along[k];
            if (r < -slip[k]) {
                slope -= along[k] * stiffness[k] * slip[k];
            } else if (r < 0.0f) {
                slope += along[k] * stiffness[k] * r;
                curvature += along[k] * stiffness[k] * along[k];
            }
        }
        if (fabsf(slope) <= SLOPE * fabsf(first)) break;
        if (slope < 0.0f) low = t; else high = t;
        t -= slope / curvature;
        if (t <= low || t >= high) t = 0.5f * (low + high);
    }
    #pragma unroll
    for (int a = 0; a < SIX; a++) x[a * n + e] += t * d[a];
}
"""
module = cp.RawModule(
    code=SOURCE,
    options=(f"-DSIX={UNKNOWNS}", f"-DEIGHT={CONTACTS}", f"-DTRIALS={TRIALS}", f"-DFAR={FAR}f", f"-DSLOPE={SLOPE}f"),
)
BLOCK = 128


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.environments
    touch, assemble, direct, search = (module.get_function(name) for name in ("touch", "assemble", "direct", "search"))
    mass, aim, jacobian, gap, stiffness, slip = (cp.asarray(part) for part in problem.bodies)
    x, gradient, step = (cp.zeros((UNKNOWNS, n), cp.float32) for _ in range(3))
    hessian = cp.zeros((UNKNOWNS, UNKNOWNS, n), cp.float32)
    residual, along, force, stiff = (cp.zeros((CONTACTS, n), cp.float32) for _ in range(4))
    active, left = cp.ones(n, cp.int32), cp.zeros(1, cp.int32)
    blocks, count, tolerance = -(-n // BLOCK), np.int32(n), np.float32(problem.tolerance)
    stream = cp.cuda.Stream(non_blocking=True)
    left.fill(0)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        left.fill(0)
        bodies = (jacobian, gap, stiffness, slip)
        touch((blocks, CONTACTS), (BLOCK,), (*bodies, x, active, residual, force, stiff, count))
        parts = (mass, aim, jacobian, x, active, force, stiff, gradient, hessian, count)
        assemble((blocks, UNKNOWNS * UNKNOWNS), (BLOCK,), parts)
        direct((blocks,), (BLOCK,), (gradient, hessian, step, active, left, tolerance, count))
        moving = (x, active, gradient, step, residual, along, force, count)
        search((blocks,), (BLOCK,), (mass, jacobian, stiffness, slip, *moving))
        graph = stream.end_capture()
    result: list[Any] = [0]

    def solve_all() -> None:
        with stream:
            x[...] = aim
            active.fill(1)
            iterations, going = 0, True
            while going and iterations < problem.limit:
                graph.launch(stream)
                going = bool(left.item())
                iterations += 1
            result[0] = iterations

    return Run(solve_all, stream.synchronize, lambda: {"x": cp.asnumpy(x), "iterations": result[0]})

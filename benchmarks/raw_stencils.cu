// What a sweep over a grid, and all pairs of bodies, can cost in CUDA C, for benchmarks/shapes.py.
//   raw_stencils heat3 N   a 7-point stencil over N^3 float32: each thread has some planes along the slowest axis
//   raw_stencils heat2 N   a 5-point stencil over N^2 float32: each thread has some rows
//   raw_stencils bodies N  accelerations of N bodies, positions read through tiles in shared memory
// A line of JSON for each shape that was tried. Each answer is compared with the simplest kernel, one thread an element; a wrong
// one or a failed call ends with status 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "raw_stencils: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int REPEATS = 5;

template <int PLANES> __global__ void heat3(const float *__restrict__ a, float *__restrict__ b, int n) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    const int first = blockIdx.z * PLANES + 1, plane = n * n;
    if (k >= n - 1 || j >= n - 1) return;
    int at = first * plane + j * n + k;
    float below = a[at - plane], here = a[at];
#pragma unroll
    for (int part = 0; part < PLANES; part++, at += plane) {
        if (first + part >= n - 1) return;
        const float above = a[at + plane];
        b[at] = 0.5f * here + (below + above + a[at - n] + a[at + n] + a[at - 1] + a[at + 1]) * (0.5f / 6);
        below = here;
        here = above;
    }
}

template <int ROWS> __global__ void heat2(const float *__restrict__ a, float *__restrict__ b, int n) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x + 1, first = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS + 1;
    if (j >= n - 1 || first >= n - 1) return;
    long at = (long)first * n + j;
    float below = a[at - n], here = a[at];
#pragma unroll
    for (int part = 0; part < ROWS; part++, at += n) {
        if (first + part >= n - 1) return;
        const float above = a[at + n];
        b[at] = 0.5f * here + (below + above + a[at - 1] + a[at + 1]) * 0.125f;
        below = here;
        here = above;
    }
}

__global__ void bodies(const float4 *__restrict__ at, float *__restrict__ force, int n) {
    extern __shared__ float4 tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 mine = at[min(i, n - 1)];
    float x = 0, y = 0, z = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        __syncthreads();
        if (start + threadIdx.x < n) tile[threadIdx.x] = at[start + threadIdx.x];
        __syncthreads();
        const int count = min((int)blockDim.x, n - start);
#pragma unroll 8
        for (int k = 0; k < count; k++) {
            const float4 other = tile[k];
            const float dx = other.x - mine.x, dy = other.y - mine.y, dz = other.z - mine.z;
            const float near = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f), pull = near * near * near;
            x += pull * dx;
            y += pull * dy;
            z += pull * dz;
        }
    }
    if (i < n) force[3 * i] = x, force[3 * i + 1] = y, force[3 * i + 2] = z;
}

static dim3 over(int n, int threads, int each, dim3 block) {
    const int columns = n - 2;
    return each ? dim3((columns + block.x - 1) / block.x, (columns + block.y * each - 1) / (block.y * each))
                : dim3((columns + block.x - 1) / block.x, (columns + block.y - 1) / block.y, (columns + threads - 1) / threads);
}

// Microseconds of one of as many launches in a row as take 10 ms: the median.
template <class Launch> static double timed(Launch launch) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<double> found;
    int calls = 4;
    for (int repeat = -1; repeat < REPEATS; repeat++) {
        CHECK(cudaEventRecord(begin));
        for (int call = 0; call < calls; call++) launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (repeat < 0) calls = std::max(4, (int)(calls * 10 / std::max(milliseconds, 0.001f)));
        else found.push_back(milliseconds * 1e3 / calls);
    }
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
}

static void alike(const std::vector<float> &found, const std::vector<float> &wanted, const char *what) {
    for (size_t at = 0; at < wanted.size(); at++)
        if (!(std::fabs(found[at] - wanted[at]) <= 1e-4f * (1 + std::fabs(wanted[at])))) {
            fprintf(stderr, "raw_stencils: %s is %g at %zu, not %g\n", what, found[at], at, wanted[at]);
            exit(1);
        }
}

struct Arrays {
    float *a, *b;
    size_t count;
    std::vector<float> wanted;
    explicit Arrays(size_t count) : count(count) {
        std::vector<float> begin(count);
        for (size_t at = 0; at < count; at++) begin[at] = (float)((at * 2654435761u) % 10007) / 10007;
        CHECK(cudaMalloc(&a, count * 4));
        CHECK(cudaMalloc(&b, count * 4));
        CHECK(cudaMemcpy(a, begin.data(), count * 4, cudaMemcpyHostToDevice));
    }
    template <class Launch> void run(const char *shape, Launch launch) {
        CHECK(cudaMemset(b, 0, count * 4));
        launch();
        CHECK(cudaGetLastError());
        std::vector<float> found(count);
        CHECK(cudaMemcpy(found.data(), b, count * 4, cudaMemcpyDeviceToHost));
        if (wanted.empty()) wanted = found;
        alike(found, wanted, shape);
        printf("{\"microseconds\": %.4f, \"shape\": \"%s\"}\n", timed(launch), shape);
    }
};

static const dim3 BLOCKS[] = {{32, 8}, {64, 4}, {128, 2}, {128, 4}, {256, 1}, {64, 2}, {128, 1}};

template <int PLANES> static void planes(Arrays &arrays, int n) {
    for (dim3 block : BLOCKS) {
        char shape[80];
        snprintf(shape, sizeof shape, "%u x %u, %d planes", block.x, block.y, PLANES);
        arrays.run(shape, [&] { heat3<PLANES><<<over(n, PLANES, 0, block), block>>>(arrays.a, arrays.b, n); });
    }
}

template <int ROWS> static void rows(Arrays &arrays, int n) {
    for (dim3 block : BLOCKS) {
        char shape[80];
        snprintf(shape, sizeof shape, "%u x %u, %d rows", block.x, block.y, ROWS);
        arrays.run(shape, [&] { heat2<ROWS><<<over(n, 0, ROWS, block), block>>>(arrays.a, arrays.b, n); });
    }
}

int main(int count, char **words) {
    if (count != 3) return 2;
    const int n = atoi(words[2]);
    if (!strcmp(words[1], "heat3")) {
        Arrays arrays((size_t)n * n * n);
        planes<1>(arrays, n);
        planes<4>(arrays, n);
        planes<8>(arrays, n);
        planes<16>(arrays, n);
    } else if (!strcmp(words[1], "heat2")) {
        Arrays arrays((size_t)n * n);
        rows<1>(arrays, n);
        rows<2>(arrays, n);
        rows<4>(arrays, n);
        rows<8>(arrays, n);
    } else if (!strcmp(words[1], "bodies")) {
        Arrays arrays((size_t)n * 4);
        for (int threads : {32, 64, 128, 256, 512}) {
            char shape[80];
            snprintf(shape, sizeof shape, "%d threads", threads);
            arrays.run(shape, [&] {
                bodies<<<(n + threads - 1) / threads, threads, threads * sizeof(float4)>>>((const float4 *)arrays.a, arrays.b, n);
            });
        }
    } else return 2;
    return 0;
}

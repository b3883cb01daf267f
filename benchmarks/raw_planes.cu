// What several sweeps for a pass over memory can cost in CUDA C, for arrays with three axes, for benchmarks/raw_tiles.py.
//   raw_planes N     the mean of six neighbours over N^3 float32, edges fixed; N is a multiple of 4
// A line of JSON for each shape that was tried, the first ones with one sweep a pass, with microseconds a sweep. A warp has some
// rows of 128 columns, a thread four of these, and a block goes through planes, each sweep one plane behind the one before it:
// three planes of each stay in registers. Columns beside those of a thread come by shuffles, rows of other warps through shared
// memory. Cells at the rim of a tile go wrong, one more each sweep, and only those that this does not reach are stored. Each
// answer is compared, bit for bit, with one sweep a launch; a wrong one or a failed call ends with status 1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "raw_planes: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int REPEATS = 5;

// The order of the sum is that of every kernel here.
__device__ __forceinline__ float mean(float before, float behind, float above, float below, float left, float right) {
    return 0.16666667f * (((((before + behind) + above) + below) + left) + right);
}

// A thread has a column of some planes.
template <int PLANES> __global__ void __launch_bounds__(256) plain(const float *__restrict__ u, float *__restrict__ v, int n) {
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= n || y >= n) return;
    const size_t plane = (size_t)n * n;
    int z = blockIdx.z * PLANES;
    size_t at = z * plane + (size_t)y * n + x;
    float before = z ? u[at - plane] : 0, here = u[at];
#pragma unroll
    for (int k = 0; k < PLANES; k++, z++, at += plane) {
        if (z >= n) return;
        const float behind = z + 1 < n ? u[at + plane] : 0;
        const bool moves = x > 0 && y > 0 && z > 0 && x < n - 1 && y < n - 1 && z < n - 1;
        v[at] = moves ? mean(before, behind, u[at - n], u[at + n], u[at - 1], u[at + 1]) : here;
        before = here;
        here = behind;
    }
}

// A tile of 128 by WARPS * ROWS columns and rows, halo and all, and of `depth` planes.
template <int SWEEPS, int ROWS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS) streamed(const float *__restrict__ u, float *__restrict__ v, int n, int depth) {
    constexpr int HALO = 4 * ((SWEEPS + 3) / 4), OWN = 128 - 2 * HALO, DOWN = WARPS * ROWS;
    // The first and the last row of each warp, of two planes of each sweep.
    extern __shared__ float4 memory[];
    float4(*rows)[2][2][WARPS][32] = reinterpret_cast<float4(*)[2][2][WARPS][32]>(memory);
    const int lane = threadIdx.x, warp = threadIdx.y, left = (int)blockIdx.x * OWN - HALO, x = left + 4 * lane;
    const int top = (int)blockIdx.y * (DOWN - 2 * SWEEPS) - SWEEPS, y = top + warp * ROWS, first = blockIdx.z * depth;
    const bool there = x >= 0 && x < n, deep = left >= 1 && left + 128 < n && top >= 1 && top + DOWN < n;
    const size_t plane = (size_t)n * n;
    float4 mine[SWEEPS][3][ROWS], next[ROWS];
#pragma unroll
    for (int sweep = 0; sweep < SWEEPS; sweep++)
#pragma unroll
        for (int k = 0; k < 3; k++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) mine[sweep][k][r] = make_float4(0, 0, 0, 0);
    const auto load = [&](int z) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            next[r] = make_float4(0, 0, 0, 0);
            if (there && y + r >= 0 && y + r < n && z >= 0 && z < n)
                next[r] = *reinterpret_cast<const float4 *>(u + z * plane + (size_t)(y + r) * n + x);
        }
    };
    const int up = max(warp - 1, 0), down = min(warp + 1, WARPS - 1);
    load(first - SWEEPS);
    for (int begin = 0; begin < depth + 2 * SWEEPS; begin += 6) {
#pragma unroll
        for (int k = 0; k < 6; k++) {
            const int p = first - SWEEPS + begin + k, now = k % 3, old = (k + 2) % 3, older = (k + 1) % 3, slot = k & 1;
#pragma unroll
            for (int r = 0; r < ROWS; r++) mine[0][now][r] = next[r];
            load(p + 1);
            rows[0][slot][0][warp][lane] = mine[0][now][0];
            rows[0][slot][1][warp][lane] = mine[0][now][ROWS - 1];
#pragma unroll
            for (int sweep = 0; sweep < SWEEPS; sweep++) {
                const int z = p - sweep - 1;
                const float4 above = rows[sweep][slot ^ 1][1][up][lane], below = rows[sweep][slot ^ 1][0][down][lane];
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float4 h = mine[sweep][old][r], a = mine[sweep][older][r], b = mine[sweep][now][r];
                    const float4 c = r ? mine[sweep][old][r ? r - 1 : 0] : above;
                    const float4 d = r + 1 < ROWS ? mine[sweep][old][r + 1 < ROWS ? r + 1 : r] : below;
                    const float before = __shfl_up_sync(~0u, h.w, 1), behind = __shfl_down_sync(~0u, h.x, 1);
                    float4 found = make_float4(mean(a.x, b.x, c.x, d.x, before, h.y), mean(a.y, b.y, c.y, d.y, h.x, h.z),
                                               mean(a.z, b.z, c.z, d.z, h.y, h.w), mean(a.w, b.w, c.w, d.w, h.z, behind));
                    if (z <= 0 || z >= n - 1) found = h;
                    if (!deep) {
                        const bool row = y + r > 0 && y + r < n - 1;
                        found.x = row && x > 0 && x < n - 1 ? found.x : h.x;
                        found.y = row && x + 1 > 0 && x + 1 < n - 1 ? found.y : h.y;
                        found.z = row && x + 2 > 0 && x + 2 < n - 1 ? found.z : h.z;
                        found.w = row && x + 3 > 0 && x + 3 < n - 1 ? found.w : h.w;
                    }
                    const int at = warp * ROWS + r;
                    if (sweep + 1 < SWEEPS) mine[sweep + 1 < SWEEPS ? sweep + 1 : sweep][now][r] = found;
                    else if (z >= first && z < min(first + depth, n) && 4 * lane >= HALO && 4 * lane < 128 - HALO && x < n &&
                             at >= SWEEPS && at < DOWN - SWEEPS && y + r < n)
                        *reinterpret_cast<float4 *>(v + z * plane + (size_t)(y + r) * n + x) = found;
                }
                if (sweep + 1 < SWEEPS) {
                    const int behind = sweep + 1 < SWEEPS ? sweep + 1 : sweep;
                    rows[behind][slot][0][warp][lane] = mine[behind][now][0];
                    rows[behind][slot][1][warp][lane] = mine[behind][now][ROWS - 1];
                }
            }
            __syncthreads();
        }
    }
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

struct Grid {
    int n;
    size_t bytes;
    float *u, *v;
    std::vector<float> begin;
    explicit Grid(int n) : n(n), bytes((size_t)n * n * n * 4), begin((size_t)n * n * n) {
        for (size_t at = 0; at < begin.size(); at++) begin[at] = (float)((at * 2654435761u) % 10007) / 10007;
        CHECK(cudaMalloc(&u, bytes));
        CHECK(cudaMalloc(&v, bytes));
        reset();
    }
    void reset() {
        CHECK(cudaMemcpy(u, begin.data(), bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(v, 0xff, bytes));
    }
    template <int PLANES> void sweep() {
        plain<PLANES><<<dim3((n + 63) / 64, (n + 3) / 4, (n + PLANES - 1) / PLANES), dim3(64, 4)>>>(u, v, n);
        std::swap(u, v);
    }
    std::vector<float> answer() {
        std::vector<float> found(begin.size());
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(found.data(), u, bytes, cudaMemcpyDeviceToHost));
        return found;
    }
};

static void said(double microseconds, int sweeps, const char *shape) {
    printf("{\"microseconds\": %.4f, \"sweeps\": %d, \"shape\": \"%s\"}\n", microseconds / sweeps, sweeps, shape);
}

template <int SWEEPS, int ROWS, int WARPS> static void tiles(Grid &grid, int depth) {
    constexpr int HALO = 4 * ((SWEEPS + 3) / 4), OWN_X = 128 - 2 * HALO, OWN_Y = WARPS * ROWS - 2 * SWEEPS;
    static_assert(OWN_X > 0 && OWN_Y > 0, "a tile owns cells");
    const auto kernel = streamed<SWEEPS, ROWS, WARPS>;
    const int shared = SWEEPS * 4 * WARPS * 32 * sizeof(float4), n = grid.n;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const dim3 blocks((n + OWN_X - 1) / OWN_X, (n + OWN_Y - 1) / OWN_Y, (n + depth - 1) / depth);
    const auto pass = [&] {
        kernel<<<blocks, dim3(32, WARPS), shared>>>(grid.u, grid.v, n, depth);
        std::swap(grid.u, grid.v);
    };
    char shape[80];
    snprintf(shape, sizeof shape, "%d x %d x 128, %d rows a thread, %d sweeps", depth, WARPS * ROWS, ROWS, SWEEPS);
    static std::vector<float> wanted;
    if (wanted.empty()) {
        grid.reset();
        for (int sweep = 0; sweep < 2 * SWEEPS; sweep++) grid.sweep<8>();
        wanted = grid.answer();
    }
    grid.reset();
    pass();
    pass();
    const std::vector<float> found = grid.answer();
    for (size_t at = 0; at < wanted.size(); at++)
        if (memcmp(&found[at], &wanted[at], 4)) {
            fprintf(stderr, "raw_planes: %s: cell %zu is %g, not %g\n", shape, at, found[at], wanted[at]);
            exit(1);
        }
    said(timed(pass), SWEEPS, shape);
}

int main(int count, char **words) {
    if (count != 2) return 2;
    const int n = atoi(words[1]);
    if (n < 4 || n % 4) return 2;
    Grid grid(n);
    said(timed([&] { grid.sweep<4>(); }), 1, "plain, 4 planes a thread");
    said(timed([&] { grid.sweep<8>(); }), 1, "plain, 8 planes a thread");
    said(timed([&] { grid.sweep<16>(); }), 1, "plain, 16 planes a thread");
    for (int depth : {n / 8, n / 4}) {
        tiles<2, 2, 8>(grid, depth);
        tiles<3, 2, 16>(grid, depth);
        tiles<3, 3, 12>(grid, depth);
        tiles<4, 2, 16>(grid, depth);
        tiles<4, 3, 12>(grid, depth);
    }
    return 0;
}

// What several sweeps for a pass over memory can cost in CUDA C, for benchmarks/raw_tiles.py.
//   raw_tiles jacobi N   the 5-point mean over N^2 float32, edges fixed: overlapped tiles, cells in registers
//   raw_tiles copy N     a device-to-device copy of N^2 float32
// A line of JSON for each shape that was tried, with microseconds a sweep. A block has a tile with a halo of as many cells as
// it does sweeps; a thread has some rows of a column, and columns a warp apart. Neighbours above and below are its own
// registers but for its first and last row, those beside it are in shared memory, of which there are two copies: one barrier
// a sweep. Cells at the rim of a tile go wrong, one more each sweep, and only those that this does not reach are stored. Each
// answer is compared, bit for bit, with one sweep a launch; a wrong one or a failed call ends with status 1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "raw_tiles: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int REPEATS = 5;

// The order of the sum is that of every kernel here.
__device__ __forceinline__ float mean(float above, float below, float left, float right) {
    return 0.25f * (((above + below) + left) + right);
}

__global__ void plain(const float *__restrict__ u, float *__restrict__ v, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    const size_t at = (size_t)y * n + x;
    v[at] = x > 0 && y > 0 && x < n - 1 && y < n - 1 ? mean(u[at - n], u[at + n], u[at - 1], u[at + 1]) : u[at];
}

// A tile of 32 * COLUMNS by DOWN * ROWS cells, halo and all.
template <int SWEEPS, int COLUMNS, int DOWN, int ROWS>
__global__ void __launch_bounds__(32 * DOWN) tiled(const float *__restrict__ u, float *__restrict__ v, int n) {
    // A column more on each side: what is there is wrong, and may be anything.
    constexpr int WIDTH = 32 * COLUMNS, HEIGHT = DOWN * ROWS, PITCH = WIDTH + 2, CELLS = PITCH * (HEIGHT + 2);
    extern __shared__ float both[];
    const int left = blockIdx.x * (WIDTH - 2 * SWEEPS) - SWEEPS, top = blockIdx.y * (HEIGHT - 2 * SWEEPS) - SWEEPS;
    const int first = threadIdx.y * ROWS;
    float mine[COLUMNS][ROWS];
    unsigned moves[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int x = left + (int)threadIdx.x + 32 * c;
        moves[c] = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int y = top + first + r;
            mine[c][r] = x >= 0 && x < n && y >= 0 && y < n ? u[(size_t)y * n + x] : 0;
            if (x > 0 && x < n - 1 && y > 0 && y < n - 1) moves[c] |= 1u << r;
        }
    }
    for (int at = threadIdx.y * 32 + threadIdx.x; at < 2 * CELLS; at += 32 * DOWN) both[at] = 0;
    __syncthreads();
#pragma unroll
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        float *cells = both + (sweep & 1) * CELLS + (first + 1) * PITCH + threadIdx.x + 1;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) cells[r * PITCH + 32 * c] = mine[c][r];
        __syncthreads();
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const float *column = cells + 32 * c;
            float above = column[-PITCH];
            const float last = column[ROWS * PITCH];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float here = mine[c][r], below = r + 1 < ROWS ? mine[c][r + 1 < ROWS ? r + 1 : r] : last;
                const float found = mean(above, below, column[r * PITCH - 1], column[r * PITCH + 1]);
                if (moves[c] >> r & 1) mine[c][r] = found;
                above = here;
            }
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int across = (int)threadIdx.x + 32 * c, x = left + across;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int down = first + r, y = top + down;
            const bool owned = across >= SWEEPS && across < WIDTH - SWEEPS && down >= SWEEPS && down < HEIGHT - SWEEPS;
            if (owned && x < n && y < n) v[(size_t)y * n + x] = mine[c][r];
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
    explicit Grid(int n) : n(n), bytes((size_t)n * n * 4), begin((size_t)n * n) {
        for (size_t at = 0; at < begin.size(); at++) begin[at] = (float)((at * 2654435761u) % 10007) / 10007;
        CHECK(cudaMalloc(&u, bytes));
        CHECK(cudaMalloc(&v, bytes));
        reset();
    }
    void reset() {
        CHECK(cudaMemcpy(u, begin.data(), bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(v, 0xff, bytes));
    }
    void sweep() {
        const dim3 block(32, 8);
        plain<<<dim3((n + 31) / 32, (n + 7) / 8), block>>>(u, v, n);
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

template <int SWEEPS, int COLUMNS, int DOWN, int ROWS> static void tiles(Grid &grid) {
    constexpr int WIDTH = 32 * COLUMNS, HEIGHT = DOWN * ROWS;
    static_assert(WIDTH > 2 * SWEEPS && HEIGHT > 2 * SWEEPS && ROWS <= 32, "a tile owns cells");
    const auto kernel = tiled<SWEEPS, COLUMNS, DOWN, ROWS>;
    const int shared = 2 * (WIDTH + 2) * (HEIGHT + 2) * 4, n = grid.n;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    constexpr int OWN_X = WIDTH - 2 * SWEEPS, OWN_Y = HEIGHT - 2 * SWEEPS;
    const dim3 blocks((n + OWN_X - 1) / OWN_X, (n + OWN_Y - 1) / OWN_Y);
    const auto pass = [&] {
        kernel<<<blocks, dim3(32, DOWN), shared>>>(grid.u, grid.v, n);
        std::swap(grid.u, grid.v);
    };
    char shape[80];
    snprintf(shape, sizeof shape, "%d x %d, %d rows a thread, %d sweeps", WIDTH, HEIGHT, ROWS, SWEEPS);
    grid.reset();
    for (int sweep = 0; sweep < 2 * SWEEPS; sweep++) grid.sweep();
    const std::vector<float> wanted = grid.answer();
    grid.reset();
    pass();
    pass();
    const std::vector<float> found = grid.answer();
    for (size_t at = 0; at < wanted.size(); at++)
        if (memcmp(&found[at], &wanted[at], 4)) {
            fprintf(stderr, "raw_tiles: %s: cell %zu is %g, not %g\n", shape, at, found[at], wanted[at]);
            exit(1);
        }
    said(timed(pass), SWEEPS, shape);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    const int n = atoi(words[2]);
    if (n < 1) return 2;
    Grid grid(n);
    if (!strcmp(words[1], "copy")) {
        said(timed([&] { CHECK(cudaMemcpyAsync(grid.v, grid.u, grid.bytes, cudaMemcpyDeviceToDevice)); }), 1, "copy");
    } else if (!strcmp(words[1], "jacobi")) {
        said(timed([&] { grid.sweep(); }), 1, "plain");
        tiles<2, 2, 16, 4>(grid);
        tiles<4, 2, 16, 4>(grid);
        tiles<4, 2, 8, 8>(grid);
        tiles<4, 3, 16, 6>(grid);
        tiles<6, 2, 16, 6>(grid);
        tiles<6, 4, 16, 8>(grid);
        tiles<8, 2, 16, 8>(grid);
        tiles<8, 3, 16, 6>(grid);
        tiles<8, 4, 16, 6>(grid);
        tiles<8, 4, 16, 8>(grid);
    } else return 2;
    return 0;
}

// What a convergence loop in overlapped tiles can cost in CUDA C, for benchmarks/raw_tiles.py.
//   raw_converging N TURNS   the 5-point mean over N^2 float32, edges fixed, until no cell changes by more than a tolerance
// A line of JSON for each shape of tile that was tried, with microseconds a sweep. The graph is two while nodes. The body of the
// first does two blocks of sweeps, forth and back, each in tiles as in raw_tiles.cu; a block says how far each of its sweeps
// moved a cell that it owns, by one atomic a tile and sweep, and a kernel of one thread looks whether the loop goes on behind
// every one of them. Where it does not, the block is dropped, and the second node does the sweeps one by one from where the block
// began: it ends exactly, and the number of sweeps and the value are returned. Each answer is compared, bit for bit, with sweeps
// launched one by one; a wrong one or a failed call ends with status 1.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "raw_converging: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int REPEATS = 5, MOST_SWEEPS = 8;

struct State {
    // Bits of floats that are not negative are in order.
    unsigned moved[MOST_SWEEPS];
    long turns;
    float value;
    // Which of the two arrays has the cells, and whether a block was dropped.
    int where, dropped;
};

__device__ __forceinline__ float mean(float above, float below, float left, float right) {
    return 0.25f * (((above + below) + left) + right);
}

__global__ void begin(State *state) {
    if (threadIdx.x < MOST_SWEEPS) state->moved[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        state->turns = state->where = state->dropped = 0;
        state->value = INFINITY;
    }
}

__device__ __forceinline__ bool goes_on(float value, long turns, float tolerance, long most) {
    return value > tolerance && turns < most;
}

// One sweep, and how far it moved a cell: the loop behind the blocks.
__global__ void plain(float *a, float *b, int n, State *state) {
    const float *u = state->where ? b : a;
    float *v = state->where ? a : b;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float change = 0;
    if (x < n && y < n) {
        const size_t at = (size_t)y * n + x;
        const float here = u[at];
        const bool inside = x > 0 && y > 0 && x < n - 1 && y < n - 1;
        const float found = inside ? mean(u[at - n], u[at + n], u[at - 1], u[at + 1]) : here;
        v[at] = found;
        change = fabsf(found - here);
    }
    const unsigned most = __reduce_max_sync(~0u, __float_as_uint(change));
    __shared__ unsigned of_block;
    if (threadIdx.x + threadIdx.y == 0) of_block = 0;
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(&of_block, most);
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) atomicMax(&state->moved[0], of_block);
}
__global__ void after_plain(State *state, float tolerance, long most, cudaGraphConditionalHandle handle) {
    state->value = __uint_as_float(state->moved[0]);
    state->moved[0] = 0;
    state->turns++;
    state->where ^= 1;
    if (handle) cudaGraphSetConditional(handle, goes_on(state->value, state->turns, tolerance, most));
}
__global__ void before_plain(State *state, float tolerance, long most, cudaGraphConditionalHandle handle) {
    cudaGraphSetConditional(handle, goes_on(state->value, state->turns, tolerance, most));
}

// A tile of 32 * COLUMNS by DOWN * ROWS cells, halo and all.
template <int SWEEPS, int COLUMNS, int DOWN, int ROWS>
__global__ void __launch_bounds__(32 * DOWN) tiled(const float *__restrict__ u, float *__restrict__ v, int n, State *state) {
    constexpr int WIDTH = 32 * COLUMNS, HEIGHT = DOWN * ROWS, PITCH = WIDTH + 2, CELLS = PITCH * (HEIGHT + 2);
    extern __shared__ float both[];
    __shared__ unsigned moved[SWEEPS][DOWN];
    if (state->dropped) return;
    const int left = blockIdx.x * (WIDTH - 2 * SWEEPS) - SWEEPS, top = blockIdx.y * (HEIGHT - 2 * SWEEPS) - SWEEPS;
    const int first = threadIdx.y * ROWS;
    float mine[COLUMNS][ROWS];
    unsigned moves[COLUMNS], owns[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int across = (int)threadIdx.x + 32 * c, x = left + across;
        moves[c] = owns[c] = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int down = first + r, y = top + down;
            mine[c][r] = x >= 0 && x < n && y >= 0 && y < n ? u[(size_t)y * n + x] : 0;
            if (x > 0 && x < n - 1 && y > 0 && y < n - 1) moves[c] |= 1u << r;
            const bool owned = across >= SWEEPS && across < WIDTH - SWEEPS && down >= SWEEPS && down < HEIGHT - SWEEPS;
            if (owned && moves[c] >> r & 1) owns[c] |= 1u << r;
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
        float change = 0;
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
                if (owns[c] >> r & 1) change = fmaxf(change, fabsf(found - here));
                above = here;
            }
        }
        const unsigned most = __reduce_max_sync(~0u, __float_as_uint(change));
        if (threadIdx.x == 0) moved[sweep][threadIdx.y] = most;
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
    __syncthreads();
    const int sweep = threadIdx.y * 32 + threadIdx.x;
    if (sweep < SWEEPS) {
        unsigned most = 0;
        for (int warp = 0; warp < DOWN; warp++) most = max(most, moved[sweep][warp]);
        atomicMax(&state->moved[sweep], most);
    }
}
// Behind a block: whether the loop goes on behind each of its sweeps.
__global__ void after_block(State *state, int sweeps, float tolerance, long most, cudaGraphConditionalHandle handle) {
    if (state->dropped) return;
    bool on = true;
    for (int sweep = 0; sweep < sweeps; sweep++)
        on = on && goes_on(__uint_as_float(state->moved[sweep]), state->turns + sweep + 1, tolerance, most);
    if (on) {
        state->value = __uint_as_float(state->moved[sweeps - 1]);
        state->turns += sweeps;
        state->where ^= 1;
    } else {
        state->dropped = 1;
        cudaGraphSetConditional(handle, 0);
    }
    for (int sweep = 0; sweep < sweeps; sweep++) state->moved[sweep] = 0;
}

static cudaStream_t stream;
static State *state, *pinned;
static float *u, *v;
static std::vector<float> start;

static void reset(int n) {
    const size_t bytes = (size_t)n * n * 4;
    CHECK(cudaMemcpyAsync(u, start.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(v, start.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// A while node behind `after`, and its body.
static cudaGraph_t loop(cudaGraph_t graph, cudaGraphNode_t *after, cudaGraphConditionalHandle handle) {
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = cudaGraphCondTypeWhile;
    parameters.conditional.size = 1;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, 1, &parameters));
    *after = node;
    return parameters.conditional.phGraph_out[0];
}
// A kernel of one block behind `after`, which it takes the place of.
static void alone(cudaGraph_t graph, cudaGraphNode_t *after, bool behind, void *kernel, int threads, void **arguments) {
    cudaKernelNodeParams parameters = {};
    parameters.func = kernel;
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(threads);
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, behind, &parameters));
    *after = node;
}
template <class Launches> static void captured(cudaGraph_t graph, Launches launches) {
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    launches();
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
}

struct Shape {
    int sweeps;
    void (*kernel)(const float *, float *, int, State *);
    dim3 blocks, threads;
    int shared;
    char name[80];
};

static dim3 all_of(int n) { return dim3((n + 31) / 32, (n + 7) / 8); }

static cudaGraphExec_t made(const Shape &shape, int n, float tolerance, long most) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle in_tiles, one_by_one;
    CHECK(cudaGraphConditionalHandleCreate(&in_tiles, graph, 1, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&one_by_one, graph, 0, cudaGraphCondAssignDefault));
    cudaGraphNode_t last;
    void *all[] = {&state, &tolerance, &most, &one_by_one};
    alone(graph, &last, false, (void *)begin, 32, all);
    captured(loop(graph, &last, in_tiles), [&] {
        for (int block = 0; block < 2; block++) {
            shape.kernel<<<shape.blocks, shape.threads, shape.shared, stream>>>(block ? v : u, block ? u : v, n, state);
            after_block<<<1, 1, 0, stream>>>(state, shape.sweeps, tolerance, most, in_tiles);
        }
    });
    alone(graph, &last, true, (void *)before_plain, 1, all);
    captured(loop(graph, &last, one_by_one), [&] {
        plain<<<all_of(n), dim3(32, 8), 0, stream>>>(u, v, n, state);
        after_plain<<<1, 1, 0, stream>>>(state, tolerance, most, one_by_one);
    });
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

static State run(cudaGraphExec_t executable) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaMemcpyAsync(pinned, state, sizeof(State), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return *pinned;
}

// Sweeps launched one by one until the loop ends; the values behind each, the one before the first is infinite.
static State one_by_one(int n, float tolerance, long most, std::vector<float> *values) {
    reset(n);
    begin<<<1, 32, 0, stream>>>(state);
    do {
        CHECK(cudaMemcpyAsync(pinned, state, sizeof(State), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        values->push_back(pinned->value);
        plain<<<all_of(n), dim3(32, 8), 0, stream>>>(u, v, n, state);
        after_plain<<<1, 1, 0, stream>>>(state, tolerance, most, 0);
        CHECK(cudaGetLastError());
    } while (values->back() > tolerance && (long)values->size() < most);
    return *pinned;
}

static std::vector<float> cells(int n, int where) {
    std::vector<float> found((size_t)n * n);
    CHECK(cudaMemcpy(found.data(), where ? v : u, found.size() * 4, cudaMemcpyDeviceToHost));
    return found;
}

static void expect(bool right, const char *what, const Shape &shape, State answer) {
    if (!right) {
        fprintf(stderr, "raw_converging: %s, %s: %ld sweeps, %g\n", what, shape.name, answer.turns, answer.value);
        exit(1);
    }
}

template <int SWEEPS, int COLUMNS, int DOWN, int ROWS> static void measured(int n, int most) {
    constexpr int WIDTH = 32 * COLUMNS, HEIGHT = DOWN * ROWS, OWN_X = WIDTH - 2 * SWEEPS, OWN_Y = HEIGHT - 2 * SWEEPS;
    static_assert(OWN_X > 0 && OWN_Y > 0 && ROWS <= 32 && SWEEPS <= MOST_SWEEPS && 32 * DOWN >= SWEEPS, "a tile owns cells");
    const auto kernel = tiled<SWEEPS, COLUMNS, DOWN, ROWS>;
    const int shared = 2 * (WIDTH + 2) * (HEIGHT + 2) * 4;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    Shape shape{SWEEPS, kernel, dim3((n + OWN_X - 1) / OWN_X, (n + OWN_Y - 1) / OWN_Y), dim3(32, DOWN), shared, ""};
    snprintf(shape.name, sizeof shape.name, "%d x %d, %d rows a thread, %d sweeps", WIDTH, HEIGHT, ROWS, SWEEPS);
    // It ends in the middle of a block, and at the end of one, by the tolerance and by the number of sweeps.
    std::vector<float> values;
    one_by_one(n, -1, 41, &values);
    for (int wanted : {1, 3 * SWEEPS, 3 * SWEEPS + 1, 29}) {
        const float tolerance = values[wanted];
        const long first = std::find_if(values.begin(), values.end(), [&](float value) { return value <= tolerance; }) - values.begin();
        for (bool by_tolerance : {true, false}) {
            const long turns = by_tolerance ? first : wanted;
            std::vector<float> again;
            one_by_one(n, -1, turns, &again);
            const std::vector<float> expected = cells(n, (int)(turns & 1));
            cudaGraphExec_t executable = made(shape, n, by_tolerance ? tolerance : -1, by_tolerance ? 1000 : wanted);
            reset(n);
            const State answer = run(executable);
            expect(answer.turns == turns && answer.value == values[turns], "wrong end", shape, answer);
            const std::vector<float> found = cells(n, answer.where);
            expect(!memcmp(found.data(), expected.data(), found.size() * 4), "wrong cells", shape, answer);
            CHECK(cudaGraphExecDestroy(executable));
        }
    }
    cudaGraphExec_t executable = made(shape, n, -1, most);
    reset(n);
    std::vector<double> times;
    for (int repeat = -1; repeat < REPEATS; repeat++) {
        const auto begins = std::chrono::steady_clock::now();
        const State answer = run(executable);
        const double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begins).count();
        if (repeat >= 0) times.push_back(took / most);
        expect(answer.turns == most && std::isfinite(answer.value), "wrong number of sweeps", shape, answer);
    }
    CHECK(cudaGraphExecDestroy(executable));
    std::sort(times.begin(), times.end());
    printf("{\"microseconds\": %.4f, \"sweeps\": %d, \"shape\": \"%s\"}\n", times[REPEATS / 2], SWEEPS, shape.name);
    fflush(stdout);
}

int main(int count, char **words) {
    const int n = count == 3 ? atoi(words[1]) : 0, most = count == 3 ? atoi(words[2]) : 0;
    if (n < 1 || most < 1) return 2;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&state, sizeof(State)));
    CHECK(cudaMallocHost(&pinned, sizeof(State)));
    CHECK(cudaMalloc(&u, (size_t)n * n * 4));
    CHECK(cudaMalloc(&v, (size_t)n * n * 4));
    start.resize((size_t)n * n);
    for (size_t at = 0; at < start.size(); at++) start[at] = (float)((at * 2654435761u) % 10007) / 10007;
    measured<4, 2, 8, 8>(n, most);
    measured<6, 4, 16, 8>(n, most);
    measured<8, 2, 16, 8>(n, most);
    measured<8, 4, 16, 6>(n, most);
    measured<8, 4, 16, 8>(n, most);
    return 0;
}

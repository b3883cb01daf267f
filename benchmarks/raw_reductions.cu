// What a convergence loop can cost in CUDA C, for benchmarks/reductions.py: a while node whose body is unrolled, and no last block.
//   raw_reductions jacobi|cg N TURNS   float32, N x N; a line of JSON for each shape of grid that was tried
// Each block publishes one partial result, and every block of the next kernel combines them all, in one order, and evaluates
// the condition and the scalars itself: no ticket, no fence. Partial results and scalars have two places, used in turn; a body
// has an even number of copies, so that turns of the node begin with the same one. The first copy that sees the end says so in
// a word that all later ones test, behind their wait, and takes the node's condition back. Its turn is the last one, or one
// empty turn follows. The loop ends exactly: no sweep runs behind the end, and the number of sweeps and the value are returned.
// Each answer is compared with kernels launched one by one; a wrong one or a failed call ends with status 1.
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
        fprintf(stderr, "raw_reductions: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int MOST = 4096, REPEATS = 7, SWEEPS = 16, STEPS = 4;

struct Answer { long turns; float value; };
// What the kernels share: two places for what an iteration hands to the next one.
struct State {
    float part[2][MOST], dot[MOST];
    long turns[2];
    int done;
    Answer answer;
};

__device__ __forceinline__ void wait_for_others(bool early) {
    if (early) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

struct Max {
    static __device__ float none() { return -INFINITY; }
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
    static __device__ float none() { return 0.0f; }
    static __device__ float of(float a, float b) { return a + b; }
};

__device__ __forceinline__ int lane() { return threadIdx.y * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int block() { return blockIdx.y * gridDim.x + blockIdx.x; }
__device__ __forceinline__ bool first_of_all() { return lane() == 0 && block() == 0; }

// The value of all threads of a block, which each of them gets.
template <class Op> __device__ float across_block(float value) {
    __shared__ float of_warp[32];
    for (int offset = 16; offset; offset >>= 1) value = Op::of(value, __shfl_xor_sync(~0u, value, offset));
    __syncthreads();
    if (lane() % 32 == 0) of_warp[lane() / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int k = 1; k < blockDim.x * blockDim.y / 32; k++) value = Op::of(value, of_warp[k]);
    return value;
}
template <class Op> __device__ float combined(const float *parts) {
    float value = Op::none();
    int parts_in_all = gridDim.x * gridDim.y;
    for (int k = lane(); k < parts_in_all; k += blockDim.x * blockDim.y) value = Op::of(value, __ldcg(parts + k));
    return across_block<Op>(value);
}
template <class Op> __device__ void publish(float value, float *parts) {
    value = across_block<Op>(value);
    if (lane() == 0) parts[block()] = value;
}

// Whether an iteration follows; where none does, one thread of all says so. `number` is the iteration's place in a turn.
__device__ bool goes_on(State *state, int number, float value, float tolerance, long most, cudaGraphConditionalHandle handle) {
    long turns = state->turns[number & 1];
    if (value > tolerance && turns < most) {
        if (first_of_all()) state->turns[~number & 1] = turns + 1;
        return true;
    }
    if (first_of_all()) {
        state->answer = {turns, value};
        state->done = 1;
        cudaGraphSetConditional(handle, 0);
    }
    return false;
}

__device__ __forceinline__ float relaxed(const float *u, const float *f, size_t at, int n) {
    return 0.25f * (u[at - n] + u[at + n] + u[at - 1] + u[at + 1] + f[at]);
}
#define INSIDE(i, j, n)                                                              \
    int j = blockIdx.x * blockDim.x + threadIdx.x + 1;                               \
    if (j < n - 1)                                                                   \
        for (int i = blockIdx.y * blockDim.y + threadIdx.y + 1; i < n - 1; i += gridDim.y * blockDim.y)

__global__ void sweep(const float *__restrict__ u, float *__restrict__ v, const float *__restrict__ f, int n, State *state,
                      int number, bool early, float tolerance, long most, cudaGraphConditionalHandle handle) {
    wait_for_others(early);
    if (state->done) return;
    if (!goes_on(state, number, combined<Max>(state->part[number & 1]), tolerance, most, handle)) return;
    float change = 0.0f;
    INSIDE(i, j, n) {
        size_t at = (size_t)i * n + j;
        float value = relaxed(u, f, at, n);
        change = fmaxf(change, fabsf(value - u[at]));
        v[at] = value;
    }
    publish<Max>(change, state->part[~number & 1]);
}

__device__ __forceinline__ float applied(const float *p, size_t at, int n) {
    return 4.0f * p[at] - p[at - n] - p[at + n] - p[at - 1] - p[at + 1];
}
__global__ void apply(const float *__restrict__ p, float *__restrict__ q, int n, State *state, int number, bool early,
                      float tolerance, long most, cudaGraphConditionalHandle handle) {
    wait_for_others(early);
    if (state->done) return;
    if (!goes_on(state, number, combined<Sum>(state->part[number & 1]), tolerance, most, handle)) return;
    float dot = 0.0f;
    INSIDE(i, j, n) {
        size_t at = (size_t)i * n + j;
        float value = applied(p, at, n);
        q[at] = value;
        dot += value * p[at];
    }
    publish<Sum>(dot, state->dot);
}
__global__ void advance(float *__restrict__ x, float *__restrict__ r, const float *__restrict__ p, const float *__restrict__ q,
                        int n, State *state, int number, bool early) {
    wait_for_others(early);
    if (state->done) return;
    float alpha = combined<Sum>(state->part[number & 1]) / combined<Sum>(state->dot), norm = 0.0f;
    INSIDE(i, j, n) {
        size_t at = (size_t)i * n + j;
        x[at] += alpha * p[at];
        float left = r[at] - alpha * q[at];
        r[at] = left;
        norm += left * left;
    }
    publish<Sum>(norm, state->part[~number & 1]);
}
__global__ void turn(float *__restrict__ p, const float *__restrict__ r, int n, State *state, int number, bool early) {
    wait_for_others(early);
    if (state->done) return;
    float beta = combined<Sum>(state->part[~number & 1]) / combined<Sum>(state->part[number & 1]);
    INSIDE(i, j, n) {
        size_t at = (size_t)i * n + j;
        p[at] = r[at] + beta * p[at];
    }
}

// What comes before the loop: jacobi's change is above every tolerance, CG begins with x = 0 and r = p = b.
__global__ void begin_sweeps(State *state) {
    for (int k = lane(); k < MOST; k += blockDim.x * blockDim.y) state->part[0][k] = INFINITY;
    if (lane() == 0) state->done = 0, state->turns[0] = 0;
}
__global__ void begin_steps(float *x, float *r, float *p, const float *b, int n, State *state) {
    float norm = 0.0f;
    INSIDE(i, j, n) {
        size_t at = (size_t)i * n + j;
        x[at] = 0.0f;
        r[at] = p[at] = b[at];
        norm += b[at] * b[at];
    }
    publish<Sum>(norm, state->part[0]);
    if (first_of_all()) state->done = 0, state->turns[0] = 0;
}

// --- the same, kernel by kernel, to compare with: one thread combines all parts -------------------------------------------
template <class Op> __global__ void combine_alone(const float *parts, int count, float *result) {
    float value = Op::none();
    for (int k = 0; k < count; k++) value = Op::of(value, parts[k]);
    *result = value;
}
__global__ void fill(float *x, int n, float scale, unsigned seed) {
    size_t all = (size_t)n * n;
    for (size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x; at < all; at += (size_t)gridDim.x * blockDim.x) {
        unsigned hash = ((unsigned)at + seed) * 2654435761u;
        hash = (hash ^ (hash >> 15)) * 2246822519u;
        size_t i = at / n, j = at % n;
        bool inside = i > 0 && j > 0 && i + 1 < n && j + 1 < n;
        x[at] = inside ? scale * ((hash >> 8) * (1.0f / 16777216.0f) - 0.5f) : 0.0f;
    }
}

static cudaStream_t stream;
static int multiprocessors;
static float *arrays[5];
static State *state;

template <class... Formal, class... Actual> static void launch(void (*kernel)(Formal...), dim3 grid, dim3 threads, bool after, Actual... actual) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = threads;
    config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = after;
    CHECK(cudaLaunchKernelEx(&config, kernel, Formal(actual)...));
}

static bool early_of(dim3 grid, dim3 threads) {
    return 2L * grid.x * grid.y * threads.x * threads.y <= 2048L * multiprocessors;
}

static void begin(bool cg, int n, dim3 grid, dim3 threads) {
    if (cg) launch(begin_steps, grid, threads, false, arrays[0], arrays[1], arrays[2], arrays[4], n, state);
    else launch(begin_sweeps, dim3(1), dim3(256), false, state);
}

// The graph: what comes before the loop, and the while node.
static cudaGraphExec_t made(bool cg, int n, dim3 grid, dim3 threads, float tolerance, long most) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    begin(cg, n, grid, threads);
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t first, loop;
    size_t nodes = 1;
    CHECK(cudaGraphGetNodes(graph, &first, &nodes));
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = cudaGraphCondTypeWhile;
    parameters.conditional.size = 1;
    CHECK(cudaGraphAddNode(&loop, graph, &first, nullptr, 1, &parameters));
    cudaGraph_t body = parameters.conditional.phGraph_out[0];
    bool early = early_of(grid, threads);
    CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    if (cg)
        for (int k = 0; k < STEPS; k++) {
            launch(apply, grid, threads, k > 0, arrays[2], arrays[3], n, state, k, early, tolerance, most, handle);
            launch(advance, grid, threads, true, arrays[0], arrays[1], arrays[2], arrays[3], n, state, k, early);
            launch(turn, grid, threads, true, arrays[2], arrays[1], n, state, k, early);
        }
    else
        for (int k = 0; k < SWEEPS; k++)
            launch(sweep, grid, threads, k > 0, arrays[k & 1], arrays[~k & 1], arrays[4], n, state, k, early, tolerance, most, handle);
    CHECK(cudaStreamEndCapture(stream, &body));
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

static Answer run(cudaGraphExec_t executable, Answer *pinned) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaMemcpyAsync(pinned, &state->answer, sizeof(Answer), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return *pinned;
}

static void fill_all(int n) {
    for (int k = 0; k < 4; k++) fill<<<4 * multiprocessors, 256, 0, stream>>>(arrays[k], n, k < 2 ? 1.0f : 0.0f, 0);
    fill<<<4 * multiprocessors, 256, 0, stream>>>(arrays[4], n, 0.01f, 77);
    CHECK(cudaGetLastError());
}

// The values behind each of `most` iterations, launched one by one.
static std::vector<float> one_by_one(bool cg, int n, dim3 grid, dim3 threads, int most) {
    fill_all(n);
    int parts = grid.x * grid.y;
    float *value, *found;
    CHECK(cudaMalloc(&value, sizeof(float)));
    CHECK(cudaMallocHost(&found, (most + 1) * sizeof(float)));
    begin(cg, n, grid, threads);
    for (int k = 0; k < most; k++) {
        if (cg) {
            apply<<<grid, threads, 0, stream>>>(arrays[2], arrays[3], n, state, k, false, -1.0f, 1L << 40, 0);
            advance<<<grid, threads, 0, stream>>>(arrays[0], arrays[1], arrays[2], arrays[3], n, state, k, false);
            turn<<<grid, threads, 0, stream>>>(arrays[2], arrays[1], n, state, k, false);
            combine_alone<Sum><<<1, 1, 0, stream>>>(state->part[~k & 1], parts, value);
        } else {
            sweep<<<grid, threads, 0, stream>>>(arrays[k & 1], arrays[~k & 1], arrays[4], n, state, k, false, -1.0f, 1L << 40, 0);
            combine_alone<Max><<<1, 1, 0, stream>>>(state->part[~k & 1], parts, value);
        }
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(found + k + 1, value, sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    std::vector<float> values(found, found + most + 1);
    values[0] = INFINITY;
    CHECK(cudaFree(value));
    CHECK(cudaFreeHost(found));
    return values;
}

static void expect(bool right, const char *what, int n, Answer answer) {
    if (!right) {
        fprintf(stderr, "raw_reductions: %s, n = %d: %ld iterations, %g\n", what, n, answer.turns, answer.value);
        exit(1);
    }
}

static bool close_to(float found, float wanted) { return std::fabs(found - wanted) <= 1e-3f * std::fabs(wanted); }

static void measure(bool cg, int n, dim3 grid, dim3 threads, int most, Answer *pinned) {
    // The end by tolerance is exact: it comes with the first value that is no more than one in the middle.
    int few = std::min(most, 41);
    std::vector<float> values = one_by_one(cg, n, grid, threads, few);
    float tolerance = values[few / 2];
    int wanted = 1;
    while (values[wanted] > tolerance) wanted++;
    // CG combines in another order here, so two values that nearly are the tolerance may change sides.
    if (cg) tolerance *= 1.0f + 1e-4f;
    cudaGraphExec_t executable = made(cg, n, grid, threads, tolerance, few);
    for (int again = 0; again < 2; again++) {
        fill_all(n);
        Answer answer = run(executable, pinned);
        // A maximum is the same in any order.
        bool right = cg ? close_to(answer.value, values[wanted]) : answer.value == values[wanted];
        expect(answer.turns == wanted && right, "wrong end", n, answer);
    }
    CHECK(cudaGraphExecDestroy(executable));

    executable = made(cg, n, grid, threads, -1.0f, most);
    fill_all(n);
    std::vector<double> times;
    Answer answer = run(executable, pinned);
    for (int k = 0; k < REPEATS; k++) {
        auto start = std::chrono::steady_clock::now();
        answer = run(executable, pinned);
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / most);
        expect(answer.turns == most && std::isfinite(answer.value), "wrong number of iterations", n, answer);
    }
    CHECK(cudaGraphExecDestroy(executable));
    std::sort(times.begin(), times.end());
    printf("{\"n\": %d, \"threads\": \"%ux%u\", \"blocks\": \"%ux%u\", \"microseconds\": %.4f, \"least\": %.4f, \"turns\": %ld, \"value\": %.9g}\n",
           n, threads.x, threads.y, grid.x, grid.y, times[REPEATS / 2], times[0], answer.turns, answer.value);
    fflush(stdout);
}

int main(int count, char **words) {
    bool cg = count == 4 && !strcmp(words[1], "cg");
    if (count != 4 || (!cg && strcmp(words[1], "jacobi"))) {
        fprintf(stderr, "usage: raw_reductions jacobi|cg N TURNS\n");
        return 1;
    }
    int n = atoi(words[2]), most = atoi(words[3]);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaMalloc(&state, sizeof(State)));
    for (float *&each : arrays) CHECK(cudaMalloc(&each, (size_t)n * n * sizeof(float)));
    Answer *pinned;
    CHECK(cudaMallocHost(&pinned, sizeof(Answer)));
    int across = (n - 2 + 31) / 32, before = 0;
    for (int height : {8, 16}) {
        for (int share : {1, 2, 4, 8}) {
            int full = (n - 2 + height - 1) / height, down = std::max(1, std::min(full, multiprocessors * share / across));
            // Blocks that run at once, a partial result each; and no shape twice.
            if (across * down > std::min(MOST, multiprocessors * (2048 / (32 * height))) || down == before) continue;
            measure(cg, n, dim3(across, down), dim3(32, height), most, pinned);
            before = down;
        }
        before = 0;
    }
    return 0;
}

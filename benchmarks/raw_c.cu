// What CUDA itself costs from C, for benchmarks/raw_c.py: a chain of kernel nodes, and a while node, as JSON on stdout.
//   raw_c chain K   K kernels x[i] += a in a row, as one graph and as stream launches
//   raw_c while K   a while node: K such kernels and a counter; the condition in a kernel of its own, or with the counter
//   raw_c change K  K kernels in a row as one graph that gets another array before each launch
//   raw_c fork KxN  K kernels, each with an array of its own of N elements (1,024), as a graph without edges, and in a row
//   raw_c host K    the same loop driven by the host: stream launches, a 4-byte copy back, a wait
// Elements: 1,024 float32 as 4 blocks of 256, where nothing else is said. Each answer is checked; a wrong one or a failed call ends with status 1.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "raw_c: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

using Clock = std::chrono::steady_clock;

static double microseconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

__global__ void add(float *x, int n, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] + a;
}

__global__ void decrement(int *counter) { *counter -= 1; }

__global__ void decide(cudaGraphConditionalHandle handle, const int *counter) {
    cudaGraphSetConditional(handle, *counter != 0);
}

__global__ void decrement_and_decide(cudaGraphConditionalHandle handle, int *counter) {
    int left = *counter - 1;
    *counter = left;
    cudaGraphSetConditional(handle, left != 0);
}

static const int BLOCK = 256, REPEATS = 9;
// A multiple of BLOCK.
static int N = 1024;
static float *x;
static int *counter;
static cudaStream_t stream;

static cudaGraphNode_t kernel_node(cudaGraph_t graph, const cudaGraphNode_t *before, void *function, int blocks, int threads,
                                   void **arguments) {
    cudaKernelNodeParams parameters = {};
    parameters.func = function;
    parameters.gridDim = dim3(blocks);
    parameters.blockDim = dim3(threads);
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, before, before ? 1 : 0, &parameters));
    return node;
}

// K kernels in a row in `graph`; returns the last.
static cudaGraphNode_t chain(cudaGraph_t graph, int kernels) {
    int n = N;
    float a = 1.0f;
    void *arguments[] = {&x, &n, &a};
    cudaGraphNode_t last;
    for (int k = 0; k < kernels; k++)
        last = kernel_node(graph, k ? &last : nullptr, (void *)add, N / BLOCK, BLOCK, arguments);
    return last;
}

static void expect(float value, const char *what) {
    std::vector<float> found(N);
    CHECK(cudaMemcpy(found.data(), x, N * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        if (found[i] != value) {
            fprintf(stderr, "raw_c: %s: x[%d] is %g, not %g\n", what, i, found[i], value);
            exit(1);
        }
}

template <class Launch> static void measure_launch(const char *name, Launch launch, const char *end) {
    const int burst = 20, bursts = 60, many = 500;
    for (int i = 0; i < burst; i++) launch();
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> cpu, total;
    for (int i = 0; i < bursts; i++) {
        auto start = Clock::now();
        for (int j = 0; j < burst; j++) launch();
        cpu.push_back(microseconds(start, Clock::now()) / burst);
        CHECK(cudaStreamSynchronize(stream));
    }
    for (int i = 0; i < REPEATS; i++) {
        auto start = Clock::now();
        for (int j = 0; j < many; j++) launch();
        CHECK(cudaStreamSynchronize(stream));
        total.push_back(microseconds(start, Clock::now()) / many);
    }
    printf("\"%s\": {\"cpu\": %.4f, \"total\": %.4f}%s", name, median(cpu), median(total), end);
}

static void measure_chain(int kernels) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    chain(graph, kernels);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaMemset(x, 0, N * sizeof(float)));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect((float)kernels, "chain");
    printf("{\"kernels\": %d, ", kernels);
    measure_launch("graph", [&] { CHECK(cudaGraphLaunch(exec, stream)); }, ", ");
    measure_launch(
        "stream",
        [&] {
            for (int k = 0; k < kernels; k++) add<<<N / BLOCK, BLOCK, 0, stream>>>(x, N, 1.0f);
        },
        "}\n");
    CHECK(cudaGetLastError());
}

static const int SETS = 32;
static float *sets[SETS];

static void expect_sets(int count, float value, const char *what) {
    for (int k = 0; k < count; k++) {
        CHECK(cudaMemcpy(x, sets[k], N * sizeof(float), cudaMemcpyDeviceToDevice));
        expect(value, what);
    }
}

static void take_arrays(int elements) {
    if (x && elements == N) return;
    N = elements;
    CHECK(cudaFree(x));
    CHECK(cudaMalloc(&x, N * sizeof(float)));
    for (int k = 0; k < SETS; k++) {
        CHECK(cudaFree(sets[k]));
        CHECK(cudaMalloc(&sets[k], N * sizeof(float)));
    }
}

static void clear_sets() {
    for (int k = 0; k < SETS; k++) CHECK(cudaMemset(sets[k], 0, N * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
}

static void measure_change(int kernels) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    int n = N, turn = 0;
    float a = 1.0f, *now = sets[0];
    void *arguments[] = {&now, &n, &a};
    std::vector<cudaGraphNode_t> nodes;
    for (int k = 0; k < kernels; k++)
        nodes.push_back(kernel_node(graph, k ? &nodes.back() : nullptr, (void *)add, N / BLOCK, BLOCK, arguments));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaKernelNodeParams parameters = {};
    parameters.func = (void *)add;
    parameters.gridDim = dim3(N / BLOCK);
    parameters.blockDim = dim3(BLOCK);
    parameters.kernelParams = arguments;
    auto launch = [&] {
        now = sets[turn++ % SETS];
        for (cudaGraphNode_t node : nodes) CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &parameters));
        CHECK(cudaGraphLaunch(exec, stream));
    };
    clear_sets();
    for (int k = 0; k < SETS; k++) launch();
    CHECK(cudaStreamSynchronize(stream));
    expect_sets(SETS, (float)kernels, "change");
    printf("{\"kernels\": %d, ", kernels);
    measure_launch("change", launch, "}\n");
}

static cudaGraphExec_t independent(int kernels, bool in_a_row) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    int n = N;
    float a = 1.0f;
    cudaGraphNode_t last;
    for (int k = 0; k < kernels; k++) {
        void *arguments[] = {&sets[k], &n, &a};
        last = kernel_node(graph, in_a_row && k ? &last : nullptr, (void *)add, N / BLOCK, BLOCK, arguments);
    }
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    clear_sets();
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect_sets(kernels, 1.0f, "fork");
    return exec;
}

static void measure_fork(int kernels) {
    if (kernels > SETS) {
        fprintf(stderr, "raw_c: fork: at most %d\n", SETS);
        exit(2);
    }
    cudaGraphExec_t apart = independent(kernels, false), in_a_row = independent(kernels, true);
    printf("{\"kernels\": %d, \"elements\": %d, ", kernels, N);
    measure_launch("fork", [&] { CHECK(cudaGraphLaunch(apart, stream)); }, ", ");
    measure_launch("row", [&] { CHECK(cudaGraphLaunch(in_a_row, stream)); }, "}\n");
}

static cudaGraphExec_t while_graph(int kernels, bool separate) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = cudaGraphCondTypeWhile;
    parameters.conditional.size = 1;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
#else
    CHECK(cudaGraphAddNode(&node, graph, nullptr, 0, &parameters));
#endif
    cudaGraph_t body = parameters.conditional.phGraph_out[0];
    cudaGraphNode_t last = chain(body, kernels);
    void *both[] = {&handle, &counter};
    if (separate) {
        void *only[] = {&counter};
        last = kernel_node(body, &last, (void *)decrement, 1, 1, only);
        kernel_node(body, &last, (void *)decide, 1, 1, both);
    } else {
        kernel_node(body, &last, (void *)decrement_and_decide, 1, 1, both);
    }
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

// Microseconds an iteration: the difference of a long and a short loop, so that what a launch costs falls out.
template <class Run> static double per_iteration(int few, int many, Run run) {
    std::vector<double> values;
    run(few);
    // The stream does not wait for the copies below: a loop that still ran would eat the next count, and the one after it
    // would start at zero and never end.
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < REPEATS; i++) {
        double times[2];
        int counts[2] = {few, many};
        for (int j = 0; j < 2; j++) {
            CHECK(cudaMemcpy(counter, &counts[j], sizeof(int), cudaMemcpyHostToDevice));
            CHECK(cudaDeviceSynchronize());
            auto start = Clock::now();
            run(counts[j]);
            CHECK(cudaStreamSynchronize(stream));
            times[j] = microseconds(start, Clock::now());
        }
        values.push_back((times[1] - times[0]) / (many - few));
    }
    return median(values);
}

static void measure_while(int kernels) {
    printf("{\"kernels\": %d", kernels);
    for (bool separate : {true, false}) {
        cudaGraphExec_t exec = while_graph(kernels, separate);
        const int few = 100, many = 10100, first = 7;
        CHECK(cudaMemset(x, 0, N * sizeof(float)));
        CHECK(cudaMemcpy(counter, &first, sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        expect((float)(kernels * first), "while");
        CHECK(cudaMemcpy(counter, &few, sizeof(int), cudaMemcpyHostToDevice));
        double time = per_iteration(few, many, [&](int) { CHECK(cudaGraphLaunch(exec, stream)); });
        printf(", \"%s\": %.4f", separate ? "separate" : "combined", time);
        CHECK(cudaGraphExecDestroy(exec));
    }
    printf("}\n");
}

static void measure_host(int kernels) {
    int *flag;
    CHECK(cudaMallocHost(&flag, sizeof(int)));
    auto run = [&](int) {
        do {
            for (int k = 0; k < kernels; k++) add<<<N / BLOCK, BLOCK, 0, stream>>>(x, N, 1.0f);
            decrement<<<1, 1, 0, stream>>>(counter);
            CHECK(cudaMemcpyAsync(flag, counter, sizeof(int), cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
        } while (*flag);
    };
    const int few = 20, many = 520;
    CHECK(cudaMemset(x, 0, N * sizeof(float)));
    CHECK(cudaMemcpy(counter, &few, sizeof(int), cudaMemcpyHostToDevice));
    run(few);
    expect((float)(kernels * few), "host loop");
    CHECK(cudaMemcpy(counter, &few, sizeof(int), cudaMemcpyHostToDevice));
    printf("{\"kernels\": %d, \"host\": %.4f}\n", kernels, per_iteration(few, many, run));
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: raw_c chain|while|change|fork|host K...\n");
        return 2;
    }
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&counter, sizeof(int)));
    for (int i = 2; i < count; i++) {
        int kernels = atoi(words[i]);
        const char *elements = strchr(words[i], 'x');
        take_arrays(elements ? atoi(elements + 1) : 1024);
        if (!strcmp(words[1], "chain")) measure_chain(kernels);
        if (!strcmp(words[1], "while")) measure_while(kernels);
        if (!strcmp(words[1], "change")) measure_change(kernels);
        if (!strcmp(words[1], "fork")) measure_fork(kernels);
        if (!strcmp(words[1], "host")) measure_host(kernels);
    }
    return 0;
}

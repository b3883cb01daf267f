// What loops cost that stay in one kernel, with barriers in place of edges, for benchmarks/barriers.py: JSON on stdout.
//   barriers K N ...   K loops over N float32, from x to y and back, back to front, and a counter, until that is zero
// One block, a cluster of 4, 8 or 16 blocks with the hardware's barrier, a grid of 8, 32 or as many blocks as there are
// multiprocessors with that of a cooperative launch: microseconds an iteration, the best number of blocks of each kind.
// Each answer is checked; a wrong one or a failed call ends with status 1.
#include <algorithm>
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

namespace cg = cooperative_groups;

static void check(cudaError_t status, const char *what, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "barriers: line %d: %s: %s\n", line, what, cudaGetErrorString(status));
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static const int THREADS = 1024, REPEATS = 5, FEW = 101, MANY = 1101;

template <class Group>
__device__ void iterate(Group group, float *x, float *y, int n, int loops, int *counter) {
    int lane = blockIdx.x * blockDim.x + threadIdx.x, width = gridDim.x * blockDim.x, again = 1;
    while (again) {
        for (int k = 0; k < loops; k++) {
            float *from = k & 1 ? y : x, *to = k & 1 ? x : y;
            for (int i = lane; i < n; i += width) to[n - 1 - i] = from[i] + 1.0f;
            group.sync();
        }
        if (lane == 0) *(volatile int *)counter -= 1;
        group.sync();
        again = *(volatile int *)counter > 0;
        group.sync();
    }
}

__global__ void one_block(float *x, float *y, int n, int loops, int *counter) {
    iterate(cg::this_thread_block(), x, y, n, loops, counter);
}
__global__ void cluster(float *x, float *y, int n, int loops, int *counter) {
    iterate(cg::this_cluster(), x, y, n, loops, counter);
}
__global__ void grid(float *x, float *y, int n, int loops, int *counter) {
    iterate(cg::this_grid(), x, y, n, loops, counter);
}

enum Kind { ONE_BLOCK, CLUSTER, GRID };

static float *x, *y;
static int *counter;

static double microseconds(Kind kind, int blocks, int n, int loops, int iterations) {
    std::vector<float> zero(n, 0.0f), found(n);
    CHECK(cudaMemcpy(x, zero.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(counter, &iterations, sizeof(int), cudaMemcpyHostToDevice));
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    CHECK(cudaEventRecord(from));
    void *arguments[] = {&x, &y, &n, &loops, &counter};
    if (kind == ONE_BLOCK) one_block<<<1, THREADS>>>(x, y, n, loops, counter);
    if (kind == CLUSTER) {
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = blocks;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        config.gridDim = dim3(blocks);
        config.blockDim = dim3(THREADS);
        config.attrs = &attribute;
        config.numAttrs = 1;
        CHECK(cudaLaunchKernelEx(&config, cluster, x, y, n, loops, counter));
    }
    if (kind == GRID) CHECK(cudaLaunchCooperativeKernel((void *)grid, dim3(blocks), dim3(THREADS), arguments, 0, 0));
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(to));
    CHECK(cudaEventSynchronize(to));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, from, to));
    CHECK(cudaEventDestroy(from));
    CHECK(cudaEventDestroy(to));
    // An even number of loops adds to x in each iteration; the last of an odd number is in y, one more than x.
    bool odd = loops % 2;
    float *last = odd ? y : x, wanted = (float)(odd ? loops - 1 : loops) * iterations + (odd ? 1.0f : 0.0f);
    CHECK(cudaMemcpy(found.data(), last, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (float each : found)
        if (each != wanted) {
            fprintf(stderr, "barriers: wrong answer: %g, not %g\n", each, wanted);
            exit(1);
        }
    return milliseconds * 1000.0;
}

static double iteration(Kind kind, int blocks, int n, int loops) {
    std::vector<double> samples;
    for (int i = 0; i < REPEATS; i++) {
        double few = microseconds(kind, blocks, n, loops, FEW);
        samples.push_back((microseconds(kind, blocks, n, loops, MANY) - few) / (MANY - FEW));
    }
    std::sort(samples.begin(), samples.end());
    return samples[REPEATS / 2];
}

static std::pair<double, int> best(Kind kind, const std::vector<int> &counts, int n, int loops) {
    std::pair<double, int> found(1e30, 0);
    for (int blocks : counts) found = std::min(found, std::make_pair(iteration(kind, blocks, n, loops), blocks));
    return found;
}

int main(int count, char **words) {
    if (count < 3 || count % 2 == 0) {
        fprintf(stderr, "usage: barriers K N ...\n");
        return 2;
    }
    int multiprocessors, largest = 1;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaFuncSetAttribute(cluster, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (int i = 2; i < count; i += 2) largest = std::max(largest, atoi(words[i]));
    CHECK(cudaMalloc(&x, largest * sizeof(float)));
    CHECK(cudaMalloc(&y, largest * sizeof(float)));
    CHECK(cudaMalloc(&counter, sizeof(int)));
    for (int i = 1; i < count; i += 2) {
        int loops = atoi(words[i]), n = atoi(words[i + 1]);
        auto clusters = best(CLUSTER, {4, 8, 16}, n, loops), grids = best(GRID, {8, 32, multiprocessors}, n, loops);
        printf("{\"loops\": %d, \"elements\": %d, \"one block\": %.4f, \"cluster\": %.4f, \"blocks of the cluster\": %d, "
               "\"grid\": %.4f, \"blocks of the grid\": %d}\n",
               loops, n, iteration(ONE_BLOCK, 1, n, loops), clusters.first, clusters.second, grids.first, grids.second);
        fflush(stdout);
    }
    return 0;
}

// How many while nodes may run at the same time? Nothing but CUDA's runtime: each loop counts to 100 with one thread.
//
//   nvcc -arch=native -rdc=true -O2 while_nodes.cu -o while_nodes -lcudadevrt
//   ./while_nodes STREAMS LOOPS SECONDS [apart [LAUNCHES [KERNELS]]]
//
// One graph with LOOPS while nodes for each of STREAMS streams, all launched at once, again and again. With "apart" the loops of
// a graph follow one another, and so do the graphs; each is launched LAUNCHES times (1) without waiting in between. A body has
// KERNELS kernels (0) before the one that counts. Prints what went wrong, or how many rounds were right.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

static long rounds = 0;

static void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  printf("line %d: %s, after %ld rounds\n", line, cudaGetErrorString(error), rounds);
  fflush(stdout);
  _Exit(1);
}
#define CHECK(call) check((call), __LINE__)

constexpr int TURNS = 100, BLOCKS = 4, THREADS = 128;

// synccheck (of CUDA 13.0) says of this barrier, in a while node beside another kernel, that the threads of a warp have diverged.
__global__ void work(int *data) {
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}
__global__ void start(int *counter) { *counter = 0; }
__global__ void count(cudaGraphConditionalHandle again, int *counter) {
  *counter += 1;
  cudaGraphSetConditional(again, *counter < TURNS);
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t before, void *function, void **arguments, int blocks = 1,
                                  int threads = 1) {
  cudaKernelNodeParams what = {};
  what.func = function;
  what.gridDim = dim3(blocks);
  what.blockDim = dim3(threads);
  what.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, &before, before ? 1 : 0, &what));
  return node;
}

struct Loops {
  int count;
  int *counters;
  cudaGraphExec_t executable;
  cudaStream_t stream;
  cudaEvent_t end;

  Loops(int count, bool apart, int kernels) : count(count) {
    CHECK(cudaMalloc(&counters, count * sizeof(int)));
    int *data;
    CHECK(cudaMalloc(&data, BLOCKS * THREADS * sizeof(int)));
    void *its_data[] = {&data};
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t last = nullptr;
    for (int k = 0; k < count; k++) {
      cudaGraphConditionalHandle again;
      CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
      int *counter = counters + k;
      void *its_counter[] = {&counter}, *both[] = {&again, &counter};
      cudaGraphNode_t first = add_kernel(graph, apart ? last : nullptr, (void *)start, its_counter);
      cudaGraphNodeParams loop = {};
      loop.type = cudaGraphNodeTypeConditional;
      loop.conditional.handle = again;
      loop.conditional.type = cudaGraphCondTypeWhile;
      loop.conditional.size = 1;
      CHECK(cudaGraphAddNode(&last, graph, &first, nullptr, 1, &loop));
      cudaGraph_t body = loop.conditional.phGraph_out[0];
      cudaGraphNode_t inner = nullptr;
      for (int number = 0; number < kernels; number++) inner = add_kernel(body, inner, (void *)work, its_data, BLOCKS, THREADS);
      add_kernel(body, inner, (void *)::count, both);
    }
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  }
};

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const int streams = atoi(argv[1]), loops = atoi(argv[2]);
  const bool apart = argc > 4 && strcmp(argv[4], "apart") == 0;
  const int launches = argc > 5 ? atoi(argv[5]) : 1, kernels = argc > 6 ? atoi(argv[6]) : 0;
  std::vector<Loops> graphs;
  for (int k = 0; k < streams; k++) graphs.emplace_back(loops, apart, kernels);
  const time_t end = time(nullptr) + atol(argv[3]);
  while (time(nullptr) < end) {
    for (int k = 0; k < streams; k++) {
      CHECK(cudaMemset(graphs[k].counters, 0x77, loops * sizeof(int)));
      CHECK(cudaDeviceSynchronize());
    }
    for (int k = 0; k < streams; k++) {
      if (apart && k > 0) CHECK(cudaStreamWaitEvent(graphs[k].stream, graphs[k - 1].end, 0));
      for (int launch = 0; launch < launches; launch++) CHECK(cudaGraphLaunch(graphs[k].executable, graphs[k].stream));
      CHECK(cudaEventRecord(graphs[k].end, graphs[k].stream));
    }
    CHECK(cudaDeviceSynchronize());
    rounds++;
    for (int k = 0; k < streams; k++) {
      std::vector<int> counters(loops);
      CHECK(cudaMemcpy(counters.data(), graphs[k].counters, loops * sizeof(int), cudaMemcpyDeviceToHost));
      for (int found : counters)
        if (found != TURNS) {
          printf("a loop had %d turns, after %ld rounds\n", found, rounds);
          return 1;
        }
    }
  }
  printf("%ld rounds were right\n", rounds);
  return 0;
}

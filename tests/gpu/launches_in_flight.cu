// Are launches of one graph with a while node right while others are in flight? Nothing but CUDA's runtime, to be run with and
// without compute-sanitizer.
//
//   nvcc -arch=native -rdc=true -O2 launches_in_flight.cu -o launches_in_flight -lcudadevrt
//   ./launches_in_flight LAUNCHES STREAMS ROUNDS
//
// Each round launches the graph LAUNCHES times, on STREAMS streams in turn, each launch after the one before it, and waits at the
// end. Before each launch the kernels get another counter, and another number of turns. Prints what went wrong, or that all was
// right.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static int rounds = 0;

static void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  printf("line %d: %s, after %d rounds\n", line, cudaGetErrorString(error), rounds);
  fflush(stdout);
  _Exit(1);
}
#define CHECK(call) check((call), __LINE__)

__global__ void start(int *counter) { *counter = 0; }
__global__ void count(cudaGraphConditionalHandle again, int *counter, int turns) {
  *counter += 1;
  cudaGraphSetConditional(again, *counter < turns);
}

static cudaKernelNodeParams kernel_of(void *function, void **arguments) {
  cudaKernelNodeParams what = {};
  what.func = function;
  what.gridDim = what.blockDim = 1;
  what.kernelParams = arguments;
  return what;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const int launches = atoi(argv[1]), count_of_streams = atoi(argv[2]), wanted = atoi(argv[3]);
  int *counters, turns = 1;
  CHECK(cudaMalloc(&counters, launches * sizeof(int)));

  cudaGraph_t graph;
  cudaGraphConditionalHandle again;
  cudaGraphNode_t first, loop, body;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
  int *counter = counters;
  void *of_start[] = {&counter}, *of_count[] = {&again, &counter, &turns};
  cudaKernelNodeParams starting = kernel_of((void *)start, of_start), counting = kernel_of((void *)count, of_count);
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &starting));
  cudaGraphNodeParams turning = {};
  turning.type = cudaGraphNodeTypeConditional;
  turning.conditional.handle = again;
  turning.conditional.type = cudaGraphCondTypeWhile;
  turning.conditional.size = 1;
  CHECK(cudaGraphAddNode(&loop, graph, &first, nullptr, 1, &turning));
  CHECK(cudaGraphAddKernelNode(&body, turning.conditional.phGraph_out[0], nullptr, 0, &counting));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::vector<cudaStream_t> streams(count_of_streams);
  for (cudaStream_t &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t end;
  CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));

  for (; rounds < wanted; rounds++) {
    CHECK(cudaMemset(counters, 0x77, launches * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (int k = 0; k < launches; k++) {
      cudaStream_t stream = streams[k % count_of_streams];
      counter = counters + k;
      turns = 1 + (k * 37 + rounds) % 100;
      CHECK(cudaGraphExecKernelNodeSetParams(executable, first, &starting));
      CHECK(cudaGraphExecKernelNodeSetParams(executable, body, &counting));
      if (k > 0 && count_of_streams > 1) CHECK(cudaStreamWaitEvent(stream, end, 0));
      CHECK(cudaGraphLaunch(executable, stream));
      CHECK(cudaEventRecord(end, stream));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<int> found(launches);
    CHECK(cudaMemcpy(found.data(), counters, launches * sizeof(int), cudaMemcpyDeviceToHost));
    for (int k = 0; k < launches; k++)
      if (found[k] != 1 + (k * 37 + rounds) % 100) {
        printf("launch %d had %d turns, after %d rounds\n", k, found[k], rounds);
        return 1;
      }
  }
  printf("%d rounds were right\n", rounds);
  return 0;
}

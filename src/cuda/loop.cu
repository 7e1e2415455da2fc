// Launches a recording many times as one: a graph of copies of it, each followed by a kernel that advances to the next
// step.

#include <algorithm>

#include "cuda/cuda.hpp"
#include "cuda/recording.cuh"

namespace tern::cuda {
namespace {

using Move = Capture::Loop::Move;
using Counter = Capture::Loop::Counter;

// A graph of more copies is no faster and takes longer to build.
constexpr std::int64_t most_copies = 16;

/// On the card: the position of the loop, and what is copied between two steps. Written before each loop, so the graphs
/// do not depend on it.
struct Turn {
  std::int64_t step, count;
  std::int32_t ins, outs, counters;
  unsigned arrived;  ///< blocks that have finished this turn
  Move in[Capture::Loop::most], out[Capture::Loop::most];
  Counter counter[Capture::Loop::most];
};

constexpr int turn_threads = 256;

template <class T>
__device__ void copy_as(void* to, const void* from, std::size_t bytes) {
  const std::size_t n = bytes / sizeof(T), stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
    static_cast<T*>(to)[i] = static_cast<const T*>(from)[i];
}

__device__ void copy_bytes(void* to, const void* from, std::size_t bytes) {
  const std::size_t all = reinterpret_cast<std::size_t>(to) | reinterpret_cast<std::size_t>(from) | bytes;
  if (all % sizeof(int4) == 0)
    copy_as<int4>(to, from, bytes);
  else if (all % sizeof(int) == 0)
    copy_as<int>(to, from, bytes);
  else
    copy_as<char>(to, from, bytes);
}

__global__ void turn_kernel(Turn* turn) {
  begin_kernel();
  const auto step = static_cast<std::size_t>(turn->step), next = step + 1;
  for (int i = 0; i < turn->outs; ++i) {
    const Move move = turn->out[i];
    copy_bytes(static_cast<char*>(move.to) + step * move.bytes, move.from, move.bytes);
  }
  const bool last = next == static_cast<std::size_t>(turn->count);
  for (int i = 0; i < turn->ins && !last; ++i) {
    const Move move = turn->in[i];
    copy_bytes(move.to, static_cast<const char*>(move.from) + next * move.bytes, move.bytes);
  }
  if (blockIdx.x == 0 && static_cast<int>(threadIdx.x) < turn->counters) {
    const Counter counter = turn->counter[threadIdx.x];
    *static_cast<std::uint64_t*>(counter.value) += counter.increment;
  }
  // The last block updates what all others have read.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (gridDim.x > 1 && atomicAdd(&turn->arrived, 1U) != gridDim.x - 1) return;
  turn->arrived = 0;
  turn->step = static_cast<std::int64_t>(next);
}

/// The graphs that launch a recording's loops.
struct LoopGraphs {
  Turn* turn = nullptr;
  int device = 0;
  void* stream = nullptr;  ///< that of `turn`
  unsigned blocks = 1;
  cudaGraphExec_t many = nullptr, one = nullptr;  ///< most_copies steps, and one

  LoopGraphs() = default;
  LoopGraphs(const LoopGraphs&) = delete;
  LoopGraphs& operator=(const LoopGraphs&) = delete;
  ~LoopGraphs() {
    for (cudaGraphExec_t graph : {many, one})
      if (graph != nullptr) cudaGraphExecDestroy(graph);
    if (turn != nullptr) memory(device).release(turn, sizeof(Turn), stream);
  }
};

cudaGraphNode_t add_step(cudaGraph_t graph, cudaGraphNode_t before, const Recording& recording, LoopGraphs& loop) {
  cudaGraphNode_t work = nullptr, turn = nullptr;
  check(cudaGraphAddChildGraphNode(&work, graph, before == nullptr ? nullptr : &before, before == nullptr ? 0 : 1,
                                   recording.graph),
        "repeating the step");
  void* arguments[]{&loop.turn};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(turn_kernel);
  parameters.gridDim = loop.blocks;
  parameters.blockDim = turn_threads;
  parameters.kernelParams = arguments;
  check(cudaGraphAddKernelNode(&turn, graph, &work, 1, &parameters), "repeating the step");
  return turn;
}

cudaGraphExec_t copies_of(const Recording& recording, LoopGraphs& loop, std::int64_t copies) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphCreate(&graph, 0), "repeating the step");
  const std::shared_ptr<CUgraph_st> owned(graph, [](cudaGraph_t made) { cudaGraphDestroy(made); });
  cudaGraphNode_t last = nullptr;
  for (std::int64_t i = 0; i < copies; ++i) last = add_step(graph, last, recording, loop);
  check(cudaGraphInstantiate(&executable, graph, priorities), "repeating the step");
  return executable;
}

std::shared_ptr<LoopGraphs> graphs_for(const Recording& recording, const Capture::Loop& loop, void* stream) {
  auto graphs = std::make_shared<LoopGraphs>();
  graphs->device = recording.device;
  graphs->stream = stream;
  graphs->turn = static_cast<Turn*>(memory(recording.device).allocate(sizeof(Turn), stream));
  std::size_t bytes = 0;
  for (const auto* moves : {&loop.in, &loop.out})
    for (const Move& move : *moves) bytes += move.bytes;
  graphs->blocks = std::max(1U, blocks_for(static_cast<std::int64_t>(bytes), 4096));
  return graphs;
}

template <class Entry>
void put(Entry (&to)[Capture::Loop::most], std::int32_t& count, const std::vector<Entry>& from) {
  expects(from.size() <= Capture::Loop::most, "cuda: a loop moves more than ", Capture::Loop::most, " tensors a step");
  std::ranges::copy(from, to);
  count = static_cast<std::int32_t>(from.size());
}

}  // namespace

void launch_loop(void* recording_handle, const Capture::Loop& loop, void* stream_handle) {
  auto& recording = *static_cast<Recording*>(recording_handle);
  use_card(recording.device);
  auto* const stream = static_cast<cudaStream_t>(stream_handle);
  recording.launched_on = stream;
  if (recording.loop == nullptr) recording.loop = graphs_for(recording, loop, stream_handle);
  const auto graphs = std::static_pointer_cast<LoopGraphs>(recording.loop);
  Turn turn{};
  turn.count = loop.count;
  put(turn.in, turn.ins, loop.in);
  put(turn.out, turn.outs, loop.out);
  put(turn.counter, turn.counters, loop.counters);
  memory(recording.device).copy_in(graphs->turn, &turn, sizeof turn, stream_handle);
  const auto launch_all = [&](cudaGraphExec_t& graph, std::int64_t copies, std::int64_t times) {
    if (times > 0 && graph == nullptr) graph = copies_of(recording, *graphs, copies);
    for (; times > 0; --times) check(cudaGraphLaunch(graph, stream), "replaying the steps");
  };
  launch_all(graphs->many, most_copies, loop.count / most_copies);
  launch_all(graphs->one, 1, loop.count % most_copies);
}

}  // namespace tern::cuda

#pragma once
// Where a stream of a recording waits for another one. A graph pays for each of these dependencies: its kernels reach
// the card by several queues, and a kernel behind one of them starts late. So later waits begin with earlier ones.

#include <vector>

#include "cuda/support.cuh"

namespace tern::cuda {

/// What is queued next on the stream that waits comes after `own`, its earlier work, and after `other`.
struct Wait {
  std::vector<cudaGraphNode_t> own, other;
};
/// Of one stream for another, in order.
using Waits = std::vector<Wait>;

/// Makes `stream` wait for what was queued on `other` before `event`, a new event of it. Noted in `waits` if it is not
/// null.
void wait_for(cudaStream_t stream, cudaStream_t other, cudaEvent_t event, Waits* waits);

/// Makes up to `most` waits in a row one: for the last of the other stream's work, before the first of the waiting
/// one's; fewer of the first, so that work begins early, and of the last, so that it ends early. The order of all work
/// stays as it was, or becomes stricter.
void join_waits(cudaGraph_t graph, const Waits& waits, int most);
void print_order(cudaGraph_t graph, const char* when);
void overlap_single(cudaGraph_t graph);

}  // namespace tern::cuda

#pragma once
// Rows of more than a block holds: the blocks of a cluster hold a part each, in registers, and exchange their sums.

#include <cooperative_groups.h>

#include "cuda/row_norm_rows.cuh"

namespace tern::cuda::row_normalization {

constexpr int part_threads = 1024;  // of a block, one per multiprocessor: 64 registers for each

/// Elements that a thread holds.
template <class S>
inline constexpr int part_elements = 96 / static_cast<int>(sizeof(S));

/// How rows are cut: `parts` blocks, a cluster, hold `part` elements each; 0 if there is no such cut.
struct PartCut {
  unsigned parts = 0;
  std::int64_t part = 0;

  PartCut(std::int64_t rows, std::int64_t length, int pack, int elements) {
    constexpr std::int64_t least_part = 4096, blocks = 132;
    constexpr unsigned most = 8;  // blocks of a cluster on every card that has them
    if (!card().overlap) return;
    const std::int64_t most_part = std::int64_t{elements} * part_threads;
    unsigned count = 1;
    while (count < most &&
           (length > count * most_part || (2 * rows * count <= blocks && length >= 2 * count * least_part)))
      count *= 2;
    part = ceil_div(ceil_div(length, count), pack) * pack;
    if (part <= most_part) parts = count;
  }
};

/// Reductions over all threads of a cluster, of a power of two of blocks, by what commutes: each of them gets the same
/// bits.
template <class State>
class ClusterReduction {
 public:
  template <class Combine>
  __device__ State operator()(State state, Combine combine) {
    state = reduce_block(state, combine);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    // Two states in turn: who writes one knows by the barrier between that all have read it.
    __shared__ State of_block[2];
    turn_ ^= 1;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned blocks = cluster.num_blocks(), lane = threadIdx.x % 32;
    if (blocks == 1) return state;
    if (threadIdx.x == 0) of_block[turn_] = state;
    cluster.sync();
    state = *cluster.map_shared_rank(of_block + turn_, lane % blocks);
    for (unsigned distance = blocks / 2; distance > 0; distance /= 2) {
      const State other =
          shuffled(state, [&](unsigned word) { return __shfl_xor_sync(0xffffffffu, word, distance, 32); });
      state = combine(state, other);
    }
#endif
    return state;
  }
  /// Nobody leaves while its state may be read.
  __device__ void finish() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const auto cluster = cooperative_groups::this_cluster();
    if (cluster.num_blocks() > 1) cluster.sync();
#endif
  }

 private:
  unsigned turn_ = 0;
};

/// The part of a row that a block holds.
struct RowPart {
  std::int64_t row, first;
  int count;
};

/// work(part) for the parts of this block.
template <class Work>
__device__ __forceinline__ void each_part(const Rows& rows, std::int64_t part, unsigned parts, Work work) {
  const std::int64_t first = blockIdx.x % parts * part;
  const std::int64_t left = rows.length - first;
  const int count = static_cast<int>(left < 0 ? 0 : left < part ? left : part);
  for (std::int64_t row = blockIdx.x / parts; row < rows.count; row += gridDim.x / parts)
    work(RowPart{row, first, count});
}

inline Grid part_grid(const Rows& rows, const PartCut& cut) {
  Grid grid(static_cast<unsigned>(std::min<std::int64_t>(rows.count, 1 << 27)) * cut.parts, part_threads);
  grid.cluster = cut.parts;
  return grid;
}

}  // namespace tern::cuda::row_normalization

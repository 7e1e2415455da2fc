#pragma once
// Rows of more than a block holds: the blocks of a cluster hold a part each, in registers, and exchange their sums.

#include <cooperative_groups.h>

#include "cuda/row_norm_rows.cuh"

namespace tern::cuda::row_normalization {

constexpr int cluster_threads = 512;

/// How rows are cut: `parts` blocks, a cluster, hold `part` elements each; of none if there is no such cut.
struct ClusterCut {
  unsigned parts = 0;
  std::int64_t part = 0;
  bool wide = false;  ///< threads hold 32 elements, not 16

  ClusterCut(std::int64_t rows, std::int64_t length, int pack) {
    constexpr std::int64_t narrow_part = 16 * cluster_threads, least_part = 2048,
                           blocks = 264;  // two per multiprocessor
    constexpr unsigned most = 8;          // blocks of a cluster on every card that has them
    if (!card().overlap) return;
    unsigned count = 1;
    while (count < most &&
           (length > count * narrow_part || (rows * count < blocks && length >= 2 * count * least_part)))
      count *= 2;
    part = ceil_div(ceil_div(length, count), pack) * pack;
    wide = part > narrow_part;
    if (part <= 2 * narrow_part) parts = count;
  }
};

/// Reductions over all threads of a cluster: each of them gets the same bits.
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
    if (cluster.num_blocks() == 1) return state;
    if (threadIdx.x == 0) of_block[turn_] = state;
    cluster.sync();
    state = *cluster.map_shared_rank(of_block + turn_, 0);
    for (unsigned other = 1; other < cluster.num_blocks(); ++other)
      state = combine(state, *cluster.map_shared_rank(of_block + turn_, other));
#endif
    return state;
  }
  /// Nobody leaves while its state may be read.
  __device__ void finish() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().sync();
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

inline Grid cluster_grid(const Rows& rows, const ClusterCut& cut) {
  Grid grid(static_cast<unsigned>(std::min<std::int64_t>(rows.count, 1 << 27)) * cut.parts, cluster_threads);
  grid.cluster = cut.parts;
  return grid;
}

}  // namespace tern::cuda::row_normalization

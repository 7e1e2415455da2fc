#pragma once
// The second factor of a product in the order in which its kernels read it: blocks of k, one after another; in each of
// them panels of outputs; in each of these, rows of a panel's width.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "vectorized/cache.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {

/// Elements of k that are multiplied at a time.
inline constexpr std::int64_t most_depth = 512;

template <class T>
class PackedWeights {
 public:
  PackedWeights() = default;
  /// `depth` elements of k are at hand at a time; blocks do not cross their bounds.
  PackedWeights(std::int64_t K, std::int64_t outputs, std::int64_t depth)
      : K_(K),
        panels_(divide_up(outputs, gemm_kernels<T>().panel_width)),
        depth_(std::max<std::int64_t>(depth, 1)),
        block_depth_(divide_up(depth_, divide_up(depth_, most_depth))) {}

  /// One block, however deep.
  static PackedWeights whole(std::int64_t K, std::int64_t outputs) {
    PackedWeights result(K, outputs, K);
    result.block_depth_ = result.depth_;
    return result;
  }

  std::int64_t panels() const { return panels_; }
  std::int64_t size() const { return panels_ * K_ * gemm_kernels<T>().panel_width; }

  /// Row k of a panel.
  template <class Element>
  Element* row(Element* weights, std::int64_t panel, std::int64_t k) const {
    const std::int64_t width = gemm_kernels<T>().panel_width;
    const auto [begin, size] = block_of(k);
    return weights + begin * panels_ * width + panel * size * width + (k - begin) * width;
  }

  /// Calls body(first k, count) for the parts of [first, last) that lie in one block.
  template <class Body>
  void for_blocks(std::int64_t first, std::int64_t last, const Body& body) const {
    for (std::int64_t k = first; k < last;) {
      const auto [begin, size] = block_of(k);
      const std::int64_t count = std::min(last, begin + size) - k;
      body(k, count);
      k += count;
    }
  }

  /// Adds the products of rows [from, to) of k to `block`, whose a begins at `from`, and whose columns are outputs from
  /// `output` on; `block` has all but k and b. Weights beyond the second-level cache, and those that few rows read: all
  /// rows of a by one panel after another, so that each is fetched once, while the one before it is multiplied.
  void multiply(Block<T> block, std::int64_t from, std::int64_t to, std::int64_t output, const T* weights,
                bool clips) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t width = gemm.panel_width, outputs = block.n;
    const std::int64_t bytes = (to - from) * outputs * static_cast<std::int64_t>(sizeof(T));
    const bool few = block.m <= 10 * gemm.tile_rows;
    const bool by_panels = block.m > gemm.tile_rows && bytes > (few ? cache_share(0.1) : block_bytes());
    const std::int64_t step = by_panels ? width : outputs;
    const auto panel_at = [&](std::int64_t k, std::int64_t column) {
      return row(weights, (output + column) / width, k);
    };
    const Block<T> all = block;
    for (std::int64_t column = 0; column < outputs; column += step) {
      block.n = std::min(step, outputs - column);
      block.c = all.c + column;
      if (all.column_bias != nullptr) block.column_bias = all.column_bias + column;
      for (std::int64_t k = from; k < to; k += block.k) {
        block.k = block_of(k).second;
        block.a = all.a + (k - from);
        block.b = panel_at(k, column);
        block.b_row = width;
        block.b_panel = block.k * width;
        block.accumulate = k > 0;
        block.relu = clips && k + block.k >= K_;
        block.b_next = nullptr;
        if (by_panels && k + block.k < to)
          block.b_next = panel_at(k + block.k, column);
        else if (by_panels && column + step < outputs)
          block.b_next = panel_at(from, column + step);
        gemm.multiply(block);
      }
    }
  }

 private:
  /// The block that contains k: its begin and size.
  std::pair<std::int64_t, std::int64_t> block_of(std::int64_t k) const {
    const std::int64_t gathered = k / depth_ * depth_, begin = gathered + (k - gathered) / block_depth_ * block_depth_;
    return {begin, std::min({block_depth_, gathered + depth_ - begin, K_ - begin})};
  }

  std::int64_t K_ = 0, panels_ = 0;
  std::int64_t depth_ = 1, block_depth_ = 1;
};

}  // namespace tern::vectorized::convolution

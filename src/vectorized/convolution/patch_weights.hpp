#pragma once
// The weights of a convolution in the order of patches, [KH, KW, C], packed for products.

#include <algorithm>

#include "vectorized/convolution/packed_weights.hpp"
#include "vectorized/convolution/problem.hpp"
#include "vectorized/parallel.hpp"

namespace tern::vectorized::convolution {

template <class T>
class PatchWeights {
 public:
  PatchWeights() = default;
  /// Of a flipped problem if `flipped`. `packed` is the order of a group's weights.
  PatchWeights(const Problem& problem, const T* weight, bool flipped, const PackedWeights<T>& packed)
      : problem_(problem), weight_(weight), flipped_(flipped), packed_(packed) {}

  const PackedWeights<T>& packed() const { return packed_; }
  std::int64_t size() const { return round_up(problem_.groups * packed_.size(), 16); }
  std::int64_t scratch() const { return some_channels * problem_.taps() * gemm_kernels<T>().panel_width; }

  void prepare(const Team& team, T* weights, T* scratch) const {
    const std::int64_t C = problem_.C, panels = packed_.panels(), items = problem_.groups * panels * C;
    for (std::int64_t item = team.begin(items); item < team.end(items);) {
      const std::int64_t first = item % C, chunk = problem_.plain() ? C : some_channels;
      const std::int64_t count = std::min({C - first, team.end(items) - item, chunk});
      const std::int64_t panel = item / C;
      pack(panel / panels, panel % panels, first, first + count, weights + panel / panels * packed_.size(), scratch);
      item += count;
    }
  }

 private:
  static constexpr std::int64_t some_channels = 16;  // whose weights are packed at a time

  /// The weights of channels [first, last) and the outputs of a panel.
  void pack(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last, T* weights, T* taps) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t width = gemm.panel_width, C = problem_.C, O = problem_.O, all_taps = problem_.taps();
    const std::int64_t output = panel * width, outputs = std::min(width, O - output);
    if (problem_.plain())
      return packed_.for_blocks(first, last, [&](std::int64_t c, std::int64_t count) {
        T* const rows = packed_.row(weights, panel, c);
        if (flipped_)
          gemm.pack(rows, weight_ + (group * C + c) * O + output, O, count, outputs);
        else
          gemm.pack_transposed(rows, weight_ + (group * O + output) * C + c, C, count, outputs);
      });
    if (!flipped_)
      gemm.pack_transposed(taps, weight_ + ((group * O + output) * C + first) * all_taps, C * all_taps,
                           (last - first) * all_taps, outputs);
    for (std::int64_t c = first; c < last; ++c) {
      if (flipped_)
        gemm.pack_transposed(taps, weight_ + ((group * C + c) * O + output) * all_taps, all_taps, all_taps, outputs);
      for (std::int64_t tap = 0; tap < all_taps; ++tap) {
        const std::int64_t from = flipped_ ? all_taps - 1 - tap : (c - first) * all_taps + tap;
        std::copy_n(taps + from * width, width, packed_.row(weights, panel, tap * C + c));
      }
    }
  }

  Problem problem_;
  const T* weight_ = nullptr;
  bool flipped_ = false;
  PackedWeights<T> packed_;
};

}  // namespace tern::vectorized::convolution

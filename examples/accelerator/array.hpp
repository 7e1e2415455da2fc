#pragma once
// The imagined accelerator: a square of 8-bit multipliers that numbers flow through, as in Kung and Leiserson's
// systolic arrays (1978) and Google's first TPU (2017), simulated cycle by cycle.

#include <array>
#include <cstdint>
#include <vector>

namespace accelerator {

/// Side of the square.
inline constexpr int side = 16;

/// Every cell holds one weight. Activations enter at the left, each column of cells one cycle later; sums enter at the
/// top as zeros and leave at the bottom.
class SystolicArray {
 public:
  using Tile = std::array<std::array<std::int8_t, side>, side>;  ///< weight[k][n]

  void load(const Tile& weights) {
    weights_ = weights;
    cycles_ += side;  // row by row
  }

  /// out[i][n] += sum over k of rows[i][k] weight[k][n], for `count` rows.
  void multiply(const std::vector<std::array<std::int8_t, side>>& rows,
                std::vector<std::array<std::int32_t, side>>& out);

  /// Since the start.
  std::int64_t cycles() const { return cycles_; }

 private:
  Tile weights_{};
  std::int64_t cycles_ = 0;
};

}  // namespace accelerator

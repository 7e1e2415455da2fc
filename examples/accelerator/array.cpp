#include "array.hpp"

namespace accelerator {

void SystolicArray::multiply(const std::vector<std::array<std::int8_t, side>>& rows,
                             std::vector<std::array<std::int32_t, side>>& out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  // Number k of row i enters at cycle i + k, so that it meets its row's sum on its way down.
  std::array<std::array<std::int8_t, side>, side> moving{};  // to the right
  std::array<std::array<std::int32_t, side>, side> sums{};   // downwards
  const std::int64_t last = count + 2 * side - 1;
  for (std::int64_t cycle = 0; cycle < last; ++cycle) {
    for (int k = side - 1; k >= 0; --k)
      for (int n = side - 1; n >= 0; --n) {
        const std::int64_t row = cycle - k;
        const std::int8_t entering = row >= 0 && row < count ? rows[row][k] : std::int8_t{0};
        const std::int8_t value = n == 0 ? entering : moving[k][n - 1];
        const std::int32_t above = k == 0 ? 0 : sums[k - 1][n];
        sums[k][n] = above + value * weights_[k][n];
        moving[k][n] = value;
      }
    // The sum of row i leaves column n at cycle i + side - 1 + n.
    for (int n = 0; n < side; ++n) {
      const std::int64_t row = cycle - (side - 1) - n;
      if (row >= 0 && row < count) out[row][n] += sums[side - 1][n];
    }
  }
  cycles_ += last;
}

}  // namespace accelerator

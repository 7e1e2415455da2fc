#include "training/turn.hpp"

#include <algorithm>
#include <limits>

namespace tern::training {

bool turned(std::span<const StoppingLoss> epochs, std::int64_t patience) {
  constexpr double rise = 0.1;
  const auto count = static_cast<std::int64_t>(epochs.size()), width = std::max<std::int64_t>(1, patience / 2);
  double least = std::numeric_limits<double>::infinity(), last = least;
  std::int64_t turn = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = std::max<std::int64_t>(0, i + 1 - width);
    double sum = 0;
    for (std::int64_t j = begin; j <= i; ++j) sum += epochs[static_cast<std::size_t>(j)].loss;
    last = sum / static_cast<double>(i + 1 - begin);
    if (last < least) {
      least = last;
      turn = i + 1;
    }
  }
  if (turn == 0 || count < std::max(turn + patience, 3 * turn)) return false;
  return last - least > rise * epochs[static_cast<std::size_t>(turn - 1)].error;
}

}  // namespace tern::training

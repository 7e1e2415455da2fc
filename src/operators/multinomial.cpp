// Weighted random positions, drawn on the host: the same in every mode.

#include <algorithm>
#include <cmath>
#include <span>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tensor/shard_streams.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// Number i of a key, uniform in [0, 1) with 53 bits.
double fine_uniform(const random::Key& key, std::uint64_t i) {
  const std::uint64_t high = random::word(key.seed, key.offset, 2 * i),
                      low = random::word(key.seed, key.offset, 2 * i + 1);
  return static_cast<double>(((high << 32) | low) >> 11) * 0x1p-53;
}

// The prefix sums of the weights, and how many weights are positive.
struct Sums {
  std::vector<double> all;
  std::int64_t positive = 0;
};

Sums checked_sums(std::span<const double> weights, std::int64_t row) {
  Sums sums;
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    expects<NumericError>(weights[i] >= 0 && std::isfinite(weights[i]), "multinomial: weight ", weights[i],
                          " at position ", i, " of row ", row, ", expected a finite number of at least 0");
    sums.all.push_back(sum += weights[i]);
    sums.positive += weights[i] > 0 ? 1 : 0;
  }
  expects<NumericError>(sum > 0 && std::isfinite(sum), "multinomial: the weights of row ", row, " add up to ", sum);
  return sums;
}

}  // namespace

Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement, Generator& generator) {
  if (traces()) return traced("multinomial", weights, count, replacement, generator);
  check_floating("multinomial", "the weights", weights);
  expects<ShapeError>(weights.rank() == 1 || weights.rank() == 2, "multinomial: weights ", weights.shape(),
                      ", expected [classes] or [rows, classes]");
  expects<ShapeError>(count >= 1, "multinomial: ", count, " positions, expected at least 1");
  const std::int64_t classes = weights.size(-1), rows = weights.rank() == 1 ? 1 : weights.size(0);
  const std::vector<double> all = weights.values();
  const random::Key key = ShardStreams::shifted(generator.next());
  Tensor result(weights.rank() == 1 ? Shape{count} : Shape{rows, count}, DType::int64);
  const std::span<std::int64_t> positions = result.write<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto own = std::span(all).subspan(static_cast<std::size_t>(row * classes), static_cast<std::size_t>(classes));
    const auto drawn = positions.subspan(static_cast<std::size_t>(row * count), static_cast<std::size_t>(count));
    const Sums sums = checked_sums(own, row);
    if (replacement) {
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        const auto number = static_cast<std::uint64_t>(row * count) + i;
        // The first sum above the number, so never one with weight 0.
        const double at = fine_uniform(key, number) * sums.all.back();
        drawn[i] = std::upper_bound(sums.all.begin(), sums.all.end(), at) - sums.all.begin();
      }
      continue;
    }
    expects<NumericError>(count <= sums.positive, "multinomial: ", count, " positions without replacement from row ",
                          row, ", which has ", sums.positive, " weights above 0");
    // The order in which exponential clocks ring whose rates are the weights (Efraimidis and Spirakis, 2006).
    std::vector<std::pair<double, std::int64_t>> clocks;
    for (std::int64_t i = 0; i < classes; ++i) {
      const double weight = own[static_cast<std::size_t>(i)];
      const double number = fine_uniform(key, static_cast<std::uint64_t>(row * classes + i));
      if (weight > 0) clocks.emplace_back(-std::log1p(-number) / weight, i);
    }
    std::partial_sort(clocks.begin(), clocks.begin() + count, clocks.end());
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = clocks[i].second;
  }
  return result;
}

}  // namespace tern::operators

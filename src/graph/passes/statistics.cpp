#include "graph/passes/statistics.hpp"

#include <cmath>

#include "tern/operators/normalization.hpp"

namespace tern::graph {

ScaleShift scale_shift(const Node& norm, const std::function<Tensor(std::size_t i)>& input) {
  const std::vector<double> mean = input(3).values(), variance = input(4).values();
  const auto of = [&](std::size_t i, double otherwise) {
    const Tensor tensor = input(i);
    return tensor.defined() ? tensor.values() : std::vector<double>(mean.size(), otherwise);
  };
  const std::vector<double> gain = of(1, 1), offset = of(2, 0);
  const double epsilon = norm.attributes.get<operators::BatchNormOptions>().epsilon;
  ScaleShift made;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    made.scale.push_back(gain[c] / std::sqrt(variance[c] + epsilon));
    made.shift.push_back(offset[c] - mean[c] * made.scale[c]);
  }
  return made;
}

}  // namespace tern::graph

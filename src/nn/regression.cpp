#include "tern/nn/regression.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "tern/core/error.hpp"

namespace tern::nn {

Regression regression(std::span<const double> predicted, std::span<const double> actual) {
  expects<ShapeError>(predicted.size() == actual.size(), "regression: ", predicted.size(), " predictions of ",
                      actual.size(), " values, expected one for each");
  const auto count = static_cast<double>(actual.size());
  const double mean = std::accumulate(actual.begin(), actual.end(), 0.0) / count;
  double squares = 0, distances = 0, variation = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = predicted[i] - actual[i], difference = actual[i] - mean;
    squares += error * error;
    distances += std::abs(error);
    variation += difference * difference;
  }
  return {.r2 = variation > 0 ? 1 - squares / variation : std::numeric_limits<double>::quiet_NaN(),
          .rmse = std::sqrt(squares / count),
          .mae = distances / count};
}

}  // namespace tern::nn

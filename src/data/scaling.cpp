#include "tern/data/scaling.hpp"

#include <cmath>

namespace tern::data {

namespace {

void check(const Tensor& features) {
  expects<DTypeError>(features.dtype() == DType::float32, "scaling: expected features of float32, found ",
                      features.dtype());
  expects<ShapeError>(features.rank() == 2, "scaling: expected features [rows, columns], found ", features.shape());
}

}  // namespace

Scaling scaling_of(const Tensor& features) {
  check(features);
  const std::int64_t rows = features.size(0);
  const auto columns = static_cast<std::size_t>(features.size(1));
  expects<ShapeError>(rows > 0, "scaling: expected at least one row, found ", features.shape());
  const Tensor whole = features.contiguous();
  const auto values = whole.read<float>();
  Scaling scaling{std::vector<double>(columns), std::vector<double>(columns)};
  // Two passes over the rows: differences from the mean keep their digits if the mean is large.
  for (std::size_t i = 0; i < values.size(); ++i) scaling.mean[i % columns] += static_cast<double>(values[i]);
  for (double& mean : scaling.mean) mean /= static_cast<double>(rows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - scaling.mean[i % columns];
    scaling.deviation[i % columns] += difference * difference;
  }
  for (std::size_t i = 0; i < columns; ++i) {
    const double deviation = std::sqrt(scaling.deviation[i] / static_cast<double>(rows));
    // Treats the rounding residue of a constant column as 0.
    scaling.deviation[i] = deviation > 1e-12 * std::abs(scaling.mean[i]) && deviation > 0 ? deviation : 1;
  }
  return scaling;
}

Tensor Scaling::apply(const Tensor& features) const {
  check(features);
  const std::size_t columns = mean.size();
  expects<ShapeError>(deviation.size() == columns && features.size(1) == static_cast<std::int64_t>(columns),
                      "scaling: expected ", columns, " columns, found features ", features.shape());
  const Tensor whole = features.contiguous();
  const auto from = whole.read<float>();
  Tensor result(features.shape());
  const auto to = result.write<float>();
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = static_cast<float>((static_cast<double>(from[i]) - mean[i % columns]) / deviation[i % columns]);
  return result;
}

}  // namespace tern::data

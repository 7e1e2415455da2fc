#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

/// Standardises features: (x - mean) / deviation, one pair per column. The figures come from the training rows and
/// apply to all others.
struct Scaling {
  std::vector<double> mean = {}, deviation = {};

  /// float32 [rows, columns] of the same shape. Throws ShapeError if the columns do not match.
  Tensor apply(const Tensor& features) const;
};

/// Mean and (population) deviation of every column of float32 [rows, columns]; a constant column gets the deviation 1.
/// Throws ShapeError without rows.
Scaling scaling_of(const Tensor& features);

}  // namespace tern::data

#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

/// Standardises features: (x - mean) / deviation, one pair per column. The figures are those of the training rows and
/// serve all others.
struct Scaling {
  std::vector<double> mean = {}, deviation = {};

  /// float32 [rows, columns] of the same shape. Throws ShapeError when the columns do not fit.
  Tensor apply(const Tensor& features) const;
};

/// Mean and (population) deviation of every column of float32 [rows, columns]; a constant column has the deviation 1.
/// Throws ShapeError without rows.
Scaling scaling_of(const Tensor& features);

}  // namespace tern::data

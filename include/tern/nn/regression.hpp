#pragma once
// Regression figures, from values on the host.

#include <span>

namespace tern::nn {

struct Regression {
  double r2 = 0;    ///< fraction of the variance that is explained: 1 is perfect, 0 no better than the mean, below 0
                    ///< worse
  double rmse = 0;  ///< root mean squared error, in the unit of the values
  double mae = 0;   ///< mean absolute error, in the same unit
};

/// Figures of predictions [n] against targets [n]. r2 is NaN if all targets are equal; everything is NaN without
/// examples. Throws ShapeError if the lengths differ.
Regression regression(std::span<const double> predicted, std::span<const double> actual);

}  // namespace tern::nn

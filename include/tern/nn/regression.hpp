#pragma once
// How near numbers were met, from values that the host holds.

#include <span>

namespace tern::nn {

struct Regression {
  double r2 = 0;    ///< share of the variance that is explained: 1 is perfect, 0 no better than the mean, below 0 worse
  double rmse = 0;  ///< root of the mean squared error, in the unit of the values
  double mae = 0;   ///< mean absolute error, in that unit
};

/// Figures of predictions [n] beside what is [n]. r2 is NaN where all that is is equal, everything without examples.
/// Throws ShapeError when the two differ in length.
Regression regression(std::span<const double> predicted, std::span<const double> actual);

}  // namespace tern::nn

#pragma once
// Calibration: whether a net's confidence matches its accuracy.

#include <cstdint>
#include <span>
#include <vector>

namespace tern::nn {

/// Predictions of similar confidence.
struct CalibrationBin {
  double confidence = 0;      ///< their mean predicted probability
  double accuracy = 0;        ///< the fraction that is right
  std::int64_t examples = 0;  ///< their number; both figures are 0 if there are none
};

struct Calibration {
  std::vector<CalibrationBin> bins = {};  ///< of equal width over probabilities 0 to 1; the last one includes 1
  double error =
      0;  ///< expected calibration error: the mean of |confidence - accuracy| over the bins, weighted by their examples
  double brier = 0;  ///< Brier score: the mean of sum((p - y)^2) over the classes, where y is 1 for the true class and
                     ///< else 0; 0 to 2
};

/// Calibration of `probabilities` [n, classes] for the classes `labels` [n], each in [0, classes). The prediction is
/// the first of the most likely classes. All figures are 0 without examples. Throws ShapeError if the two do not match
/// or there are no bins, NumericError for a label out of range or a value that is not finite.
Calibration calibration(std::span<const float> probabilities, std::span<const std::int64_t> labels,
                        std::int64_t classes, std::int64_t bins = 10);

}  // namespace tern::nn

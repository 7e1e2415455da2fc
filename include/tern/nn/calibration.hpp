#pragma once
// Whether a net is as sure as it is right.

#include <cstdint>
#include <span>
#include <vector>

namespace tern::nn {

/// Predictions about as sure as each other.
struct CalibrationBin {
  double confidence = 0;      ///< their mean probability of what they say
  double accuracy = 0;        ///< how many of them are right
  std::int64_t examples = 0;  ///< how many there are; without any both figures are 0
};

struct Calibration {
  std::vector<CalibrationBin> bins = {};  ///< of equal width from probability 0 to 1; the last one holds both its ends
  double error =
      0;  ///< expected calibration error: |confidence - accuracy| of the bins, each as often as it has examples
  double brier = 0;  ///< Brier's score: the mean of sum((p - y)^2) over the classes, y 1 for what is and else 0; 0 to 2
};

/// `probabilities` [n, classes] of examples whose classes are `labels` [n], each in [0, classes); what is predicted is
/// the first of the most likely ones. All is 0 without examples. Throws ShapeError when the two do not fit or there are
/// no bins, NumericError for a label out of range and what is not finite.
Calibration calibration(std::span<const float> probabilities, std::span<const std::int64_t> labels,
                        std::int64_t classes, std::int64_t bins = 10);

}  // namespace tern::nn

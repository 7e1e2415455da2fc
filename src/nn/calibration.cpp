#include "tern/nn/calibration.hpp"

#include <algorithm>
#include <cmath>

#include "tern/core/error.hpp"

namespace tern::nn {

Calibration calibration(std::span<const float> probabilities, std::span<const std::int64_t> labels,
                        std::int64_t classes, std::int64_t bins) {
  expects<ShapeError>(bins > 0, "calibration: expected at least one bin, found ", bins);
  expects<ShapeError>(classes > 0 && probabilities.size() == labels.size() * static_cast<std::size_t>(classes),
                      "calibration: expected a probability for each of ", classes, " classes of ", labels.size(),
                      " labels, found ", probabilities.size());
  Calibration result;
  result.bins.resize(static_cast<std::size_t>(bins));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    expects<NumericError>(labels[i] >= 0 && labels[i] < classes, "calibration: found the label ", labels[i],
                          " at position ", i, ", expected one in [0, ", classes, ")");
    const auto row = probabilities.subspan(i * static_cast<std::size_t>(classes), static_cast<std::size_t>(classes));
    const auto most = std::max_element(row.begin(), row.end());
    const auto confidence = static_cast<double>(*most);
    expects<NumericError>(std::isfinite(confidence), "calibration: the probabilities at position ", i,
                          " are not numbers");
    const auto place = static_cast<std::int64_t>(confidence * static_cast<double>(bins));
    CalibrationBin& bin = result.bins[static_cast<std::size_t>(std::clamp<std::int64_t>(place, 0, bins - 1))];
    bin.confidence += confidence;
    bin.accuracy += most - row.begin() == labels[i] ? 1 : 0;
    ++bin.examples;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double off = static_cast<double>(row[c]) - (static_cast<std::int64_t>(c) == labels[i] ? 1 : 0);
      result.brier += off * off;
    }
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, labels.size()));
  result.brier /= count;
  for (CalibrationBin& bin : result.bins) {
    if (bin.examples == 0) continue;
    result.error += std::abs(bin.confidence - bin.accuracy) / count;
    bin.confidence /= static_cast<double>(bin.examples);
    bin.accuracy /= static_cast<double>(bin.examples);
  }
  return result;
}

}  // namespace tern::nn

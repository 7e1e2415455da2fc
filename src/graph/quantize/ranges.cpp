#include "graph/quantize/ranges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace tern::graph::quantizing {

namespace {

constexpr std::size_t bins = 2048;

struct Range {
  double low = 0, high = 0;
};

/// How often magnitudes fell into each of the bins of [0, largest].
struct Histogram {
  double largest = 0;
  std::vector<double> counts = std::vector<double>(bins);
  bool has_negative = false;

  void add(std::span<const float> numbers) {
    const double unit = largest > 0 ? bins / largest : 0;
    for (const float number : numbers)
      counts[std::min(bins - 1, static_cast<std::size_t>(std::abs(static_cast<double>(number)) * unit))] += 1;
  }
};

/// The smallest magnitude that `share` of the numbers do not exceed.
double percentile_of(const Histogram& histogram, double share) {
  const double total = std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0);
  double below = 0;
  for (std::size_t i = 0; i < bins; ++i) {
    below += histogram.counts[i];
    if (below >= share * total) return histogram.largest * static_cast<double>(i + 1) / bins;
  }
  return histogram.largest;
}

/// Kullback-Leibler divergence of the first `kept` bins, the rest piled on the last of them, from the same merged into
/// `levels` equal parts: Migacz, "8-bit inference with TensorRT", 2017.
double divergence(const std::vector<double>& counts, std::size_t kept, std::size_t levels) {
  std::vector<double> whole(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(kept)), merged(kept);
  for (std::size_t i = kept; i < counts.size(); ++i) whole[kept - 1] += counts[i];
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t begin = level * kept / levels, end = (level + 1) * kept / levels;
    double sum = 0, filled = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += counts[i];
      filled += counts[i] > 0;
    }
    for (std::size_t i = begin; i < end; ++i) merged[i] = counts[i] > 0 ? sum / filled : 0;
  }
  const double p = std::accumulate(whole.begin(), whole.end(), 0.0),
               q = std::accumulate(merged.begin(), merged.end(), 0.0);
  if (p == 0 || q == 0) return std::numeric_limits<double>::infinity();
  constexpr double least = 1e-9;  // where numbers were piled on a bin that had none
  double result = 0;
  for (std::size_t i = 0; i < kept; ++i)
    if (whole[i] > 0) result += whole[i] / p * std::log(whole[i] / p / std::max(merged[i] / q, least));
  return result;
}

double entropy_of(const Histogram& histogram) {
  const std::size_t levels = histogram.has_negative ? 128 : 256;
  std::size_t best = bins;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t kept = levels; kept <= bins; kept += 16) {
    const double lost = divergence(histogram.counts, kept, levels);
    if (lost < least) {
      least = lost;
      best = kept;
    }
  }
  return histogram.largest * static_cast<double>(best) / bins;
}

}  // namespace

operators::Quantization quantization_of(double low, double high) {
  low = std::min(low, 0.0), high = std::max(high, 0.0);
  const double scale = std::max((high - low) / 255, 1e-12);
  return {scale, std::clamp<std::int64_t>(std::llround(-low / scale), 0, 255)};
}

std::vector<Tensor> values_of(const Structure& structure, const std::vector<int>& values,
                              const std::vector<Tensor>& inputs) {
  Structure all = structure;
  all.results = values;
  return Graph(std::move(all)).run(inputs);
}

std::map<int, operators::Quantization> quantizations(const Structure& structure, const std::vector<int>& values,
                                                     const std::vector<std::vector<Tensor>>& batches,
                                                     const QuantizeOptions& options) {
  std::map<int, Range> ranges;
  std::map<int, std::int64_t> seen;
  for (const std::vector<Tensor>& inputs : batches) {
    const std::vector<Tensor> found = values_of(structure, values, inputs);
    for (std::size_t i = 0; i < values.size(); ++i) {
      Range& range = ranges[values[i]];
      const Tensor whole = found[i].detach().contiguous();
      seen[values[i]] += whole.numel();
      for (const float number : whole.read<float>()) {
        expects<NumericError>(std::isfinite(number), "quantize: calibration meets ", number,
                              ", which is not finite, in '", structure.values[values[i]].name, "' of batch ",
                              &inputs - batches.data(),
                              "; leave such examples out, or find their origin with Numerics::check");
        range.low = std::min(range.low, static_cast<double>(number));
        range.high = std::max(range.high, static_cast<double>(number));
      }
    }
  }
  for (const auto& [id, count] : seen)
    expects(count > 0, "quantize: the batches show no number of '", structure.values[id].name,
            "'; calibrate with examples like those of the deployed program");
  if (options.calibration != Calibration::min_max) {
    std::map<int, Histogram> histograms;
    for (const auto& [id, range] : ranges) {
      histograms[id].largest = std::max(-range.low, range.high);
      histograms[id].has_negative = range.low < 0;
    }
    for (const std::vector<Tensor>& inputs : batches) {
      const std::vector<Tensor> found = values_of(structure, values, inputs);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Tensor whole = found[i].detach().contiguous();
        histograms[values[i]].add(whole.read<float>());
      }
    }
    for (auto& [id, range] : ranges) {
      const double most = options.calibration == Calibration::percentile
                              ? percentile_of(histograms[id], options.percentile / 100)
                              : entropy_of(histograms[id]);
      range = {std::max(range.low, -most), std::min(range.high, most)};
    }
  }
  std::map<int, operators::Quantization> result;
  for (const auto& [id, range] : ranges) result[id] = quantization_of(range.low, range.high);
  return result;
}

}  // namespace tern::graph::quantizing

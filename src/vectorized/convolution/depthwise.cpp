// Depthwise: every channel has its own kernel. Images are channels last and lanes are channels; a few adjacent outputs
// of a row are summed in registers, tap by tap. Taps over the padding are skipped.

#include <algorithm>
#include <atomic>
#include <cmath>

#include "vectorized/cache.hpp"
#include "vectorized/chains.hpp"
#include "vectorized/convolution/depthwise_rows.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/finish.hpp"

namespace tern::vectorized::convolution {
namespace {

// ---- forward, and the gradient of x --------------------------------------------------------------------------------

/// The gradient of x reads the gradient of y as the forward pass reads x, with separate taps for each phase of a
/// stride.
template <class T>
class Depthwise : public Plan<T> {
 public:
  Depthwise(const Problem& problem, const Arrays<T>& arrays)
      : problem_(problem),
        arrays_(arrays),
        repeats_(problem.pass == Pass::forward ? folded_positions<T>(problem.groups) : 1),
        fold_(folds(problem) ? repeats_ : 1),
        padded_(repeats_ > 1 ? repeats_ * problem.groups : padded_channels<T>(problem)),
        in_pitch_(problem.pass == Pass::forward ? problem.x_pitch : problem.y_pitch),
        out_pitch_(problem.pass == Pass::forward ? problem.y_pitch : problem.x_pitch),
        rows_(problem, in_pitch_, out_pitch_, padded_, is_near(problem), fold_) {
    if (const std::int64_t rows = problem.N * rows_.rows().outputs, threads = problem.threads;
        rows < 4 * threads && fold_ == 1)
      channel_parts_ = std::clamp<std::int64_t>(padded_ / (4 * depthwise_kernels<T>().lanes), 1, threads);
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return problem_.taps() * padded_; }
  bool first_prepares_weights() const override { return true; }
  bool finishes() const override { return true; }
  void run(const Team& team, int phase, T* shared, T* /*scratch*/) const override {
    if (phase > 0) return multiply(team, shared);
    repeats_ == 1 ? pack_depthwise(team, shared, arrays_.weight, problem_) : pack_repeated(team, shared);
  }

 private:
  /// Whether adjacent positions are adjacent in memory, so that they can be folded, and few outputs are at the edges,
  /// where they are not.
  static bool folds(const Problem& problem) {
    const bool dense = problem.x_pitch == problem.groups && problem.y_pitch == problem.groups;
    return dense && problem.stride_w == 1 && 8 * (problem.KW - 1) * problem.dilation_w <= problem.OW;
  }
  /// An image of this size is still in the second-level cache from the operator before.
  static bool is_near(const Problem& problem) {
    return problem.plane() * problem.groups * static_cast<std::int64_t>(sizeof(T)) <= cache_share(0.5);
  }

  /// [C, taps] becomes [taps, repeats, C].
  void pack_repeated(const Team& team, T* packed) const {
    const std::int64_t taps = problem_.taps(), C = problem_.groups;
    for (std::int64_t tap = team.begin(taps); tap < team.end(taps); ++tap)
      for (std::int64_t i = 0; i < padded_; ++i) packed[tap * padded_ + i] = arrays_.weight[i % C * taps + tap];
  }

  void multiply(const Team& team, const T* weights) const {
    const std::int64_t outputs = rows_.rows().outputs, rows = problem_.N * outputs,
                       lanes = depthwise_kernels<T>().lanes;
    const std::int64_t parts = rows < 4 * problem_.threads ? channel_parts_ : 1, items = rows * parts;
    DepthwiseRows<T> strip = rows_;
    for (std::int64_t item = team.begin(items); item < team.end(items);) {
      // Channels change last, so that a strip has all its rows.
      const std::int64_t part = item / rows, row = item % rows;
      const std::int64_t last =
          std::min({rows, row + team.end(items) - item, (row / outputs + 1) * outputs, row + strip.together()});
      const std::int64_t first = edge(problem_.groups, lanes, parts, part);
      const std::int64_t channels = edge(problem_.groups, lanes, parts, part + 1) - first;
      if (channels > 0) run_rows(strip, row, last, first, channels, weights);
      item += last - row;
    }
  }

  /// Rows [first, last) of all images' outputs, which are of one image.
  void run_rows(DepthwiseRows<T>& strip, std::int64_t first, std::int64_t last, std::int64_t channel,
                std::int64_t channels, const T* weights) const {
    const Axis &rows = strip.rows(), &columns = strip.columns();
    const std::int64_t image = first / rows.outputs;
    const std::int64_t from = image * rows.inputs * columns.inputs * in_pitch_ + channel;
    const std::int64_t to = image * rows.outputs * columns.outputs * out_pitch_ + channel;
    const std::int64_t down = strip.place(first - image * rows.outputs, last - image * rows.outputs);
    strip.run(arrays_.out + to + down * columns.outputs * out_pitch_,
              arrays_.in + from + down * rows.step() * columns.inputs * in_pitch_,
              arrays_.mask_at(from + down * rows.step() * columns.inputs * in_pitch_), weights + channel,
              arrays_.bias == nullptr ? nullptr : arrays_.bias + channel, channels);
    if (arrays_.added == nullptr && arrays_.after == Activation::none) return;
    for (std::int64_t row = first; row < last; ++row) finish_row(row, channel, channels);
  }

  /// Of all images' rows, one that was just written.
  void finish_row(std::int64_t row, std::int64_t channel, std::int64_t channels) const {
    const std::int64_t columns = rows_.columns().outputs, begin = row * columns, end = begin + columns;
    const auto run = [&](std::int64_t position, std::int64_t count) {
      finish_kernels<T>().run(arrays_.out + position * out_pitch_ + channel,
                              arrays_.added == nullptr ? nullptr : arrays_.added + position * problem_.groups + channel,
                              count, arrays_.after);
    };
    if (channels == out_pitch_) return run(begin, (end - begin) * channels);
    for (std::int64_t position = begin; position < end; ++position) run(position, channels);
  }

  Problem problem_;
  Arrays<T> arrays_;
  std::int64_t repeats_;  ///< of each weight: kept weights do not depend on the images
  std::int64_t fold_, padded_, in_pitch_, out_pitch_, channel_parts_ = 1;
  DepthwiseRows<T> rows_;
};

// ---- the gradients of weight and bias ------------------------------------------------------------------------------

/// Sums over chunks of rows, whose number follows from the shape only; then over the chunks in order.
template <class T>
class DepthwiseGradWeight : public Plan<T> {
 public:
  DepthwiseGradWeight(const Problem& problem, const Arrays<T>& arrays)
      : problem_(problem),
        arrays_(arrays),
        rows_(rows_of(problem)),
        segments_(segments_of(columns_of(problem))),
        padded_(padded_channels<T>(problem)) {
    constexpr std::int64_t chunk_elements = 32 * 1024, most_chunks = 16;
    const std::int64_t rows = problem.N * problem.OH;
    chunks_ =
        std::clamp<std::int64_t>(rows * problem.OW * problem.groups / chunk_elements, 1, std::min(rows, most_chunks));
    chunks_ = std::max(chunks_, std::min(rows, rows * problem.OW / (8 * sum_block)));  // see chains.hpp
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return chunks_ * chunk_size(); }
  std::int64_t scratch() const override { return padded_; }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    phase == 0 ? sum(team, shared, scratch) : store(team, shared);
  }
  /// A gradient of y that is not finite would make NaN of the padding's zeros, which this algorithm skips.
  bool done() const override { return finite_.load(std::memory_order_relaxed); }

 private:
  /// The sums of each tap, and those of the gradient of y.
  std::int64_t chunk_size() const { return (problem_.taps() + 1) * padded_; }

  void sum(const Team& team, T* shared, T* ones) const {
    std::fill_n(ones, padded_, T{1});
    const std::int64_t rows = problem_.N * problem_.OH;
    for (std::int64_t chunk = team.begin(chunks_); chunk < team.end(chunks_); ++chunk) {
      T* const sums = shared + chunk * chunk_size();
      std::fill_n(sums, chunk_size(), T{0});
      for (std::int64_t row = rows * chunk / chunks_; row < rows * (chunk + 1) / chunks_; ++row)
        sum_row(row / problem_.OH, row % problem_.OH, sums, ones);
    }
  }

  void sum_row(std::int64_t image, std::int64_t row, T* sums, const T* ones) const {
    const auto& kernels = depthwise_kernels<T>();
    const std::int64_t pitch = problem_.x_pitch, line = (image * problem_.OH + row) * problem_.OW * problem_.y_pitch;
    DepthwiseGradient<T> part;
    part.channels = problem_.groups;
    part.g_step = problem_.y_pitch;
    part.g = arrays_.g + line;
    part.mask = arrays_.mask_at(line);
    part.in = ones;
    part.sums = sums + problem_.taps() * padded_;
    part.tap_count = 1;
    part.positions = problem_.OW;
    kernels.gradient(part);

    part.in_step = problem_.stride_w * pitch;
    part.tap_step = problem_.dilation_w * pitch;
    part.sum_step = padded_;
    for (const TapAt& h : taps_of_row(rows_, row))
      for (const Segment& segment : segments_) {
        if (segment.taps.empty()) continue;
        const TapAt& first = segment.taps.front();
        const std::int64_t at = line + segment.first * problem_.y_pitch;
        part.g = arrays_.g + at;
        part.mask = arrays_.mask_at(at);
        part.in = arrays_.in + ((image * problem_.H + h.input) * problem_.W + first.input) * pitch;
        part.sums = sums + (h.tap * problem_.KW + first.tap) * padded_;
        part.tap_count = static_cast<std::int64_t>(segment.taps.size());  // taps inside are adjacent
        part.positions = segment.count;
        kernels.gradient(part);
      }
  }

  void store(const Team& team, T* shared) const {
    const std::int64_t C = problem_.groups, taps = problem_.taps();
    const std::int64_t begin = team.begin(C, 16), end = team.end(C, 16);
    if (begin >= end) return;
    for (std::int64_t tap = 0; tap <= taps; ++tap) {
      T* const total = shared + tap * padded_;
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const T* const more = total + chunk * chunk_size();
        for (std::int64_t c = begin; c < end; ++c) total[c] += more[c];
      }
    }
    gemm_kernels<T>().transpose(arrays_.out + begin * taps, taps, shared + begin, padded_, taps, end - begin);
    const T* const g = shared + taps * padded_;
    if (arrays_.grad_bias != nullptr) std::copy(g + begin, g + end, arrays_.grad_bias + begin);
    const bool pads = problem_.pad_h > 0 || problem_.pad_w > 0;
    if (pads && !std::all_of(g + begin, g + end, [](T value) { return std::isfinite(value); }))
      finite_.store(false, std::memory_order_relaxed);
  }

  Problem problem_;
  Arrays<T> arrays_;
  Axis rows_;
  Pooled<Segment> segments_;
  std::int64_t padded_, chunks_ = 1;
  mutable std::atomic<bool> finite_{true};
};

}  // namespace

bool depthwise_fits(const Problem& problem) {
  return problem.layout == Layout::channels_last && problem.pass != Pass::grad_bias && problem.C == 1 &&
         problem.O == 1 && problem.groups > 1 && problem.KH <= most_side && problem.KW <= most_side;
}

// The rule's figure for `rows` counts whole vectors of outputs, which here hold one: less than that, always.
template <class T>
double depthwise_cycles(const Problem& problem) {
  const auto vectors = static_cast<double>(divide_up(problem.groups, depthwise_kernels<T>().lanes));
  return 0.1 * static_cast<double>(problem.N * problem.positions() * problem.taps()) * vectors;
}
template double depthwise_cycles<float>(const Problem&);
template double depthwise_cycles<double>(const Problem&);

template <class T>
PlanPointer<T> depthwise(const Problem& problem, const Arrays<T>& arrays) {
  if (problem.of_weight()) return std::make_unique<DepthwiseGradWeight<T>>(problem, arrays);
  if (problem.pass == Pass::forward && (problem.pad_h > 0 || problem.pad_w > 0)) {
    Problem alone = problem;  // the weights are few: not worth a team
    alone.threads = 1;
    if (!zeros_are_harmless(alone, arrays.weight)) return rows(problem, arrays);
  }
  return std::make_unique<Depthwise<T>>(problem, arrays);
}
template PlanPointer<float> depthwise(const Problem&, const Arrays<float>&);
template PlanPointer<double> depthwise(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution

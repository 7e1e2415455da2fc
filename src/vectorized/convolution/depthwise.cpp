// Depthwise: every channel has its own kernel. Images are channels last and lanes are channels; a few adjacent outputs
// of a row are summed in registers, tap by tap. Taps over the padding are skipped.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "vectorized/cache.hpp"
#include "vectorized/chains.hpp"
#include "vectorized/convolution/depthwise_kernels.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/finish.hpp"

namespace tern::vectorized::convolution {
namespace {

constexpr std::int64_t most_side = 7;  // of a kernel

std::int64_t divide_floor(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -divide_up(-a, b); }

/// One axis of a pass that reads `inputs` to compute `outputs`. Outputs [phase, phase + phases(), ...] read the same
/// taps; from one of them to the next, inputs are step() apart.
struct Axis {
  std::int64_t outputs = 0, inputs = 0, taps = 1, stride = 1, pad = 0, dilation = 1;
  bool forward = true;

  std::int64_t phases() const { return forward ? 1 : stride; }
  std::int64_t step() const { return forward ? stride : 1; }
  std::int64_t count(std::int64_t phase) const { return divide_up(outputs - phase, phases()); }
  /// Whether a phase has this tap.
  bool has(std::int64_t phase, std::int64_t tap) const {
    return forward || (phase + pad - tap * dilation) % stride == 0;
  }
  /// The input of a tap for the first output of a phase; may be outside.
  std::int64_t input(std::int64_t phase, std::int64_t tap) const {
    return forward ? tap * dilation - pad : (phase + pad - tap * dilation) / stride;
  }
};

Axis rows_of(const Problem& p) {
  const bool forward = p.pass != Pass::grad_x;
  return {forward ? p.OH : p.H, forward ? p.H : p.OH, p.KH, p.stride_h, p.pad_h, p.dilation_h, forward};
}
Axis columns_of(const Problem& p) {
  const bool forward = p.pass != Pass::grad_x;
  return {forward ? p.OW : p.W, forward ? p.W : p.OW, p.KW, p.stride_w, p.pad_w, p.dilation_w, forward};
}

struct TapAt {
  std::int64_t tap, input;  ///< the input of the first output
};
/// Adjacent outputs of a phase for which the same taps are inside.
struct Segment {
  std::int64_t phase, first, count;
  Pooled<TapAt> taps;
};

Pooled<Segment> segments_of(const Axis& axis) {
  Pooled<Segment> result;
  for (std::int64_t phase = 0; phase < std::min(axis.phases(), axis.outputs); ++phase) {
    struct Reach {
      std::int64_t tap, begin, end;
    };
    const std::int64_t count = axis.count(phase), step = axis.step();
    Pooled<Reach> reaches;
    Pooled<std::int64_t> edges{0, count};
    for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
      if (!axis.has(phase, tap)) continue;
      const std::int64_t input = axis.input(phase, tap);
      const std::int64_t begin = std::clamp<std::int64_t>(-divide_floor(input, step), 0, count);
      const std::int64_t end = std::clamp<std::int64_t>(divide_floor(axis.inputs - 1 - input, step) + 1, begin, count);
      reaches.push_back({tap, begin, end});
      edges.insert(edges.end(), {begin, end});
    }
    std::ranges::sort(edges);
    for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
      if (edges[i] == edges[i + 1]) continue;
      Segment segment{phase, edges[i], edges[i + 1] - edges[i], {}};
      for (const auto& [tap, begin, end] : reaches)
        if (begin <= segment.first && end >= edges[i + 1])
          segment.taps.push_back({tap, axis.input(phase, tap) + segment.first * step});
      result.push_back(std::move(segment));
    }
  }
  return result;
}

/// The taps of a row of outputs, with the rows of their inputs.
Pooled<TapAt> taps_of_row(const Axis& axis, std::int64_t row) {
  Pooled<TapAt> result;
  const std::int64_t phase = row % axis.phases(), place = row / axis.phases();
  for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
    if (!axis.has(phase, tap)) continue;
    const std::int64_t input = axis.input(phase, tap) + place * axis.step();
    if (input >= 0 && input < axis.inputs) result.push_back({tap, input});
  }
  return result;
}

template <class T>
std::int64_t padded_channels(const Problem& problem) {
  return round_up(problem.groups, depthwise_kernels<T>().lanes);
}

// ---- forward, and the gradient of x --------------------------------------------------------------------------------

/// The gradient of x reads the gradient of y as the forward pass reads x, with separate taps for each phase of a
/// stride.
template <class T>
class Depthwise : public Plan<T> {
 public:
  Depthwise(const Problem& problem, const Arrays<T>& arrays)
      : problem_(problem),
        arrays_(arrays),
        rows_(rows_of(problem)),
        columns_(columns_of(problem)),
        segments_(segments_of(columns_)),
        padded_(padded_channels<T>(problem)) {
    const bool forward = rows_.forward;
    in_pitch_ = forward ? problem.x_pitch : problem.y_pitch;
    out_pitch_ = forward ? problem.y_pitch : problem.x_pitch;
    if (const std::int64_t rows = problem.N * rows_.outputs, threads = problem.threads; rows < 4 * threads)
      channel_parts_ = std::clamp<std::int64_t>(padded_ / (4 * depthwise_kernels<T>().lanes), 1, threads);
  }
  int phases() const override { return 2; }
  std::int64_t shared() const override { return problem_.taps() * padded_; }
  bool first_prepares_weights() const override { return true; }
  bool finishes() const override { return true; }
  void run(const Team& team, int phase, T* shared, T* /*scratch*/) const override {
    phase == 0 ? prepare(team, shared) : multiply(team, shared);
  }

 private:
  /// Weights [C, taps] become [taps, C].
  void prepare(const Team& team, T* weights) const {
    const std::int64_t taps = problem_.taps(), C = problem_.groups;
    const std::int64_t begin = team.begin(C, 16), end = team.end(C, 16);
    if (begin < end)
      gemm_kernels<T>().transpose(weights + begin, padded_, arrays_.weight + begin * taps, taps, end - begin, taps);
    if (begin < end && end == C)
      for (std::int64_t tap = 0; tap < taps; ++tap)
        std::fill(weights + tap * padded_ + C, weights + (tap + 1) * padded_, T{0});
  }

  void multiply(const Team& team, const T* weights) const {
    const std::int64_t items = problem_.N * rows_.outputs * channel_parts_;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t part = item % channel_parts_, row = item / channel_parts_;
      const std::int64_t lanes = depthwise_kernels<T>().lanes;
      const std::int64_t first = edge(problem_.groups, lanes, channel_parts_, part);
      const std::int64_t last = edge(problem_.groups, lanes, channel_parts_, part + 1);
      if (first >= last) continue;
      run_row(row / rows_.outputs, row % rows_.outputs, first, last - first, weights);
      if (arrays_.added != nullptr || arrays_.after != Activation::none) finish_row(row, first, last - first);
    }
  }

  /// Of all images' rows, one that was just written.
  void finish_row(std::int64_t row, std::int64_t channel, std::int64_t channels) const {
    const std::int64_t begin = row * columns_.outputs, end = begin + columns_.outputs;
    const auto run = [&](std::int64_t position, std::int64_t count) {
      finish_kernels<T>().run(arrays_.out + position * out_pitch_ + channel,
                              arrays_.added == nullptr ? nullptr : arrays_.added + position * problem_.groups + channel,
                              count, arrays_.after);
    };
    if (channels == out_pitch_) return run(begin, (end - begin) * channels);
    for (std::int64_t position = begin; position < end; ++position) run(position, channels);
  }

  void run_row(std::int64_t image, std::int64_t row, std::int64_t channel, std::int64_t channels,
               const T* weights) const {
    const Pooled<TapAt> rows = taps_of_row(rows_, row);
    const std::int64_t from = image * rows_.inputs * columns_.inputs * in_pitch_ + channel;
    DepthwiseRun<T> run;
    run.in = arrays_.in + from;
    run.mask = arrays_.mask_at(from);
    run.weights = weights + channel;
    run.bias = arrays_.bias == nullptr ? nullptr : arrays_.bias + channel;
    run.channels = channels;
    run.in_step = columns_.step() * in_pitch_;
    run.out_step = columns_.phases() * out_pitch_;
    run.activation = problem_.pass == Pass::forward ? problem_.activation : Activation::none;
    std::array<DepthwiseTap, most_side * most_side> taps;
    run.taps = taps.data();
    for (const Segment& segment : segments_) {
      run.tap_count = 0;
      const bool adjacent = columns_.stride == 1 && columns_.dilation == 1 && !rows.empty();
      run.row_taps = adjacent ? static_cast<std::int64_t>(segment.taps.size()) : 0;
      for (const TapAt& h : rows)
        for (const TapAt& w : segment.taps)
          taps[static_cast<std::size_t>(run.tap_count++)] = {(h.input * columns_.inputs + w.input) * in_pitch_,
                                                             (h.tap * columns_.taps + w.tap) * padded_};
      const std::int64_t column = segment.phase + segment.first * columns_.phases();
      run.out = arrays_.out + ((image * rows_.outputs + row) * columns_.outputs + column) * out_pitch_ + channel;
      run.outputs = segment.count;
      depthwise_kernels<T>().run(run);
    }
  }

  Problem problem_;
  Arrays<T> arrays_;
  Axis rows_, columns_;
  Pooled<Segment> segments_;
  std::int64_t padded_, in_pitch_ = 0, out_pitch_ = 0, channel_parts_ = 1;
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
  if (problem.pass == Pass::grad_weight) return std::make_unique<DepthwiseGradWeight<T>>(problem, arrays);
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

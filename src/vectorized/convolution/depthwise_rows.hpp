#pragma once
// How rows of outputs of a depthwise convolution, or of its gradient of x, read rows of inputs.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/convolution/depthwise_kernels.hpp"
#include "vectorized/convolution/depthwise_line.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::convolution {

inline constexpr std::int64_t most_side = 9;  // of a kernel

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
  /// Whether all taps of an output of a forward pass are inside.
  bool inside(std::int64_t output) const {
    const std::int64_t first = output * stride - pad;
    return forward && first >= 0 && first + (taps - 1) * dilation < inputs;
  }
  /// The input of a tap for the first output of a phase; may be outside.
  std::int64_t input(std::int64_t phase, std::int64_t tap) const {
    return forward ? tap * dilation - pad : (phase + pad - tap * dilation) / stride;
  }

  // As a line of depthwise_line.hpp: outputs line_phases() apart read inputs of a stride of line_stride(), `dilation`
  // apart.
  std::int64_t line_phases() const { return dilation / std::gcd(dilation, stride); }
  std::int64_t line_stride() const { return stride / std::gcd(dilation, stride); }
  /// Of `outputs` outputs, the first of whose inputs is `input`, which inputs are there: bit j for the j-th.
  std::uint64_t line_inside(std::int64_t input, std::int64_t line_outputs) const {
    std::uint64_t result = 0;
    for (std::int64_t j = 0, last = (line_outputs - 1) * line_stride() + taps; j < last; ++j)
      if (const std::int64_t at = input + j * dilation; at >= 0 && at < inputs) result |= std::uint64_t{1} << j;
    return result;
  }
};
Axis rows_of(const Problem& problem);
Axis columns_of(const Problem& problem);

struct TapAt {
  std::int64_t tap, input;  ///< the input of the first output
};
/// Adjacent outputs of a phase for which the same taps are inside.
struct Segment {
  std::int64_t phase, first, count;
  Pooled<TapAt> taps;
};
Pooled<Segment> segments_of(const Axis& axis);

/// The taps of a row of outputs, with the rows of their inputs.
Pooled<TapAt> taps_of_row(const Axis& axis, std::int64_t row);
void taps_of_row(const Axis& axis, std::int64_t row, Pooled<TapAt>& taps);

template <class T>
std::int64_t padded_channels(const Problem& problem) {
  return round_up(problem.groups, depthwise_kernels<T>().lanes);
}
/// Weights [C, taps] become [taps, padded_channels], with zeros behind the channels.
template <class T>
void pack_depthwise(const Team& team, T* packed, const T* weights, const Problem& problem);

/// Few channels leave lanes of their last vector empty. Where that costs a quarter, so many adjacent positions, whose
/// channels are adjacent, are computed as one of more channels, which fill vectors; else 1. For the forward pass.
template <class T>
std::int64_t folded_positions(std::int64_t channels);

/// Some rows of outputs, which are computed together, some columns and channels at a time, so that each input comes
/// into the first-level cache once for all taps that read it.
template <class T>
class DepthwiseRows {
 public:
  /// `in_pitch`, `out_pitch`: elements from one position to the next; `weight_row`: from one tap's weights to the next;
  /// `near`: whether the inputs are in the second-level cache. With `fold` positions as one, weights are repeated for
  /// each of them, and pitches are the number of channels.
  DepthwiseRows(const Problem& problem, std::int64_t in_pitch, std::int64_t out_pitch, std::int64_t weight_row,
                bool near, std::int64_t fold = 1);

  const Axis& rows() const { return rows_; }
  const Axis& columns() const { return columns_; }
  /// Rows that are worth computing together.
  std::int64_t together() const { return together_; }

  void clear();
  /// Adds row `row` of the outputs, which is row `to` of `out` below; row h of the inputs is row place(h) of `in`.
  template <class Place>
  void add(std::int64_t row, std::int64_t to, const Place& place) {
    taps_of_row(rows_, row, found_);
    for (TapAt& tap : found_) tap.input = place(tap.input);
    add_row(found_, to);
  }

  /// Clears, and adds the rows [first, last) where they lie; or finds that the rows that it placed before have as many
  /// taps, all of them. How many rows below those they lie.
  std::int64_t place(std::int64_t first, std::int64_t last) {
    const bool inside = rows_.inside(first) && rows_.inside(last - 1);
    if (inside && placed_.count() == last - first) return first - placed_.first;
    clear();
    for (std::int64_t row = first; row < last; ++row) add(row, row, [](std::int64_t input) { return input; });
    if (inside) placed_ = {first, last};
    return 0;
  }

  /// `channels` channels, whose first ones all pointers are at. `mask` and `bias` may be null.
  void run(T* out, const T* in, const T* mask, const T* weights, const T* bias, std::int64_t channels) const;

 private:
  /// A segment of a row; of lines a whole row, whose taps are the rows of the kernel.
  struct Run {
    std::int64_t first_tap = 0, tap_count = 0, out = 0, outputs = 0, fold = 1, first_ahead = 0;
  };
  void add_row(const Pooled<TapAt>& taps, std::int64_t to);
  void add_run(const Pooled<TapAt>& rows, const Segment& segment, std::int64_t skipped, std::int64_t out, Run run);
  void run_lines(const DepthwiseRun<T>& channels) const;
  void run_tiles(DepthwiseLine<T> line, std::int64_t phase) const;

  Axis rows_, columns_;
  Pooled<Segment> segments_;
  kernels::Activation activation_;
  std::int64_t in_pitch_, out_pitch_, weight_row_, together_, block_, fold_;
  bool lines_;  ///< a stride of 1: by the kernels of depthwise_line.hpp
  bool far_;    ///< inputs come from far beyond the second-level cache
  Range placed_{0, 0};
  Pooled<TapAt> found_;
  Pooled<Run> runs_;
  Pooled<DepthwiseTap> taps_;
};

}  // namespace tern::vectorized::convolution

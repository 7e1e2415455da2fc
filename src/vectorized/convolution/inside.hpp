#pragma once
// Patches of channels-last images without what lies over the padding: the runs of the image that they consist of.

#include <algorithm>
#include <array>
#include <cstdint>

#include "vectorized/convolution/depthwise_rows.hpp"
#include "vectorized/ranges.hpp"
#include "vectorized/run.hpp"

namespace tern::vectorized::convolution {

/// Positions whose patches have the same runs: the offset of the first one in x and in y, and from one to the next.
struct Positions {
  std::int64_t in = 0, in_step = 0, out = 0, out_step = 0, count = 0;
};

class Inside {
 public:
  explicit Inside(const Problem& problem)
      : problem_(problem), rows_(rows_of(problem)), segments_(segments_of(columns_of(problem))) {}

  /// For row `row` of the outputs of a group in some images, calls body(runs, run count, positions) for all its
  /// positions: along the row or, where more images than columns have the same taps, along the images. Runs begin at
  /// Run::a from a position's offset, and at Run::b in the weights of an output, [taps, C], of which only `k` counts.
  template <class Body>
  void for_positions(std::int64_t group, std::int64_t row, Range some, Range k, const Body& body) const {
    const auto& p = problem_;
    const auto [first, last] = some;
    const std::int64_t in_image = p.plane() * p.x_pitch, out_image = p.positions() * p.y_pitch;
    const std::int64_t in_column = p.stride_w * p.x_pitch, images = last - first;
    const Pooled<TapAt> rows = taps_of_row(rows_, row);
    Pooled<Run> runs;
    for (const Segment& segment : segments_) {
      find_runs(runs, rows, segment, k);
      const bool along = segment.count >= images;
      Positions at{.in = first * in_image + group * p.C,
                   .in_step = along ? in_column : in_image,
                   .out = first * out_image + (row * p.OW + segment.first) * p.y_pitch + group * p.O,
                   .out_step = along ? p.y_pitch : out_image,
                   .count = along ? segment.count : images};
      for (std::int64_t i = 0; i < (along ? images : segment.count); ++i) {
        body(runs.data(), static_cast<std::int64_t>(runs.size()), at);
        at.in += along ? in_image : in_column;
        at.out += along ? out_image : p.y_pitch;
      }
    }
  }

 private:
  void find_runs(Pooled<Run>& runs, const Pooled<TapAt>& rows, const Segment& segment, Range k) const {
    const std::int64_t C = problem_.C, taps = static_cast<std::int64_t>(segment.taps.size());
    const bool whole = C == problem_.x_pitch && problem_.dilation_w == 1;  // the taps of a row are adjacent
    runs.clear();
    for (const TapAt& row : rows)
      for (std::int64_t i = 0; i < (whole ? std::min<std::int64_t>(taps, 1) : taps); ++i) {
        const TapAt& column = segment.taps[static_cast<std::size_t>(i)];
        const std::int64_t tap = (row.tap * problem_.KW + column.tap) * C, count = whole ? taps * C : C;
        const std::int64_t from = std::max(tap, k.first), to = std::min(tap + count, k.last);
        if (from >= to) continue;
        const std::int64_t pixel = (row.input * problem_.W + column.input) * problem_.x_pitch;
        runs.push_back({.a = pixel + from - tap, .b = from, .k = to - from});
      }
  }

  Problem problem_;
  Axis rows_;
  Pooled<Segment> segments_;
};

/// The parts of an axis of outputs with the same taps inside, for estimates.
struct AxisInside {
  static constexpr std::int64_t most_taps = 16;  ///< more count as if all were inside
  struct Part {
    std::int64_t outputs = 0, taps = 0;
  };
  std::array<Part, 2 * most_taps + 1> parts;
  std::size_t count = 0;

  /// The sum over the parts of weight(outputs) for each output and tap.
  template <class Weight>
  double sum(const Weight& weight) const {
    double all = 0;
    for (std::size_t i = 0; i < count; ++i)
      all += static_cast<double>(parts[i].outputs * parts[i].taps) * weight(parts[i].outputs);
    return all;
  }
  double products() const {
    return sum([](std::int64_t) { return 1; });
  }
};
AxisInside inside_of(const Axis& axis);

inline constexpr std::int64_t some_images = 16;  // that are computed together

}  // namespace tern::vectorized::convolution

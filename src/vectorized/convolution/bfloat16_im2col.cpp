#include "vectorized/convolution/bfloat16_im2col.hpp"

#include <algorithm>

#include "vectorized/convolution/rows.hpp"

namespace tern::vectorized::convolution {

std::int64_t bfloat16_row(std::int64_t numbers) {
  const std::int64_t whole = round_up(numbers, bfloat16::depth);
  return whole % 512 == 0 ? whole + bfloat16::depth : whole;
}

Bfloat16Im2col::Bfloat16Im2col(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels,
                               std::int64_t block)
    : problem_(problem),
      in_(arrays.in),
      mask_(problem.pass == Pass::grad_weight ? nullptr : arrays.mask),  // which belongs to g
      kernels_(kernels) {
  if (problem.plain()) return;
  const auto reach = [](std::int64_t outputs, std::int64_t stride, std::int64_t dilation, std::int64_t taps) {
    return (outputs - 1) * stride + dilation * (taps - 1) + 1;
  };
  width_ = reach(problem.OW, problem.stride_w, problem.dilation_w, problem.KW);
  const std::int64_t rows = std::min(problem.OH, (block - 1) / problem.OW + 2);
  window_ = reach(rows, problem.stride_h, problem.dilation_h, problem.KH) * width_ * problem.C;
}

void Bfloat16Im2col::cut(Pitched<std::uint16_t> out, std::uint16_t* window, std::int64_t group, Range positions,
                         Range rows) const {
  const auto [first, last] = positions;
  if (!problem_.plain()) {
    for_images(first, last, problem_.positions(),
               [&](std::int64_t n, std::int64_t at, std::int64_t count, std::int64_t before) {
                 cut_image({out.row(before), out.pitch}, window, group, n, {at, at + count}, rows);
               });
    return;
  }
  for (std::int64_t position = first; position < last; ++position) {
    const std::int64_t at = position * problem_.x_pitch + group * problem_.C;
    kernels_.round(out.row(position - first), in_ + at, mask_ == nullptr ? nullptr : mask_ + at, problem_.C);
  }
}

/// At some positions of image n.
void Bfloat16Im2col::cut_image(Pitched<std::uint16_t> out, std::uint16_t* window, std::int64_t group, std::int64_t n,
                               Range positions, Range rows) const {
  const std::int64_t C = problem_.C, OW = problem_.OW, row_numbers = width_ * C;
  const std::int64_t top = positions.first / OW, bottom = (positions.last - 1) / OW;
  const std::int64_t first = top * problem_.stride_h + rows.first * problem_.dilation_h;
  const std::int64_t last = bottom * problem_.stride_h + (rows.last - 1) * problem_.dilation_h + 1;
  for (std::int64_t row = first; row < last; ++row)
    round_row(window + (row - first) * row_numbers, group, n, row - problem_.pad_h);
  const bool adjacent = problem_.dilation_w == 1;
  const std::int64_t runs = adjacent ? 1 : problem_.KW, run = adjacent ? problem_.KW * C : C;
  for (std::int64_t position = positions.first; position < positions.last; ++position) {
    const std::uint16_t* from =
        window + (position / OW - top) * problem_.stride_h * row_numbers + position % OW * problem_.stride_w * C;
    std::uint16_t* to = out.row(position - positions.first);
    for (std::int64_t row = rows.first; row < rows.last; ++row, from += problem_.dilation_h * row_numbers)
      for (std::int64_t i = 0; i < runs; ++i, to += run) kernels_.copy(to, from + i * problem_.dilation_w * C, run);
  }
}

/// Row h of image n, which may be outside.
void Bfloat16Im2col::round_row(std::uint16_t* out, std::int64_t group, std::int64_t n, std::int64_t h) const {
  const std::int64_t C = problem_.C, pitch = problem_.x_pitch, before = problem_.pad_w;
  if (h < 0 || h >= problem_.H) {
    std::fill_n(out, width_ * C, std::uint16_t{0});
    return;
  }
  const std::int64_t inside = std::clamp<std::int64_t>(width_ - before, 0, problem_.W);
  const std::int64_t at = (n * problem_.H + h) * problem_.W * pitch + group * C;
  const auto round = [&](std::int64_t w, std::int64_t positions) {
    const std::int64_t from = at + w * pitch;
    kernels_.round(out + (before + w) * C, in_ + from, mask_ == nullptr ? nullptr : mask_ + from, positions * C);
  };
  std::fill_n(out, std::min(before, width_) * C, std::uint16_t{0});
  if (pitch == C)
    round(0, inside);
  else
    for (std::int64_t w = 0; w < inside; ++w) round(w, 1);
  const std::int64_t end = std::min(before, width_) + inside;
  std::fill_n(out + end * C, (width_ - end) * C, std::uint16_t{0});
}

}  // namespace tern::vectorized::convolution

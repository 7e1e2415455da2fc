#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

struct MaxPool2dOptions {
  std::optional<Pair> stride = {};  ///< the kernel's size if absent
  Pair padding = 0, dilation = 1;
  std::optional<Pair> end_padding = {};  ///< below and to the right; equal to `padding` if absent
  bool ceil_mode = false;  ///< round the output up; windows that start in the right or bottom padding are dropped

  using Members = MemberList<&MaxPool2dOptions::stride, &MaxPool2dOptions::padding, &MaxPool2dOptions::dilation,
                             &MaxPool2dOptions::end_padding, &MaxPool2dOptions::ceil_mode>;
};

struct AvgPool2dOptions {
  std::optional<Pair> stride = {};
  Pair padding = 0;
  std::optional<Pair> end_padding = {};  ///< see MaxPool2dOptions
  bool ceil_mode = false;
  bool count_include_pad = true;

  using Members = MemberList<&AvgPool2dOptions::stride, &AvgPool2dOptions::padding, &AvgPool2dOptions::end_padding,
                             &AvgPool2dOptions::ceil_mode, &AvgPool2dOptions::count_include_pad>;
};

// x may also be one image [C, H, W]; then the result has no batch dimension either.
/// Largest value of each window of x [N, C, H, W]; padding is -infinity, the first maximum wins, NaN propagates.
/// Padding is at most half the kernel; a side of the kernel has at most 256 positions (`max` over dimensions takes
/// more).
Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options = {});
struct Pooled {
  Tensor values, indices;
};
/// max_pool2d, and the position of each value in its plane of x: h W + w, int64, as torch's return_indices.
Pooled max_pool2d_with_indices(const Tensor& x, Pair kernel, const MaxPool2dOptions& options = {});
/// Mean of each window of x [N, C, H, W].
Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options = {});
/// Means over a grid of `output` windows that cover x [N, C, H, W], as in PyTorch.
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output);
/// The mean of each plane: [N, C, 1, 1].
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace tern::operators

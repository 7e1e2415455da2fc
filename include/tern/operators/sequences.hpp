#pragma once

#include "tern/operators/pooling.hpp"

namespace tern::operators {

// Rows [N, C, L], or one of them [C, L]: the two-dimensional operators with a height of 1.

struct ConvTranspose1dOptions {
  std::int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;

  using Members = MemberList<&ConvTranspose1dOptions::stride, &ConvTranspose1dOptions::padding,
                             &ConvTranspose1dOptions::output_padding, &ConvTranspose1dOptions::dilation,
                             &ConvTranspose1dOptions::groups>;
};
/// conv_transpose2d for weight [C, O / groups, K] and bias [O] (or undefined).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});

struct Pool1dOptions {
  std::optional<std::int64_t> stride = {};  ///< the kernel's size if absent
  std::int64_t padding = 0;
  std::optional<std::int64_t> end_padding = {};  ///< at the end; equal to `padding` if absent
  std::int64_t dilation = 1;                     ///< of max_pool1d alone
  bool ceil_mode = false;                        ///< see MaxPool2dOptions
  bool count_include_pad = true;                 ///< of avg_pool1d alone

  using Members = MemberList<&Pool1dOptions::stride, &Pool1dOptions::padding, &Pool1dOptions::end_padding,
                             &Pool1dOptions::dilation, &Pool1dOptions::ceil_mode, &Pool1dOptions::count_include_pad>;
};
Tensor max_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options = {});  ///< See max_pool2d.
/// max_pool1d, and the position of each value in its row.
Pooled max_pool1d_with_indices(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options = {});  ///< See avg_pool2d.
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output);  ///< See adaptive_avg_pool2d.

struct LpPool2dOptions {
  std::optional<Pair> stride = {};  ///< the kernel's size if absent
  Pair padding = 0, dilation = 1;
  std::optional<Pair> end_padding = {};
  bool ceil_mode = false;

  using Members = MemberList<&LpPool2dOptions::stride, &LpPool2dOptions::padding, &LpPool2dOptions::dilation,
                             &LpPool2dOptions::end_padding, &LpPool2dOptions::ceil_mode>;
};
/// (sum of |x|^order)^(1 / order) over each window of x [N, C, H, W]; padding is 0. The derivative of a window of
/// zeros is 0. (torch has x^order, the same for even orders.) Throws NumericError unless order > 0.
Tensor lp_pool2d(const Tensor& x, double order, Pair kernel, const LpPool2dOptions& options = {});

}  // namespace tern::operators

#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/operators/activation.hpp"

namespace tern {

/// A size for height and width; one number sets both.
struct Pair {
  std::int64_t h = 1, w = 1;
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}
};

namespace operators {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  std::optional<Pair> end_padding = {};  ///< below and to the right; equal to `padding` if absent
  std::int64_t groups = 1;
  Activation activation = Activation::none;
  /// Instead of padding: zeros such that the output has the input's size; an odd total puts one more at the end, as
  /// torch's padding="same". Throws ShapeError for a stride other than 1.
  bool same_padding = false;

  using Members =
      MemberList<&Conv2dOptions::stride, &Conv2dOptions::padding, &Conv2dOptions::dilation, &Conv2dOptions::end_padding,
                 &Conv2dOptions::groups, &Conv2dOptions::activation, &Conv2dOptions::same_padding>;
};

// x may also be one image [C, H, W]; then the result has no batch dimension either.
/// Cross-correlation of x [N, C, H, W] with weight [O, C / groups, KH, KW], plus bias [O] (or undefined), then the
/// activation, all in one kernel. The result is [N, O, OH, OW], OH = floor((H + padding + end_padding - dilation (KH
/// - 1) - 1) / stride) + 1. Padding is zeros; 0 times an infinite weight is NaN. Rounding: docs/numbers.md.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {});

/// The activation of conv2d(...) + added: x with its shortcut, as residual networks add it. `added` has the shape of
/// the result. One kernel in inference; with a gradient, the operators in turn. The bits are theirs in both.
Tensor conv2d_add(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& added,
                  const Conv2dOptions& options = {});

/// max_pool2d(conv2d(...), 2): the largest of each 2 x 2 outputs, in windows that do not overlap. One kernel that does
/// not store the convolution, if the mode has it. The result is [N, O, OH / 2, OW / 2], rounded down.
Tensor conv2d_max_pool2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                         const Conv2dOptions& options = {});

struct InvertedResidualOptions {
  Pair stride = 1, padding = 1;  ///< of the depthwise convolution
  Activation expand = Activation::relu6, depthwise = Activation::relu6, project = Activation::none;

  using Members =
      MemberList<&InvertedResidualOptions::stride, &InvertedResidualOptions::padding, &InvertedResidualOptions::expand,
                 &InvertedResidualOptions::depthwise, &InvertedResidualOptions::project>;
};
/// The weights of three convolutions, and what is added behind the last one. All but depthwise and project may be
/// undefined.
struct InvertedResidualWeights {
  Tensor expand = {}, expand_bias = {};   ///< [M, C, 1, 1], [M]; undefined: M = C, without this convolution
  Tensor depthwise, depthwise_bias = {};  ///< [M, 1, KH, KW], [M]
  Tensor project, project_bias = {};      ///< [O, M, 1, 1], [O]
};
/// The activation of project(depthwise(expand(x))) + added, each a convolution with its activation: the block of
/// MobileNetV2. `added` has the shape of the result, or is undefined. In inference one kernel, if the mode has it,
/// which stores nothing in between; else the operators in turn. The bits are theirs.
Tensor inverted_residual(const Tensor& x, const InvertedResidualWeights& weights, const Tensor& added = {},
                         const InvertedResidualOptions& options = {});

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  Activation activation = Activation::none;
  bool same_padding = false;  ///< see Conv2dOptions

  using Members = MemberList<&Conv1dOptions::stride, &Conv1dOptions::padding, &Conv1dOptions::dilation,
                             &Conv1dOptions::groups, &Conv1dOptions::activation, &Conv1dOptions::same_padding>;
};
/// conv2d for x [N, C, L] or [C, L] with weight [O, C / groups, K] and bias [O] (or undefined): [N, O, OL].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dOptions& options = {});

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;

  using Members = MemberList<&ConvTranspose2dOptions::stride, &ConvTranspose2dOptions::padding,
                             &ConvTranspose2dOptions::output_padding, &ConvTranspose2dOptions::dilation,
                             &ConvTranspose2dOptions::groups>;
};
/// The gradient of conv2d's input as an operator, torch.nn.functional.conv_transpose2d. x [N, C, H, W] and weight [C, O
/// / groups, KH, KW] give [N, O, OH, OW] with OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1;
/// bias is [O] or undefined. output_padding must be less than the stride.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

/// The arguments of one conv2d.
struct Conv2dCall {
  Tensor x, weight, bias = {};
  Conv2dOptions options = {};
};
/// Concatenates the outputs of several convolutions, which have one size, along the channels. Each writes its slice of
/// the result, without a copy if the mode can.
Tensor conv2d_cat(const std::vector<Conv2dCall>& calls);

}  // namespace operators
}  // namespace tern

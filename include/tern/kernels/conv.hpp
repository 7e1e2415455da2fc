#pragma once

#include <compare>

#include "tern/kernels/activation.hpp"

namespace tern::kernels {

/// 2-D cross-correlation. x is [N, C, H, W], weight [O, C / groups, KH, KW], bias [O] or null, y [N, O, OH, OW] with OH
/// = floor((H + 2 pad_h - dilation_h (KH - 1) - 1) / stride_h) + 1, and likewise OW. Padding is multiplied as zeros, so
/// an infinite or NaN weight or gradient over the padding gives NaN.
/// Output channel o belongs to group o / (O / groups).
struct Conv2d {
  std::int64_t N = 0, C = 0, H = 0, W = 0;
  std::int64_t O = 0, KH = 1, KW = 1, OH = 0, OW = 0;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  Activation activation = Activation::none;
  std::int64_t y_channels = 0;  ///< channels last only: elements from one position of y and grad_y to the next; 0: O
  Layout layout = Layout::channels_first;  ///< of x, y and their gradients; weights are [O, C / groups, KH, KW] in both
                                           ///< layouts
  bool wide_parameters = false;            ///< conv2d_backward, 16 bits: the arrays of grad_weight and grad_bias are of
                                           ///< Scalar<T>; only if Operators::wide_parameters
  auto operator<=>(const Conv2d&) const = default;

  using Members = MemberList<&Conv2d::N, &Conv2d::C, &Conv2d::H, &Conv2d::W, &Conv2d::O, &Conv2d::KH, &Conv2d::KW,
                             &Conv2d::OH, &Conv2d::OW, &Conv2d::stride_h, &Conv2d::stride_w, &Conv2d::pad_h,
                             &Conv2d::pad_w, &Conv2d::dilation_h, &Conv2d::dilation_w, &Conv2d::groups,
                             &Conv2d::activation, &Conv2d::y_channels, &Conv2d::layout, &Conv2d::wide_parameters>;
};

/// The three convolutions of an inverted residual: 1x1 to more channels, depthwise, 1x1 to fewer. Each reads what the
/// one before it writes. Without the first, which `expand.O == 0` says, the second reads x.
struct InvertedResidual {
  Conv2d expand, depthwise, project;
  auto operator<=>(const InvertedResidual&) const = default;

  using Members = MemberList<&InvertedResidual::expand, &InvertedResidual::depthwise, &InvertedResidual::project>;
};

/// Convolutions.
template <class T>
struct Conv {
  /// The layout in which the mode runs this convolution. `layout` holds the current layout of x; the caller converts x
  /// and sets it. Other than channels_first only if Operators::channels_last is set.
  Kernel<Layout(const Context&, const Conv2d&)> layout;
  /// y = activation(x * weight + bias). `bias` may be null.
  Kernel<void(Context&, T* y, const T* x, const T* weight, const T* bias, const Conv2d&)> conv2d;
  /// y = activation(x * weight + bias + added): `added` is [N, O, OH, OW] in the layout of x, dense, and is not y. The
  /// bits are those of conv2d without an activation, an addition and the activation.
  Kernel<void(Context&, T* y, const T* x, const T* weight, const T* bias, const T* added, const Conv2d&)> conv2d_add;
  /// With g = grad_y * activation'(y): the gradients of the three inputs. A null gradient is not computed. Inputs that
  /// are not read may be null: y without an activation, weight without grad_x, x without the other two. grad_x sums
  /// over the outputs that exist; positions beyond y's edges contribute nothing, not zero times a weight.
  Kernel<void(Context&, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x, const T* weight,
              const T* y, const Conv2d&)>
      conv2d_backward;

  /// Whether the two kernels below pool this convolution in the requested layout; absent if they never do. A copy of a
  /// mode that replaces `conv2d` must answer no, or its convolution is bypassed.
  Kernel<bool(const Context&, const Conv2d&)> fuses_max_pool2d;
  /// max_pool2d of conv2d in windows of 2 x 2 that do not overlap: y and `index` are [N, O, OH / 2, OW / 2]. `bias` may
  /// be null; so may `index` when no gradient will be requested.
  Kernel<void(Context&, T* y, std::uint8_t* index, const T* x, const T* weight, const T* bias, const Conv2d&)>
      conv2d_max_pool2d;
  /// As conv2d_backward, for the outputs of conv2d_max_pool2d.
  Kernel<void(Context&, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const std::uint8_t* index, const T* x,
              const T* weight, const T* y, const Conv2d&)>
      conv2d_max_pool2d_backward;

  /// Whether the kernel below runs these sizes. The first layout is that of x; the caller converts x, and all are
  /// channels_last then. As with `fuses_max_pool2d`, a mode that replaces `conv2d` must answer no.
  Kernel<bool(const Context&, const InvertedResidual&)> fuses_inverted_residual;
  /// y = activation(project(depthwise(expand(x))) + added), with the bits of the three kernels in turn, of which the
  /// last one is conv2d_add. x, y and `added` are channels last and dense. The biases and `added` may be null, and so
  /// is `expand` where there is no expansion. y is neither of them.
  Kernel<void(Context&, T* y, const T* x, const T* expand, const T* expand_bias, const T* depthwise,
              const T* depthwise_bias, const T* project, const T* project_bias, const T* added,
              const InvertedResidual&)>
      inverted_residual;

  using Members = MemberList<&Conv::layout, &Conv::conv2d, &Conv::conv2d_add, &Conv::conv2d_backward,
                             &Conv::fuses_max_pool2d, &Conv::conv2d_max_pool2d, &Conv::conv2d_max_pool2d_backward,
                             &Conv::fuses_inverted_residual, &Conv::inverted_residual>;
};

}  // namespace tern::kernels

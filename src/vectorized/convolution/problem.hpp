#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "core/built.hpp"
#include "tern/kernels/context.hpp"
#include "tern/kernels/conv.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/clip.hpp"

namespace tern::vectorized::convolution {

using kernels::Activation;
using kernels::Conv2d;
using kernels::Layout;

enum class Pass : std::uint8_t { forward, grad_x, grad_weight, grad_bias };

/// One pass of a convolution: everything that a decision about it reads, and the cache key of the decision.
struct Problem {
  Pass pass = Pass::forward;
  std::int64_t N = 0, groups = 1, C = 0, O = 0;  ///< C and O are per group
  std::int64_t H = 0, W = 0, KH = 1, KW = 1, OH = 0, OW = 0;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  Layout layout = Layout::channels_first;
  std::int64_t x_pitch = 0, y_pitch = 0;  ///< channels last: elements from one position of x, of y or g, to the next
  Activation activation = Activation::none;
  bool bias = false;  ///< whether these arrays are present
  bool mask = false;
  std::int64_t element = sizeof(float);  ///< bytes
  Precision precision = Precision::strict;
  int threads = 1;
  bool deterministic = true;

  auto operator<=>(const Problem&) const = default;

  /// Whether the gradient of the weight, or of the bias, is computed: never in a library that only answers. That of x
  /// is the forward pass of a transposed convolution.
  bool of_weight() const { return built::whole && pass == Pass::grad_weight; }
  bool of_bias() const { return built::whole && pass == Pass::grad_bias; }
  std::int64_t positions() const { return OH * OW; }
  std::int64_t plane() const { return H * W; }
  std::int64_t taps() const { return KH * KW; }
  std::int64_t K() const { return C * taps(); }  ///< products per output
  /// Elements of the channels of an image with their padding; saturates at the largest number.
  std::int64_t padded() const {
    std::int64_t height = 0, width = 0, all = 0;
    const bool fits = !__builtin_mul_overflow(2, pad_h, &height) && !__builtin_add_overflow(height, H, &height) &&
                      !__builtin_mul_overflow(2, pad_w, &width) && !__builtin_add_overflow(width, W, &width) &&
                      !__builtin_mul_overflow(height, width, &all) && !__builtin_mul_overflow(all, C, &all);
    return fits ? all : std::numeric_limits<std::int64_t>::max();
  }
  bool strided() const { return stride_h != 1 || stride_w != 1; }
  /// Patches are positions of the image in place.
  bool plain() const { return KH == 1 && KW == 1 && !strided() && pad_h == 0 && pad_w == 0; }
};

/// For messages and lists: "conv2d_grad_x of 8x64x12x12 by 32x64x3x3, stride 1x1, ...".
std::string text_of(const Problem& problem);

/// The arrays of a pass; unused ones are null. Images have the problem's layout.
template <class T>
struct Arrays {
  T *out = nullptr, *grad_bias = nullptr;  ///< y, grad_x or grad_weight; grad_bias is computed with grad_weight
  const T *in = nullptr, *g = nullptr;     ///< x, or for grad_x the gradient of y; g: for the other gradients, that of
                                           ///< y
  const T* mask = nullptr;  ///< has the layout of y's gradient, whose elements count as 0 where this is 0 or less:
                            ///< relu's
  const T *weight = nullptr, *bias = nullptr;
  const T* added = nullptr;             ///< forward: added to the outputs, dense in their layout; or null
  Activation after = Activation::none;  ///< forward, applied behind that, or instead of the problem's activation
  bool keeps = false;                   ///< what is derived from the weights is cached for later calls

  const T* mask_at(std::int64_t at) const { return mask == nullptr ? nullptr : mask + at; }
};

/// A pass of a convolution on one thread, without bias and mask.
inline Problem problem_of(const Context& context, const Conv2d& shape, Pass pass, std::size_t element) {
  return {.pass = pass,
          .N = shape.N,
          .groups = shape.groups,
          .C = shape.C / shape.groups,
          .O = shape.O / shape.groups,
          .H = shape.H,
          .W = shape.W,
          .KH = shape.KH,
          .KW = shape.KW,
          .OH = shape.OH,
          .OW = shape.OW,
          .stride_h = shape.stride_h,
          .stride_w = shape.stride_w,
          .pad_h = shape.pad_h,
          .pad_w = shape.pad_w,
          .dilation_h = shape.dilation_h,
          .dilation_w = shape.dilation_w,
          .layout = shape.layout,
          .x_pitch = shape.C,
          .y_pitch = shape.layout == Layout::channels_last && shape.y_channels != 0 ? shape.y_channels : shape.O,
          .activation = shape.activation,
          .element = static_cast<std::int64_t>(element),
          .precision = context.precision,
          .deterministic = context.deterministic};
}

/// A rough cost of the forward pass on one thread. Fetching the weights takes as long as four positions do.
inline double nanoseconds(const Problem& problem) {
  const std::int64_t each = problem.N * problem.positions();
  return static_cast<double>(problem.groups * problem.O * (each > 0 ? std::max<std::int64_t>(each, 4) : 0)) *
         static_cast<double>(problem.K()) * static_cast<double>(problem.element) / 120;
}

/// Space-to-depth: a convolution of one group with stride s on both axes becomes one of stride 1 over squares of s x s
/// pixels, whose channels are [s, s, C], with kernels of ceil(K / s) taps. The first square begins pad positions before
/// the image. A problem of stride 1 is unchanged.
inline Problem space_to_depth(const Problem& problem) {
  Problem result = problem;
  if (!problem.strided()) return result;
  const std::int64_t side = problem.stride_h;
  result.C = side * side * problem.C;
  result.KH = divide_up(problem.KH, side);
  result.KW = divide_up(problem.KW, side);
  result.H = problem.OH + result.KH - 1;
  result.W = problem.OW + result.KW - 1;
  result.stride_h = result.stride_w = 1;
  result.pad_h = result.pad_w = 0;
  return result;
}

/// Whether the gradient of x is a convolution of the gradient of y.
inline bool flips(const Problem& problem) {
  return !problem.strided() && problem.pad_h <= problem.dilation_h * (problem.KH - 1) &&
         problem.pad_w <= problem.dilation_w * (problem.KW - 1);
}

/// The gradient of x as a convolution of the gradient of y, if possible. Its weight is [groups * C, O, KH, KW], read
/// with both axes of taps reversed (a flipped kernel). Other passes are unchanged.
inline Problem flipped(const Problem& problem) {
  Problem result = problem;
  if (problem.pass != Pass::grad_x) return result;
  std::swap(result.C, result.O);
  std::swap(result.H, result.OH);
  std::swap(result.W, result.OW);
  std::swap(result.x_pitch, result.y_pitch);
  result.pad_h = problem.dilation_h * (problem.KH - 1) - problem.pad_h;
  result.pad_w = problem.dilation_w * (problem.KW - 1) - problem.pad_w;
  result.activation = Activation::none;
  return result;
}

}  // namespace tern::vectorized::convolution

#pragma once

#include "tern/core/member_list.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

enum class Interpolation : std::uint8_t {
  nearest,        ///< element floor(i H / OH)
  nearest_exact,  ///< element floor((i + 0.5) H / OH), torch's "nearest-exact"
  bilinear,       ///< interpolates between the neighbours of (i + 0.5) H / OH - 0.5, at least 0
  bicubic         ///< cubic convolution with a = -0.75 over four neighbours per dimension, as in torch
};

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  /// For bilinear and bicubic: aligns the centres of the corner pixels instead of their outer corners: i (H - 1) / (OH
  /// - 1).
  bool align_corners = false;

  using Members = MemberList<&InterpolateOptions::mode, &InterpolateOptions::align_corners>;
};

/// A factor for height and width; one number sets both.
struct Scale {
  double h = 1, w = 1;
  constexpr Scale(double both) : h(both), w(both) {}
  constexpr Scale(double height, double width) : h(height), w(width) {}
};

/// Resizes x [N, C, H, W] to [N, C, output.h, output.w], as torch.nn.functional.interpolate. Floating dtypes; sizes of
/// 0 are a ShapeError.
Tensor interpolate(const Tensor& x, Pair output, const InterpolateOptions& options = {});
/// The same to floor(H scale.h) x floor(W scale.w), with 1 / scale in place of H / OH, as torch's scale_factor. Throws
/// ShapeError if a scale is not positive or the result is empty.
Tensor interpolate_by(const Tensor& x, Scale scale, const InterpolateOptions& options = {});

}  // namespace tern::operators

#pragma once

#include "tern/operators/conv.hpp"

namespace tern::operators {

enum class Interpolation : std::uint8_t {
  nearest,        ///< element floor(i H / OH)
  nearest_exact,  ///< element floor((i + 0.5) H / OH), torch's "nearest-exact"
  bilinear,       ///< a mixture of the neighbours of (i + 0.5) H / OH - 0.5, at least 0
  bicubic         ///< of the four next to it by the cubic convolution of a = -0.75, as torch's
};

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  /// Of bilinear and bicubic: the centres of the corners meet, instead of the corners of the corners: i (H - 1) / (OH -
  /// 1).
  bool align_corners = false;
};

/// A factor for height and width; one number stands for both.
struct Scale {
  double h = 1, w = 1;
  constexpr Scale(double both) : h(both), w(both) {}
  constexpr Scale(double height, double width) : h(height), w(width) {}
};

/// x [N, C, H, W] at another size, [N, C, output.h, output.w], as torch.nn.functional.interpolate. Floating dtypes;
/// sizes of 0 are a ShapeError.
Tensor interpolate(const Tensor& x, Pair output, const InterpolateOptions& options = {});
/// The same at floor(H scale.h) x floor(W scale.w). As torch's scale_factor, 1 / scale stands in the place of H / OH. A
/// scale that is not above 0, and one that leaves nothing, are a ShapeError.
Tensor interpolate_by(const Tensor& x, Scale scale, const InterpolateOptions& options = {});

}  // namespace tern::operators

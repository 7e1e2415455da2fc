#pragma once

#include "tern/operators/conv.hpp"

namespace tern::operators {

enum class Interpolation : std::uint8_t { nearest, bilinear };

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< of bilinear: the centres of the corners meet, instead of the corners of the corners
};

/// x [N, C, H, W] at another size, [N, C, output.h, output.w], as torch.nn.functional.interpolate. nearest takes
/// element floor(i H / OH); bilinear mixes the neighbours of (i + 0.5) H / OH - 0.5, or with align_corners of i (H - 1)
/// / (OH - 1), at least 0. Floating dtypes; sizes of 0 are a ShapeError.
Tensor interpolate(const Tensor& x, Pair output, const InterpolateOptions& options = {});

}  // namespace tern::operators

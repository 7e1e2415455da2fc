#pragma once

#include <optional>
#include <vector>

#include "tern/core/member_list.hpp"
#include "tern/operators/pooling.hpp"

namespace tern {

/// A size for depth, height and width; one number sets all three.
struct Triple {
  std::int64_t d = 1, h = 1, w = 1;
  constexpr Triple() = default;
  constexpr Triple(std::int64_t all) : d(all), h(all), w(all) {}
  constexpr Triple(std::int64_t depth, std::int64_t height, std::int64_t width) : d(depth), h(height), w(width) {}

  using Members = MemberList<&Triple::d, &Triple::h, &Triple::w>;
};

namespace operators {

// Volumes [N, C, D, H, W], or one volume [C, D, H, W]; the result then has no batch dimension either.

struct Conv3dOptions {
  Triple stride = 1, padding = 0, dilation = 1;
  std::optional<Triple> end_padding = {};  ///< behind, below and to the right; equal to `padding` if absent
  std::int64_t groups = 1;
  Activation activation = Activation::none;

  using Members = MemberList<&Conv3dOptions::stride, &Conv3dOptions::padding, &Conv3dOptions::dilation,
                             &Conv3dOptions::end_padding, &Conv3dOptions::groups, &Conv3dOptions::activation>;
};
/// Cross-correlation with weight [O, C / groups, KD, KH, KW], plus bias [O] (or undefined), then the activation:
/// [N, O, OD, OH, OW], sized as by conv2d. It is a conv2d over channels and depth.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv3dOptions& options = {});

struct ConvTranspose3dOptions {
  Triple stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;

  using Members = MemberList<&ConvTranspose3dOptions::stride, &ConvTranspose3dOptions::padding,
                             &ConvTranspose3dOptions::output_padding, &ConvTranspose3dOptions::dilation,
                             &ConvTranspose3dOptions::groups>;
};
/// conv_transpose2d in three dimensions: weight [C, O / groups, KD, KH, KW], bias [O] or undefined.
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});

struct MaxPool3dOptions {
  std::optional<Triple> stride = {};  ///< the kernel's size if absent
  Triple padding = 0, dilation = 1;
  std::optional<Triple> end_padding = {};
  bool ceil_mode = false;  ///< see MaxPool2dOptions

  using Members = MemberList<&MaxPool3dOptions::stride, &MaxPool3dOptions::padding, &MaxPool3dOptions::dilation,
                             &MaxPool3dOptions::end_padding, &MaxPool3dOptions::ceil_mode>;
};
/// The largest value of each window, as max_pool2d.
Tensor max_pool3d(const Tensor& x, Triple kernel, const MaxPool3dOptions& options = {});
/// max_pool3d, and the position of each value in its volume: (d H + h) W + w, int64.
Pooled max_pool3d_with_indices(const Tensor& x, Triple kernel, const MaxPool3dOptions& options = {});

struct AvgPool3dOptions {
  std::optional<Triple> stride = {};
  Triple padding = 0;
  std::optional<Triple> end_padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;

  using Members = MemberList<&AvgPool3dOptions::stride, &AvgPool3dOptions::padding, &AvgPool3dOptions::end_padding,
                             &AvgPool3dOptions::ceil_mode, &AvgPool3dOptions::count_include_pad>;
};
/// The mean of each window, as avg_pool2d.
Tensor avg_pool3d(const Tensor& x, Triple kernel, const AvgPool3dOptions& options = {});
/// Means over a grid of `output` windows that cover x.
Tensor adaptive_avg_pool3d(const Tensor& x, Triple output);

}  // namespace operators
}  // namespace tern

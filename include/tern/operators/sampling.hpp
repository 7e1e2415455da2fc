#pragma once

#include <optional>
#include <vector>

#include "tern/core/member_list.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

/// Where element i of `out` elements comes from among `in`; the scale is out / in, or the given one.
enum class Coordinates : std::uint8_t {
  half_pixel,            ///< (i + 0.5) / scale - 0.5
  half_pixel_symmetric,  ///< the same, centred if in * scale is no whole number
  pytorch_half_pixel,    ///< half_pixel, but -0.5 for a single element
  align_corners,         ///< i (in - 1) / (out - 1)
  asymmetric,            ///< i / scale
  crop                   ///< along a part of the input that `roi` names, ONNX's tf_crop_and_resize
};
/// The element that nearest takes.
enum class Nearest : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class Resize : std::uint8_t { nearest, linear, cubic };

struct ResizeOptions {
  Resize mode = Resize::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  Nearest nearest = Nearest::round_prefer_floor;
  double cubic = -0.75;             ///< the coefficient a of cubic convolution (Keys, 1981)
  bool exclude_outside = false;     ///< weights of elements outside are 0, and the others grow; else edges repeat
  bool antialias = false;           ///< linear and cubic to a smaller size: the kernel grows with the step
  double extrapolation = 0;         ///< what `crop` gives outside the input
  std::vector<double> scales = {};  ///< one for each dimension, in place of out / in
  std::vector<double> roi = {};     ///< of `crop`: the starts, then the ends, of 0 to 1 for each dimension

  using Members = MemberList<&ResizeOptions::mode, &ResizeOptions::coordinates, &ResizeOptions::nearest,
                             &ResizeOptions::cubic, &ResizeOptions::exclude_outside, &ResizeOptions::antialias,
                             &ResizeOptions::extrapolation, &ResizeOptions::scales, &ResizeOptions::roi>;
};
/// Resizes x to `output`, a size for each of its dimensions, by every rule of ONNX's Resize; `interpolate` has torch's.
/// Nearest takes any dtype. Throws ShapeError for another number of sizes, scales or bounds, or a size of 0.
Tensor resize(const Tensor& x, const Shape& output, const ResizeOptions& options = {});

/// What lies around an image.
enum class Around : std::uint8_t {
  zeros,
  border,     ///< its edge
  reflection  ///< its mirror image
};
struct GridSampleOptions {
  Resize mode = Resize::linear;
  Around padding = Around::zeros;
  bool align_corners = false;  ///< -1 and 1 are the centres of the corner elements instead of their outer edges

  using Members = MemberList<&GridSampleOptions::mode, &GridSampleOptions::padding, &GridSampleOptions::align_corners>;
};
/// Elements of x [N, C, size...] at the positions grid [N, out..., dimensions], from -1 to 1 and the last dimension
/// first: [N, C, out...], as torch.nn.functional.grid_sample and ONNX's GridSample. For one to three dimensions.
/// Gradients of x and, except nearest, of the grid. Cubic has a = -0.75.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

struct RoiAlignOptions {
  double spatial_scale = 1;         ///< from the boxes' coordinates to x's
  std::int64_t sampling_ratio = 0;  ///< samples along each side of a bin; 0: ceil(size of the bin)
  bool aligned = true;              ///< pixels have their centres at 0.5; else boxes are at least 1 x 1
  bool max = false;                 ///< the largest weighted element of each bin, ONNX's mode "max", instead of means

  using Members = MemberList<&RoiAlignOptions::spatial_scale, &RoiAlignOptions::sampling_ratio,
                             &RoiAlignOptions::aligned, &RoiAlignOptions::max>;
};
/// Means over a grid of `output` bins in each box (x1, y1, x2, y2) of boxes [K, 4] (floating) on the images images [K]
/// (int64) of x [N, C, H, W]: [K, C, output.h, output.w], as torchvision.ops.roi_align. Without a sampling_ratio it
/// waits for the device. Gradient of x. (He and others, 2017.)
Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& images, Pair output,
                 const RoiAlignOptions& options = {});

struct NonMaxSuppressionOptions {
  std::int64_t most = std::int64_t{1} << 62;  ///< boxes of each image and class
  double iou = 0;                             ///< a box that overlaps a better one by more is left out
  std::optional<double> score = {};           ///< only scores above it count
  bool centres = false;                       ///< boxes are (x, y, width, height) instead of two corners (y, x)

  using Members = MemberList<&NonMaxSuppressionOptions::most, &NonMaxSuppressionOptions::iou,
                             &NonMaxSuppressionOptions::score, &NonMaxSuppressionOptions::centres>;
};
/// The best boxes [N, B, 4] by scores [N, C, B], without those that overlap a better one of their class: int64 [n, 3]
/// of image, class and box, each class in the order of its scores, as ONNX's NonMaxSuppression. Waits for the device.
Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, const NonMaxSuppressionOptions& options = {});

}  // namespace tern::operators

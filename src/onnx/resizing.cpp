// Resize, and elements between others.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/table.hpp"
#include "tern/operators/sampling.hpp"

namespace tern::onnx {

namespace {

op::Resize mode_of(const Call& call, const std::string& mode) {
  if (mode == "nearest") return op::Resize::nearest;
  if (mode == "linear" || mode == "bilinear") return op::Resize::linear;
  if (mode == "cubic" || mode == "bicubic") return op::Resize::cubic;
  call.refuse(message("has mode '", mode, "'"), "nearest, linear or cubic");
}

op::Coordinates coordinates_of(const Call& call, const std::string& name) {
  if (name == "half_pixel") return op::Coordinates::half_pixel;
  if (name == "half_pixel_symmetric") return op::Coordinates::half_pixel_symmetric;
  if (name == "pytorch_half_pixel") return op::Coordinates::pytorch_half_pixel;
  if (name == "align_corners") return op::Coordinates::align_corners;
  if (name == "asymmetric") return op::Coordinates::asymmetric;
  if (name == "tf_crop_and_resize") return op::Coordinates::crop;
  call.refuse(message("has coordinate_transformation_mode '", name, "'"), "use one of operator set 19");
}

op::Nearest nearest_of(const Call& call, const std::string& name) {
  if (name == "round_prefer_floor") return op::Nearest::round_prefer_floor;
  if (name == "round_prefer_ceil") return op::Nearest::round_prefer_ceil;
  if (name == "floor") return op::Nearest::floor;
  if (name == "ceil") return op::Nearest::ceil;
  call.refuse(message("has nearest_mode '", name, "'"), "use one of operator set 19");
}

/// Values of an input that may be left out or empty.
std::vector<double> numbers_of(const Call& call, int input) {
  if (input < 0 || !call.has(input) || call.input(input).numel() == 0) return {};
  return call.known_numbers(input);
}

/// Images whose height and width change as interpolate, which has faster kernels, does it.
bool is_usual(const Tensor& x, const op::ResizeOptions& options, const Shape& output) {
  if (x.rank() != 4 || !is_floating(x.dtype()) || options.antialias || options.exclude_outside) return false;
  for (int d = 0; d < 4; ++d) {
    if (d < 2 && x.shape()[d] != output[d]) return false;
    if (!options.scales.empty() &&
        options.scales[d] * static_cast<double>(x.shape()[d]) != static_cast<double>(output[d]))
      return false;
    if (d >= 2 && (x.shape()[d] < 2 || output[d] < 2)) return false;
  }
  if (options.mode == op::Resize::nearest)
    return options.coordinates == op::Coordinates::asymmetric && options.nearest == op::Nearest::floor;
  if (options.mode == op::Resize::cubic && options.cubic != -0.75) return false;
  return options.coordinates == op::Coordinates::half_pixel ||
         options.coordinates == op::Coordinates::pytorch_half_pixel ||
         options.coordinates == op::Coordinates::align_corners;
}

Tensor resized(const Tensor& x, const Shape& output, const op::ResizeOptions& options) {
  if (!is_usual(x, options, output)) return op::resize(x, output, options);
  const op::Interpolation mode = options.mode == op::Resize::nearest ? op::Interpolation::nearest
                                 : options.mode == op::Resize::cubic ? op::Interpolation::bicubic
                                                                     : op::Interpolation::bilinear;
  return op::interpolate(
      x, {output[2], output[3]},
      {.mode = mode,
       .align_corners = options.coordinates == op::Coordinates::align_corners && options.mode != op::Resize::nearest});
}

/// The size that the wanted sizes of some axes give all of them, and the scale.
double common_scale(const std::string& policy, const std::vector<double>& scales) {
  return policy == "not_larger" ? *std::ranges::min_element(scales) : *std::ranges::max_element(scales);
}

Results resize(const Call& call) {
  const Tensor& x = call.input(0);
  const bool old = call.opset() < 11;  // and Upsample
  op::ResizeOptions options{
      .mode = mode_of(call, call.text("mode", "nearest")),
      .coordinates =
          coordinates_of(call, call.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel")),
      .nearest = nearest_of(call, call.text("nearest_mode", old ? "floor" : "round_prefer_floor")),
      .cubic = call.number("cubic_coeff_a", -0.75),
      .exclude_outside = call.integer("exclude_outside", 0) != 0,
      .antialias = call.integer("antialias", 0) != 0,
      .extrapolation = call.number("extrapolation_value", 0)};
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  const std::vector<double> scales =
      call.type() == "Upsample" && call.opset() < 9 ? call.numbers("scales") : numbers_of(call, old ? 1 : 2);
  const std::vector<double> sizes = numbers_of(call, old ? -1 : 3);
  const bool crops = options.coordinates == op::Coordinates::crop;
  const std::vector<double> roi = crops ? numbers_of(call, 1) : std::vector<double>{};
  Integers axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const std::size_t count = axes.size();
  if ((scales.size() != count && sizes.size() != count) || (crops && roi.size() != 2 * count))
    call.refuse(message("has ", scales.size(), " scales and ", sizes.size(), " sizes for ", count, " axes"),
                "repair the file");
  const auto rank = static_cast<std::size_t>(x.rank());
  Shape output = x.shape();
  options.scales.assign(rank, 1);
  if (crops) {
    options.roi.assign(2 * rank, 0);
    std::fill(options.roi.begin() + x.rank(), options.roi.end(), 1);
  }
  std::vector<double> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    const int axis = axis_of(call, axes[i], x.rank());
    const auto size = static_cast<double>(x.shape()[axis]);
    double part = 1;
    if (crops) {
      options.roi[axis] = roi[i];
      options.roi[rank + axis] = roi[count + i];
      part = roi[count + i] - roi[i];
    }
    const double scale = sizes.empty() ? scales[i] : sizes[i] / size;
    const double length = sizes.empty() ? std::floor(size * part * scale) : sizes[i];
    if (!(scale > 0) || !(length >= 1) || length > 1e12)
      call.refuse(message("makes ", length, " of ", size, " elements"), "repair the file");
    options.scales[axis] = scale;
    output[axis] = static_cast<std::int64_t>(length);
    wanted.push_back(scale);
  }
  if (!sizes.empty() && policy != "stretch") {
    const double scale = common_scale(policy, wanted);
    for (const std::int64_t given : axes) {
      const int axis = axis_of(call, given, x.rank());
      options.scales[axis] = scale;
      output[axis] = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(x.shape()[axis]) + 0.5));
    }
  } else if (!sizes.empty()) {
    options.scales.clear();
  }
  call.check_size(output);
  if (output == x.shape() && !crops) return {x};
  return {resized(x, output, options)};
}

Results grid_sample(const Call& call) {
  const std::string padding = call.text("padding_mode", "zeros");
  op::GridSampleOptions options{.mode = mode_of(call, call.text("mode", "linear")),
                                .align_corners = call.integer("align_corners", 0) != 0};
  if (padding == "border")
    options.padding = op::Around::border;
  else if (padding == "reflection")
    options.padding = op::Around::reflection;
  else if (padding != "zeros")
    call.refuse(message("has padding_mode '", padding, "'"), "zeros, border or reflection");
  return {op::grid_sample(call.input(0), call.input(1), options)};
}

Results roi_align(const Call& call) {
  const std::string mode = call.text("mode", "avg");
  const std::string form =
      call.text("coordinate_transformation_mode", call.opset() < 16 ? "output_half_pixel" : "half_pixel");
  const op::RoiAlignOptions options{.spatial_scale = call.number("spatial_scale", 1),
                                    .sampling_ratio = call.integer("sampling_ratio", 0),
                                    .aligned = form == "half_pixel",
                                    .max = mode == "max"};
  const Pair output{call.integer("output_height", 1), call.integer("output_width", 1)};
  return {op::roi_align(call.input(0), call.input(1), call.input(2), output, options)};
}

Results non_max_suppression(const Call& call) {
  op::NonMaxSuppressionOptions options{.most = call.has(2) ? call.known_integer(2) : 0,
                                       .iou = call.has(3) ? call.known_number(3) : 0,
                                       .centres = call.integer("center_point_box", 0) != 0};
  if (call.has(4)) options.score = call.known_number(4);
  return {op::non_max_suppression(call.input(0), call.input(1), options)};
}

}  // namespace

void append_resizing(Table& table) {
  table["Resize"] = resize;
  table["Upsample"] = resize;
  table["GridSample"] = grid_sample;
  table["RoiAlign"] = roi_align;
  table["NonMaxSuppression"] = non_max_suppression;
}

}  // namespace tern::onnx

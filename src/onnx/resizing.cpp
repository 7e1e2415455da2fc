// Resize: each axis is a product with a matrix of weights, few of which are not 0. What the library's interpolate
// computes with the same weights is left to it.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

struct Rule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, outside = 0;
  bool exclude_outside = false, antialias = false;
};

/// One axis, from `size` to `wanted` elements.
struct Axis {
  int dim = 0;
  std::int64_t size = 0, wanted = 0;
  double scale = 1, begin = 0, end = 1;  // begin and end: of tf_crop_and_resize
};

double place(const Rule& rule, const Axis& axis, std::int64_t i) {
  const auto x = static_cast<double>(i), size = static_cast<double>(axis.size),
             wanted = static_cast<double>(axis.wanted);
  const double half = (x + 0.5) / axis.scale - 0.5;
  if (rule.coordinates == "half_pixel") return half;
  if (rule.coordinates == "half_pixel_symmetric") return size / 2 * (1 - wanted / (axis.scale * size)) + half;
  if (rule.coordinates == "pytorch_half_pixel") return axis.wanted > 1 ? half : 0;
  // The length that the scale says, which the size rounds down.
  if (rule.coordinates == "align_corners") return axis.wanted > 1 ? x * (size - 1) / (axis.scale * size - 1) : 0;
  if (rule.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (rule.coordinates == "tf_crop_and_resize")
    return axis.wanted > 1 ? axis.begin * (size - 1) + x * (axis.end - axis.begin) * (size - 1) / (wanted - 1)
                           : (axis.begin + axis.end) * (size - 1) / 2;
  return x / axis.scale;  // asymmetric
}

double rounded(const std::string& how, double x) {
  if (how == "round_prefer_ceil") return std::floor(x + 0.5);
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  return std::ceil(x - 0.5);
}

double kernel(const Rule& rule, double distance) {
  const double d = std::abs(distance), a = rule.cubic;
  if (rule.mode == "linear") return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? a * (((d - 5) * d + 8) * d - 4) : 0;
}

/// The weights [wanted, size] of an axis.
std::vector<double> weights_of(const Rule& rule, const Axis& axis) {
  std::vector<double> all(static_cast<std::size_t>(axis.wanted * axis.size));
  const double shrink = rule.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = rule.mode == "linear" ? 1 : 2;
  const auto first = static_cast<std::int64_t>(std::floor(-reach / shrink)) + 1;
  for (std::int64_t i = 0; i < axis.wanted; ++i) {
    double* row = all.data() + i * axis.size;
    const double x = place(rule, axis, i), floor = std::floor(x);
    double sum = 0;
    for (std::int64_t tap = first; tap < 2 - first; ++tap) {
      const std::int64_t at = static_cast<std::int64_t>(floor) + tap;
      const double weight = kernel(rule, shrink * (static_cast<double>(tap) - (x - floor)));
      if (rule.exclude_outside && (at < 0 || at >= axis.size)) continue;
      row[std::clamp<std::int64_t>(at, 0, axis.size - 1)] += weight;
      sum += weight;
    }
    if ((rule.exclude_outside || rule.antialias) && sum != 0)
      for (std::int64_t k = 0; k < axis.size; ++k) row[k] /= sum;
  }
  return all;
}

Tensor along(const Tensor& x, const Rule& rule, const Axis& axis) {
  if (rule.mode == "nearest") {
    Integers places;
    for (std::int64_t i = 0; i < axis.wanted; ++i) {
      const double at = rounded(rule.nearest, place(rule, axis, i));
      places.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(axis.size - 1))));
    }
    return op::index_select(x, axis.dim, tern::tensor(places, {axis.wanted}));
  }
  const std::vector<double> weights = weights_of(rule, axis);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::float32;
  const Tensor matrix = op::cast(tern::tensor(weights, {axis.wanted, axis.size}), dtype);
  const Tensor own = dtype == x.dtype() ? x : op::cast(x, dtype);
  const int last = x.rank() - 1;
  const Tensor result =
      axis.dim == last ? op::matmul(own, matrix, {.transpose_b = true})
                       : op::transpose(op::matmul(op::transpose(own, axis.dim, last), matrix, {.transpose_b = true}),
                                       axis.dim, last);
  return dtype == x.dtype() ? result : op::cast(result, x.dtype());
}

/// Images whose height and width change as interpolate does it.
bool is_usual(const Tensor& x, const Rule& rule, const std::vector<Axis>& axes) {
  if (x.rank() != 4 || !is_floating(x.dtype()) || rule.antialias || rule.exclude_outside) return false;
  for (const Axis& axis : axes)
    if (axis.dim < 2 || axis.wanted < 2 || axis.size < 2 ||
        axis.scale * static_cast<double>(axis.size) != static_cast<double>(axis.wanted))
      return false;
  if (axes.size() != 2) return false;
  if (rule.mode == "nearest") return rule.coordinates == "asymmetric" && rule.nearest == "floor";
  if (rule.mode == "cubic" && rule.cubic != -0.75) return false;
  return rule.coordinates == "half_pixel" || rule.coordinates == "pytorch_half_pixel" ||
         rule.coordinates == "align_corners";
}

Tensor resized(const Call& call, Tensor x, const Rule& rule, const std::vector<Axis>& axes) {
  Shape whole = x.shape();
  for (const Axis& axis : axes) {
    if (axis.wanted < 1 || axis.size < 1) call.refuse(message("makes ", axis.wanted, " of ", axis.size, " elements"));
    whole[axis.dim] = axis.wanted;
    call.check_size({axis.wanted, axis.size});
  }
  call.check_size(whole);
  if (is_usual(x, rule, axes)) {
    const auto mode = rule.mode == "nearest" ? op::Interpolation::nearest
                      : rule.mode == "cubic" ? op::Interpolation::bicubic
                                             : op::Interpolation::bilinear;
    return op::interpolate(x, {whole[2], whole[3]},
                           {.mode = mode, .align_corners = rule.coordinates == "align_corners"});
  }
  for (const Axis& axis : axes) x = along(x, rule, axis);
  if (rule.coordinates != "tf_crop_and_resize") return x;
  for (const Axis& axis : axes) {
    std::vector<std::int64_t> outside;
    for (std::int64_t i = 0; i < axis.wanted; ++i) {
      const double at = place(rule, axis, i);
      outside.push_back(at < 0 || at > static_cast<double>(axis.size - 1));
    }
    Shape shape = Shape::filled(x.rank(), 1);
    shape[axis.dim] = axis.wanted;
    x = op::masked_fill(x, op::cast(tern::tensor(outside, shape), DType::boolean), rule.outside);
  }
  return x;
}

Results resize(const Call& call) {
  const Tensor& x = call.input(0);
  const bool old = call.opset() < 11;
  Rule rule{.mode = call.text("mode", "nearest"),
            .coordinates = call.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
            .nearest = call.text("nearest_mode", old ? "floor" : "round_prefer_floor"),
            .cubic = call.number("cubic_coeff_a", -0.75),
            .outside = call.number("extrapolation_value", 0),
            .exclude_outside = call.integer("exclude_outside", 0) != 0,
            .antialias = call.integer("antialias", 0) != 0};
  if (rule.mode == "bilinear") rule.mode = "linear";
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic")
    call.refuse(message("has mode '", rule.mode, "'"), "nearest, linear or cubic");
  if (rule.mode == "nearest") rule.antialias = false;
  const int of_roi = old ? -1 : 1, of_scales = old ? 1 : 2, of_sizes = old ? -1 : 3;
  Integers dims = call.integers("axes");
  if (dims.empty()) {
    dims.resize(static_cast<std::size_t>(x.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  }
  const auto values = [&](int input) {
    return input >= 0 && call.has(input) && call.input(input).numel() > 0 ? call.known_numbers(input)
                                                                          : std::vector<double>{};
  };
  const bool crops = rule.coordinates == "tf_crop_and_resize";
  const std::vector<double> roi = crops ? values(of_roi) : std::vector<double>{};
  const bool upsample_attribute = call.type() == "Upsample" && call.opset() < 9;
  const std::vector<double> scales = upsample_attribute ? call.numbers("scales") : values(of_scales);
  const std::vector<double> sizes = values(of_sizes);
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  const std::size_t count = dims.size();
  if ((scales.size() != count && sizes.size() != count) || (crops && roi.size() != 2 * count))
    call.refuse(message("has ", scales.size(), " scales and ", sizes.size(), " sizes for ", count, " axes"),
                "repair the file");
  std::vector<Axis> axes;
  double common = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Axis axis{.dim = axis_of(call, dims[i], x.rank())};
    axis.size = x.size(axis.dim);
    if (crops) {
      axis.begin = roi[i];
      axis.end = roi[count + i];
    }
    if (!sizes.empty()) {
      axis.wanted = static_cast<std::int64_t>(std::clamp(sizes[i], 0.0, 1e15));
      axis.scale = static_cast<double>(axis.wanted) / static_cast<double>(std::max<std::int64_t>(axis.size, 1));
      common = i == 0                   ? axis.scale
               : policy == "not_larger" ? std::min(common, axis.scale)
                                        : std::max(common, axis.scale);
    } else {
      axis.scale = scales[i];
      if (!(axis.scale > 0) || axis.scale > 1e6) call.refuse(message("has a scale of ", axis.scale), "repair the file");
      axis.wanted = static_cast<std::int64_t>(
          std::floor(static_cast<double>(axis.size) * (crops ? axis.end - axis.begin : 1) * axis.scale));
    }
    axes.push_back(axis);
  }
  if (!sizes.empty() && policy != "stretch")
    for (Axis& axis : axes) {
      axis.scale = common;
      axis.wanted = static_cast<std::int64_t>(std::floor(common * static_cast<double>(axis.size) + 0.5));
    }
  std::erase_if(axes, [&](const Axis& axis) {
    return axis.wanted == axis.size && axis.scale == 1 && (!crops || (axis.begin == 0 && axis.end == 1));
  });
  return {resized(call, x, rule, axes)};
}

}  // namespace

void append_resizing(Table& table) {
  table["Resize"] = resize;
  table["Upsample"] = resize;
}

}  // namespace tern::onnx

// Resizing, sampling at positions, boxes, and what picks elements by their values.

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/writer.hpp"
#include "tern/operators/resizing.hpp"
#include "tern/operators/sampling.hpp"
#include "tern/operators/scattering.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

Tensor floats(const std::vector<double>& values) {
  return tensor(std::vector<float>(values.begin(), values.end()), {static_cast<std::int64_t>(values.size())});
}

const char* name_of(op::Coordinates rule) {
  switch (rule) {
    case op::Coordinates::half_pixel:
      return "half_pixel";
    case op::Coordinates::half_pixel_symmetric:
      return "half_pixel_symmetric";
    case op::Coordinates::pytorch_half_pixel:
      return "pytorch_half_pixel";
    case op::Coordinates::align_corners:
      return "align_corners";
    case op::Coordinates::asymmetric:
      return "asymmetric";
    case op::Coordinates::crop:
      return "tf_crop_and_resize";
  }
  throw Refusal("has unknown coordinates", "");
}
const char* name_of(op::Nearest rule) {
  switch (rule) {
    case op::Nearest::round_prefer_floor:
      return "round_prefer_floor";
    case op::Nearest::round_prefer_ceil:
      return "round_prefer_ceil";
    case op::Nearest::floor:
      return "floor";
    case op::Nearest::ceil:
      return "ceil";
  }
  throw Refusal("has an unknown rule of rounding", "");
}
const char* name_of(op::Resize mode) {
  return mode == op::Resize::nearest ? "nearest" : mode == op::Resize::linear ? "linear" : "cubic";
}

void resize(const Step& step) {
  const auto options = step.attribute<op::ResizeOptions>(1);
  std::vector<AttributeProto> attributes{make_attribute("mode", name_of(options.mode)),
                                         make_attribute("coordinate_transformation_mode", name_of(options.coordinates)),
                                         make_attribute("nearest_mode", name_of(options.nearest)),
                                         make_attribute("cubic_coeff_a", options.cubic),
                                         make_attribute("exclude_outside", std::int64_t{options.exclude_outside}),
                                         make_attribute("antialias", std::int64_t{options.antialias}),
                                         make_attribute("extrapolation_value", options.extrapolation)};
  const std::string roi = options.roi.empty() ? "" : step.out.constant(floats(options.roi));
  if (options.scales.empty()) {
    step.out.add("Resize", {step.inputs[0], roi, "", step.out.sizes(step.result().shape)}, step.results,
                 std::move(attributes));
    return;
  }
  // Sizes follow from scales.
  const auto &before = step.value(0).shape, &after = step.result().shape;
  for (std::size_t d = 0; d < options.scales.size(); ++d) {
    const bool same = before[d] == after[d] && options.scales[d] == 1;
    const auto scaled = std::floor(static_cast<double>(before[d].fixed) * static_cast<float>(options.scales[d]));
    if (!same && (before[d].each != 0 || scaled != static_cast<double>(after[d].fixed)))
      throw Refusal(message("has a scale of ", options.scales[d], " that does not give the size"), "");
  }
  step.out.add("Resize", {step.inputs[0], roi, step.out.constant(floats(options.scales))}, step.results,
               std::move(attributes));
}

void grid_sample(const Step& step) {
  const auto options = step.attribute<op::GridSampleOptions>();
  const char* around = options.padding == op::Around::zeros    ? "zeros"
                       : options.padding == op::Around::border ? "border"
                                                               : "reflection";
  step.out.add("GridSample", step.inputs, step.results,
               {make_attribute("mode", name_of(options.mode)), make_attribute("padding_mode", around),
                make_attribute("align_corners", std::int64_t{options.align_corners})});
}

void roi_align(const Step& step) {
  const auto output = step.attribute<Pair>(0);
  const auto options = step.attribute<op::RoiAlignOptions>(1);
  step.out.add(
      "RoiAlign", step.inputs, step.results,
      {make_attribute("output_height", output.h), make_attribute("output_width", output.w),
       make_attribute("sampling_ratio", options.sampling_ratio), make_attribute("spatial_scale", options.spatial_scale),
       make_attribute("mode", options.max ? "max" : "avg"),
       make_attribute("coordinate_transformation_mode", options.aligned ? "half_pixel" : "output_half_pixel")});
}

void non_max_suppression(const Step& step) {
  const auto options = step.attribute<op::NonMaxSuppressionOptions>();
  const std::int64_t most = std::min<std::int64_t>(options.most, std::numeric_limits<std::int32_t>::max());
  Writer::Names inputs{step.inputs[0], step.inputs[1], step.out.integers({most}),
                       step.out.constant(floats({options.iou}))};
  if (options.score) inputs.push_back(step.out.constant(floats({*options.score})));
  step.out.add("NonMaxSuppression", inputs, step.results,
               {make_attribute("center_point_box", std::int64_t{options.centres})});
}

void check_dtype(const Step& step) {
  if (step.value(0).dtype == DType::bfloat16) throw Refusal("has elements of bfloat16", "ONNX's operator takes others");
}
void compress(const Step& step) {
  check_dtype(step);
  std::vector<AttributeProto> attributes;
  if (const auto dim = step.attribute<std::optional<std::int64_t>>()) attributes = {make_attribute("axis", *dim)};
  step.out.add("Compress", step.inputs, step.results, std::move(attributes));
}

void unique(const Step& step) {
  check_dtype(step);
  const auto options = step.attribute<op::UniqueOptions>();
  std::vector<AttributeProto> attributes{make_attribute("sorted", std::int64_t{options.sorted})};
  if (options.dim) attributes.push_back(make_attribute("axis", *options.dim));
  step.out.add("Unique", step.inputs, step.results, std::move(attributes));
}

}  // namespace

void append_written_sampling(EmitTable& table) {
  table["resize"] = resize;
  table["grid_sample"] = grid_sample;
  table["roi_align"] = roi_align;
  table["non_max_suppression"] = non_max_suppression;
  table["compress"] = compress;
  table["unique"] = unique;
  table["nonzero"] = [](const Step& step) {
    step.out.add("Transpose", {step.out.node("NonZero", step.inputs)}, step.results,
                 {make_attribute("perm", Integers{1, 0})});
  };
}

}  // namespace tern::onnx

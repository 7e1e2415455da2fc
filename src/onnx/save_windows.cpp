// Pools and transposed convolutions of one and three dimensions, blocks of pixels.

#include <numeric>

#include "onnx/writer_windows.hpp"
#include "tern/operators/patches.hpp"
#include "tern/operators/sequences.hpp"

namespace tern::onnx {

namespace {

void named(const Step& step, const std::string& value) { step.out.add("Identity", {value}, step.results); }

/// Windows of any number of dimensions.
struct Windowed {
  Integers kernel, stride, before, after, dilation;
  bool ceil = false;

  std::vector<AttributeProto> attributes() const {
    std::vector<AttributeProto> made{make_attribute("kernel_shape", kernel), make_attribute("strides", stride),
                                     make_attribute("pads", both(before, after)),
                                     make_attribute("ceil_mode", std::int64_t{ceil})};
    if (!dilation.empty()) made.push_back(make_attribute("dilations", dilation));
    return made;
  }
};

template <class Options, class Kernel>
Windowed windowed(const Kernel& kernel, const Options& options) {
  Windowed made{list(kernel),
                list(options.stride.value_or(kernel)),
                list(options.padding),
                list(options.end_padding.value_or(options.padding)),
                {},
                options.ceil_mode};
  if constexpr (requires { options.dilation; }) made.dilation = list(options.dilation);
  return made;
}
Windowed windowed(std::int64_t kernel, const op::Pool1dOptions& options) {
  return {{kernel},           {options.stride.value_or(kernel)},
          {options.padding},  {options.end_padding.value_or(options.padding)},
          {options.dilation}, options.ceil_mode};
}

/// Each `rank` is that of a batch.
template <class Kernel, class Options, int rank>
void max_pool(const Step& step) {
  const Batched batched(step, rank);
  const Windowed windows = windowed(step.attribute<Kernel>(0), step.attribute<Options>(1));
  named(step, batched.output(step.out.node("MaxPool", {batched.input()}, windows.attributes())));
}
/// ONNX counts positions in the whole tensor, not in each plane of it.
template <class Kernel, class Options, int rank>
void max_pool_with_indices(const Step& step) {
  const Batched batched(step, rank);
  const Windowed windows = windowed(step.attribute<Kernel>(0), step.attribute<Options>(1));
  std::int64_t plane = 1;
  for (int d = 2; d < rank; ++d) plane *= step.size(0, d - rank);
  const std::string values = step.out.fresh(), places = step.out.fresh();
  step.out.add("MaxPool", {batched.input()}, {values, places}, windows.attributes());
  step.out.add("Identity", {batched.output(values)}, {step.results[0]});
  const std::string own = step.out.node("Mod", {places, step.out.constant(full({}, double(plane), DType::int64))});
  step.out.add("Identity", {batched.output(own)}, {step.results[1]});
}
template <class Kernel, class Options, int rank>
void avg_pool(const Step& step) {
  const Batched batched(step, rank);
  const auto options = step.attribute<Options>(1);
  Windowed windows = windowed(step.attribute<Kernel>(0), options);
  windows.dilation.clear();
  std::vector<AttributeProto> attributes = windows.attributes();
  attributes.push_back(make_attribute("count_include_pad", std::int64_t{options.count_include_pad}));
  named(step, batched.output(step.out.node("AveragePool", {batched.input()}, std::move(attributes))));
}
void lp_pool2d(const Step& step) {
  const auto order = step.attribute<double>(0);
  if (order != static_cast<double>(static_cast<std::int64_t>(order)) || order < 1)
    throw Refusal(message("has the order ", order), "ONNX's LpPool has whole numbers");
  const Batched batched(step, 4);
  std::vector<AttributeProto> attributes =
      windowed(step.attribute<Pair>(1), step.attribute<op::LpPool2dOptions>(2)).attributes();
  attributes.push_back(make_attribute("p", static_cast<std::int64_t>(order)));
  named(step, batched.output(step.out.node("LpPool", {batched.input()}, std::move(attributes))));
}

/// Means over a grid of even windows.
template <class Output, int rank>
void adaptive_avg_pool(const Step& step) {
  const Integers outputs = list(step.attribute<Output>());
  const Batched batched(step, rank);
  Integers kernel;
  for (int d = 0; d < rank - 2; ++d) {
    const std::int64_t size = step.size(0, d - rank + 2), count = outputs[static_cast<std::size_t>(d)];
    if (size % count != 0) throw Refusal(message("makes ", count, " windows of ", size, ", which are not even"), "");
    kernel.push_back(size / count);
  }
  named(step,
        batched.output(step.out.node("AveragePool", {batched.input()},
                                     {make_attribute("kernel_shape", kernel), make_attribute("strides", kernel)})));
}

template <class Options, int rank>
void conv_transpose(const Step& step) {
  const auto options = step.attribute<Options>();
  const Batched batched(step, rank);
  Writer::Names inputs{batched.input(), step.inputs[1]};
  if (step.has(2)) inputs.push_back(step.inputs[2]);
  named(step,
        batched.output(step.out.node(
            "ConvTranspose", inputs,
            {make_attribute("strides", list(options.stride)), make_attribute("dilations", list(options.dilation)),
             make_attribute("group", options.groups), make_attribute("output_padding", list(options.output_padding)),
             make_attribute("pads", both(list(options.padding), list(options.padding)))})));
}

/// Of [N, C, H, W]; other ranks have several batches.
std::int64_t block_of(const Step& step) {
  if (step.rank() != 4) throw Refusal(message("has ", step.rank(), " dimensions"), "ONNX's blocks have four");
  return step.attribute<std::int64_t>();
}
void to_space(const Step& step, const char* mode) {
  step.out.add("DepthToSpace", step.inputs, step.results,
               {make_attribute("blocksize", block_of(step)), make_attribute("mode", mode)});
}
/// ONNX puts the pixel before the channel: [b b, C] becomes [C, b b].
void pixel_unshuffle(const Step& step) {
  const std::int64_t block = block_of(step), c = step.size(0, 1);
  const std::string made = step.out.node("SpaceToDepth", step.inputs, {make_attribute("blocksize", block)});
  const auto& shape = step.result().shape;
  const std::string apart =
      step.out.node("Reshape", {made, step.out.sizes({shape[0], {block * block, 0}, {c, 0}, shape[2], shape[3]})});
  const std::string turned = step.out.node("Transpose", {apart}, {make_attribute("perm", Integers{0, 2, 1, 3, 4})});
  step.out.add("Reshape", {turned, step.out.sizes(shape)}, step.results);
}

void fold(const Step& step) {
  step.fixed();
  const auto options = step.attribute<op::UnfoldOptions>(2);
  const Batched batched(step, 3);
  named(step, batched.output(step.out.node(
                  "Col2Im",
                  {batched.input(), step.out.integers(list(step.attribute<Pair>(0))),
                   step.out.integers(list(step.attribute<Pair>(1)))},
                  {make_attribute("dilations", list(options.dilation)), make_attribute("strides", list(options.stride)),
                   make_attribute("pads", both(list(options.padding), list(options.padding)))})));
}

}  // namespace

void append_written_windows(EmitTable& table) {
  table["max_pool1d"] = max_pool<std::int64_t, op::Pool1dOptions, 3>;
  table["max_pool3d"] = max_pool<Triple, op::MaxPool3dOptions, 5>;
  table["max_pool1d_with_indices"] = max_pool_with_indices<std::int64_t, op::Pool1dOptions, 3>;
  table["max_pool2d_with_indices"] = max_pool_with_indices<Pair, op::MaxPool2dOptions, 4>;
  table["max_pool3d_with_indices"] = max_pool_with_indices<Triple, op::MaxPool3dOptions, 5>;
  table["avg_pool1d"] = avg_pool<std::int64_t, op::Pool1dOptions, 3>;
  table["avg_pool3d"] = avg_pool<Triple, op::AvgPool3dOptions, 5>;
  table["adaptive_avg_pool1d"] = adaptive_avg_pool<std::int64_t, 3>;
  table["adaptive_avg_pool3d"] = adaptive_avg_pool<Triple, 5>;
  table["lp_pool2d"] = lp_pool2d;
  table["conv_transpose1d"] = conv_transpose<op::ConvTranspose1dOptions, 3>;
  table["conv_transpose3d"] = conv_transpose<op::ConvTranspose3dOptions, 5>;
  table["pixel_shuffle"] = [](const Step& step) { to_space(step, "CRD"); };
  table["depth_to_space"] = [](const Step& step) { to_space(step, "DCR"); };
  table["space_to_depth"] = [](const Step& step) {
    step.out.add("SpaceToDepth", step.inputs, step.results, {make_attribute("blocksize", block_of(step))});
  };
  table["pixel_unshuffle"] = pixel_unshuffle;
  table["fold"] = fold;
}

}  // namespace tern::onnx

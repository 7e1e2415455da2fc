#include "graph/quantize/layers.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "graph/passes/constants.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/pooling.hpp"
#include "tern/operators/shape.hpp"

namespace tern::graph::quantizing {

namespace {

bool is_constant(const Structure& structure, const Node& node, std::size_t from) {
  for (std::size_t i = from; i < node.inputs.size(); ++i)
    if (const int id = node.inputs[i]; id >= 0 && structure.values[id].kind != Kind::constant) return false;
  return true;
}

std::optional<Activation> own_activation(const Structure& structure, const Node& node) {
  if (!node.by_batch.empty() || !is_constant(structure, node, 1)) return {};
  if (structure.values[node.inputs[0]].dtype != DType::float32) return {};
  if (node.op->name() == "linear") return node.attributes.get<Activation>();
  if (node.op->name() != "conv2d" || structure.values[node.inputs[0]].shape.size() != 4) return {};
  const auto& options = node.attributes.get<operators::Conv2dOptions>();
  const Pair end = options.end_padding.value_or(options.padding);
  if (options.same_padding || end.h != options.padding.h || end.w != options.padding.w) return {};
  return options.activation;
}

bool is_bound(const Node& node) { return node.op->name() == "relu" || node.op->name() == "relu6"; }

}  // namespace

std::vector<Layer> find_layers(const Structure& structure) {
  const std::vector<int> uses = structure.uses();
  std::unordered_map<int, std::size_t> reader;  // the only one
  for (std::size_t i = 0; i < structure.nodes.size(); ++i)
    for (const int id : structure.nodes[i].inputs)
      if (id >= 0 && uses[id] == 1) reader[id] = i;
  std::vector<Layer> layers;
  std::vector<bool> taken(structure.nodes.size());
  const auto next_of = [&](int id) -> const Node* {
    const auto found = reader.find(id);
    return found == reader.end() || taken[found->second] ? nullptr : &structure.nodes[found->second];
  };
  // From the end: of two layers that meet at a sum the later one takes it.
  for (std::size_t i = structure.nodes.size(); i-- > 0;) {
    const Node& node = structure.nodes[i];
    const std::optional<Activation> activation = own_activation(structure, node);
    const bool clips = activation == Activation::relu || activation == Activation::relu6;
    if (!clips && activation != Activation::none) continue;
    Layer layer{.node = i, .last = i, .x = node.inputs[0], .result = node.results[0]};
    const auto take = [&](std::optional<std::size_t>& place, const Node* next) {
      place = reader[layer.result];
      taken[*place] = true;
      layer.last = *place;
      layer.result = next->results[0];
    };
    if (clips) {
      layer.low = 0.0;
      if (activation == Activation::relu6) layer.high = 6.0;
    } else {
      const Node* next = next_of(layer.result);
      if (next != nullptr && next->op->name() == "add" && node.op->name() == "conv2d" && next->inputs.size() == 2 &&
          next->inputs[0] != next->inputs[1]) {
        const int other = next->inputs[next->inputs[0] == layer.result ? 1 : 0];
        const auto& shape = structure.values[layer.result].shape;
        if (structure.values[other].shape == shape && structure.values[other].kind != Kind::constant) {
          layer.other = other;
          take(layer.add, next);
        }
      }
      next = next_of(layer.result);
      if (next != nullptr && is_bound(*next)) {
        layer.low = 0.0;
        if (next->op->name() == "relu6") layer.high = 6.0;
        take(layer.bound, next);
      }
    }
    layers.push_back(layer);
  }
  std::ranges::reverse(layers);
  return layers;
}

bool follows(const Structure& structure, const Node& node) {
  const std::string& name = node.op->name();
  if (name == "reshape" || name == "flatten") return true;
  if (!node.by_batch.empty() || node.results.empty()) return false;
  const std::size_t rank = structure.values[node.results[0]].shape.size();
  if (name == "adaptive_avg_pool2d") return rank == 4;
  if (name == "max_pool2d") return rank == 4 && !node.attributes.get<operators::MaxPool2dOptions>().end_padding;
  if (name == "avg_pool2d") return rank == 4 && !node.attributes.get<operators::AvgPool2dOptions>().end_padding;
  if (name == "add")
    return node.inputs.size() == 2 && structure.values[node.inputs[0]].shape == structure.values[node.inputs[1]].shape;
  if (name != "cat" || (rank != 2 && rank != 4)) return false;
  const auto dim = node.attributes.get<std::int64_t>();
  return dim == 1 || dim == 1 - static_cast<std::int64_t>(rank);
}

bool keeps_quantization(const Node& node) {
  const std::string& name = node.op->name();
  return name == "reshape" || name == "flatten" || name == "max_pool2d";
}

Weights quantized_weights(const Structure& structure, const Node& node, double x_scale) {
  Tensor weight = structure.values[node.inputs[1]].tensor;
  if (weight.rank() == 4) weight = operators::permute(weight, {0, 2, 3, 1});
  weight = weight.contiguous();
  const auto numbers = weight.read<float>();
  const auto outputs = static_cast<std::size_t>(weight.size(0));
  const std::size_t terms = outputs == 0 ? 0 : numbers.size() / outputs;
  Weights result{.weight = {}, .scale = {}, .sum = {}, .bias = std::vector<double>(outputs)};
  if (node.inputs.size() > 2 && node.inputs[2] >= 0) {
    result.bias = structure.values[node.inputs[2]].tensor.values();
  }
  std::vector<std::int8_t> stored(numbers.size());
  for (std::size_t o = 0; o < outputs; ++o) {
    double largest = 0;
    for (std::size_t i = o * terms; i < (o + 1) * terms; ++i)
      largest = std::max(largest, static_cast<double>(std::abs(numbers[i])));
    // The bias is an int32 in units of both scales: half of the range is its, for channels of very small weights.
    double scale = std::max({largest / 127, std::abs(result.bias[o]) / (x_scale * 0x1p30), 1e-30}), sum = 0;
    const auto store = [&] {  // and how large the sum with stored numbers up to 255 may become
      double above = 0, below = 0;
      for (std::size_t i = o * terms; i < (o + 1) * terms; ++i) {
        const double number = std::clamp(std::nearbyint(numbers[i] / scale), -127.0, 127.0);
        stored[i] = static_cast<std::int8_t>(number);
        (number > 0 ? above : below) += number;
      }
      sum = above + below;
      return 255 * std::max(above, -below);
    };
    // The other half is the sum's. Beyond some ten thousand terms the weights have to be smaller for that.
    double most = store();
    while (most > 0x1p30) {
      scale *= most / 0x1p30 + 1e-3;
      most = store();
    }
    result.scale.push_back(scale);
    result.sum.push_back(sum);
  }
  result.weight = tensor(stored, weight.shape());
  return result;
}

void emit_layer(Structure& structure, const Layer& layer, const Node& node, const LayerValues& values) {
  const auto& [x, other, as, result] = values;
  const Weights own = quantized_weights(structure, node, x.as.scale);
  std::vector<std::int32_t> bias;
  std::vector<float> scale;
  for (std::size_t o = 0; o < own.scale.size(); ++o) {
    const double unit = x.as.scale * own.scale[o];
    bias.push_back(
        static_cast<std::int32_t>(std::nearbyint(own.bias[o] / unit) - static_cast<double>(x.as.zero) * own.sum[o]));
    scale.push_back(static_cast<float>(unit / (as ? as->scale : 1)));
  }
  const auto constant = [&](const char* name, const Tensor& tensor) {
    return add_constant(structure, node, name, tensor);
  };
  const auto outputs = static_cast<std::int64_t>(scale.size());
  std::vector<int> inputs{x.value, constant("weight_int8", own.weight), constant("bias_int32", tensor(bias, {outputs})),
                          constant("scale", tensor(scale, {outputs}))};
  // Stored bounds, or real ones.
  const auto bound = [&stored = as](std::optional<double> real, double beyond) -> std::optional<double> {
    if (!real || !stored) return real;
    return std::clamp(std::nearbyint(*real / stored->scale) + static_cast<double>(stored->zero), 0.0, beyond);
  };
  std::optional<double> low = bound(layer.low, 255), high = bound(layer.high, 255);
  if (low && *low == 0 && as) low.reset();
  if (high && *high == 255 && as) high.reset();
  const DType dtype = as ? DType::uint8 : DType::float32;
  const std::int64_t zero = as ? as->zero : 0;
  if (node.op->name() == "linear") {
    const operators::QuantizedLinearOptions options{
        .x_zero = x.as.zero, .dtype = dtype, .zero = zero, .low = low, .high = high};
    structure.nodes.push_back({&operators::op("quantized_linear"),
                               operators::Attributes({std::any(options)}),
                               {},
                               inputs,
                               {result},
                               node.module});
    return;
  }
  const auto& conv = node.attributes.get<operators::Conv2dOptions>();
  operators::QuantizedConv2dOptions options{.stride = conv.stride,
                                            .padding = conv.padding,
                                            .dilation = conv.dilation,
                                            .groups = conv.groups,
                                            .x_zero = x.as.zero,
                                            .dtype = dtype,
                                            .zero = zero,
                                            .low = low,
                                            .high = high};
  if (other.value >= 0) {
    inputs.push_back(other.value);
    options.other_zero = other.as.zero;
    options.other_scale = other.as.scale / as->scale;
  }
  structure.nodes.push_back({&operators::op("quantized_conv2d"),
                             operators::Attributes({std::any(options)}),
                             {},
                             inputs,
                             {result},
                             node.module});
}

}  // namespace tern::graph::quantizing

#include <algorithm>

#include "graph/passes/layers.hpp"
#include "graph/passes/statistics.hpp"
#include "tern/operators/conv.hpp"

namespace tern::graph {

namespace {

using operators::Conv2dOptions;

/// What a value is of its source: normalisation(convolution(source)), with either or neither of them.
struct Branch {
  int source = -1;
  const Node *conv = nullptr, *norm = nullptr;
  std::vector<std::size_t> nodes = {};  ///< that make it
};

struct Kernel {
  Shape shape;  ///< [O, C, KH, KW]
  Numbers weight, bias;
};

Branch branch_of(const Layers& layers, int id) {
  const Node* const made = layers.only(id);
  if (made != nullptr && layers.is_conv(*made)) return {made->inputs[0], made, nullptr, {layers.place(*made)}};
  if (made == nullptr || !layers.is_norm(*made)) return {id};
  const Node* const before = layers.only(made->inputs[0]);
  if (before == nullptr || !layers.is_conv(*before)) return {made->inputs[0], nullptr, made, {layers.place(*made)}};
  return {before->inputs[0], before, made, {layers.place(*before), layers.place(*made)}};
}

/// Where the taps of `branch` lie in the kernel of `target`, for the same outputs; none where they do not.
std::optional<Pair> offset(const Layers& layers, const Branch& branch, const Node& target) {
  const auto symmetric = [](const Conv2dOptions& options) { return !options.end_padding && !options.same_padding; };
  const auto one = [](Pair pair) { return pair.h == 1 && pair.w == 1; };
  const auto& options = target.attributes.get<Conv2dOptions>();
  const Tensor& weight = layers.value(target.inputs[1]).tensor;
  Pair padding = 0, taps = 1, stride = 1;
  if (!symmetric(options) || !one(options.dilation)) return {};
  if (branch.conv == nullptr) {
    if (weight.size(1) * options.groups != weight.size(0)) return {};
  } else {
    const auto& own = branch.conv->attributes.get<Conv2dOptions>();
    const Tensor& small = layers.value(branch.conv->inputs[1]).tensor;
    padding = own.padding;
    stride = own.stride;
    taps = {small.size(2), small.size(3)};
    if (!symmetric(own) || !(one(own.dilation) || one(taps)) || own.groups != options.groups) return {};
  }
  if (stride.h != options.stride.h || stride.w != options.stride.w) return {};
  const Pair at{options.padding.h - padding.h, options.padding.w - padding.w};
  if (at.h < 0 || at.w < 0 || at.h + taps.h > weight.size(2) || at.w + taps.w > weight.size(3)) return {};
  return at;
}

/// Adds a branch, whose taps begin at `at`.
void add(const Layers& layers, Kernel& to, const Branch& branch, Pair at, double sign) {
  auto& [shape, weight, bias] = to;
  const auto outputs = static_cast<std::size_t>(shape[0]);
  Numbers scale(outputs, sign), shift(outputs);
  if (branch.norm != nullptr) {
    const ScaleShift norm = scale_shift(*branch.norm, [&](std::size_t i) {
      const int id = branch.norm->inputs[i];
      return id < 0 ? Tensor{} : layers.value(id).tensor;
    });
    for (std::size_t o = 0; o < outputs; ++o) {
      scale[o] = sign * norm.scale[o];
      shift[o] = sign * norm.shift[o];
    }
  }
  const Tensor* const own = branch.conv == nullptr ? nullptr : &layers.value(branch.conv->inputs[1]).tensor;
  const Numbers taps = own == nullptr ? Numbers{} : own->values();
  const Numbers start = own == nullptr ? Numbers(outputs) : layers.bias_of(*branch.conv, shape[0]);
  const std::int64_t KH = own == nullptr ? 1 : own->size(2), KW = own == nullptr ? 1 : own->size(3);
  for (std::int64_t o = 0; o < shape[0]; ++o) {
    const auto output = static_cast<std::size_t>(o);
    bias[output] += scale[output] * start[output] + shift[output];
    for (std::int64_t c = 0; c < shape[1]; ++c)
      for (std::int64_t h = 0; h < KH; ++h)
        for (std::int64_t w = 0; w < KW; ++w) {
          const std::int64_t place = ((o * shape[1] + c) * shape[2] + at.h + h) * shape[3] + at.w + w;
          const std::int64_t from = ((o * shape[1] + c) * KH + h) * KW + w;
          const double tap = own == nullptr ? double(c == o % shape[1]) : taps[static_cast<std::size_t>(from)];
          weight[static_cast<std::size_t>(place)] += scale[output] * tap;
        }
  }
}

}  // namespace

bool merge_branches(Layers& layers, Node& node, double sign) {
  const Branch first = branch_of(layers, node.inputs[0]), second = branch_of(layers, node.inputs[1]);
  if (first.source != second.source || layers.value(node.inputs[0]).shape != layers.value(node.inputs[1]).shape)
    return false;
  for (const Branch* branch : {&first, &second}) {
    if (branch->conv == nullptr) continue;
    const Node target = *branch->conv;
    const auto a = offset(layers, first, target), b = offset(layers, second, target);
    if (!a || !b) continue;
    const Shape shape = layers.value(target.inputs[1]).tensor.shape();
    Kernel kernel{shape, Numbers(static_cast<std::size_t>(element_count(shape))),
                  Numbers(static_cast<std::size_t>(shape[0]))};
    add(layers, kernel, first, *a, 1);
    add(layers, kernel, second, *b, sign);
    layers.become(node, target, first.source, kernel.weight, kernel.bias);
    for (const Branch* part : {&first, &second})
      for (const std::size_t i : part->nodes) layers.remove(i);
    return true;
  }
  return false;
}

}  // namespace tern::graph

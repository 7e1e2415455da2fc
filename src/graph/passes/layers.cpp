// What follows a layer and is linear becomes part of its weight and bias: scales and shifts of its outputs, and sums of
// layers that read the same value, as in blocks that train several branches and run as one. Computed in float64.

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "graph/passes/constants.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::graph {

namespace {

using operators::Conv2dOptions;
using Numbers = std::vector<double>;

/// What a value is of its source: normalisation(convolution(source)), with either or neither of them.
struct Branch {
  int source = -1;
  const Node *conv = nullptr, *norm = nullptr;
  std::vector<std::size_t> nodes = {};  ///< that make it
};

class Layers {
 public:
  explicit Layers(Structure& structure) : structure_(structure), uses_(structure.uses()) {}

  void run() {
    gone_.resize(structure_.nodes.size());
    for (std::size_t i = 0; i < structure_.nodes.size(); ++i) {
      Node& node = structure_.nodes[i];
      const bool plain = node.by_batch.empty() && node.inputs.size() == 2 && node.results.size() == 1;
      const std::string_view name = node.op->name();
      if (plain && name == "mul") scale(node);
      if (plain && (name == "add" || name == "sub")) {
        const double sign = name == "add" ? 1 : -1;
        if (!shift(node, sign)) sum(node, sign);
      }
      for (const int id : node.results) maker_[id] = i;
    }
    std::size_t i = 0;
    std::erase_if(structure_.nodes, [&](const Node&) { return gone_[i++]; });
    remove_dead(structure_);
  }

 private:
  const Value& value(int id) const { return structure_.values[static_cast<std::size_t>(id)]; }

  const Tensor* constant(int id) const {
    if (id < 0 || value(id).kind != Kind::constant || value(id).dtype != DType::float32) return nullptr;
    return &value(id).tensor;
  }

  /// The node that makes a value; null where others read that, too.
  const Node* only(int id) const {
    const auto made = maker_.find(id);
    return id < 0 || made == maker_.end() || uses_[static_cast<std::size_t>(id)] != 1 ? nullptr
                                                                                      : &structure_.nodes[made->second];
  }
  std::size_t place(const Node& node) const { return static_cast<std::size_t>(&node - structure_.nodes.data()); }

  bool has_weights(const Node& node) const {
    return node.by_batch.empty() && node.inputs.size() >= 2 && constant(node.inputs[1]) != nullptr &&
           (node.inputs.size() < 3 || node.inputs[2] < 0 || constant(node.inputs[2]) != nullptr);
  }
  bool is_conv(const Node& node) const {
    return node.op->name() == "conv2d" && has_weights(node) &&
           node.attributes.get<Conv2dOptions>().activation == Activation::none;
  }
  bool is_linear(const Node& node) const {
    return node.op->name() == "linear" && has_weights(node) && node.attributes.get<Activation>() == Activation::none;
  }
  bool is_norm(const Node& node) const {
    if (node.op->name() != "batch_norm" || node.inputs.size() != 5 || !node.by_batch.empty()) return false;
    const auto& options = node.attributes.get<operators::BatchNormOptions>();
    const auto known = [&](int id) { return id < 0 || constant(id) != nullptr; };
    return !options.training && options.activation == Activation::none && value(node.inputs[0]).shape.size() == 4 &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(), known) && node.inputs[3] >= 0 && node.inputs[4] >= 0;
  }

  /// The numbers of a constant for each of `channels` outputs, which are `behind` dimensions before the last; none
  /// where it varies otherwise.
  std::optional<Numbers> by_channel(int id, std::int64_t channels, std::int64_t behind) const {
    const Tensor* const tensor = constant(id);
    if (tensor == nullptr) return {};
    if (tensor->numel() == 1) return Numbers(static_cast<std::size_t>(channels), tensor->item());
    const std::int64_t at = tensor->rank() - 1 - behind;
    if (tensor->numel() != channels || at < 0 || tensor->size(at) != channels) return {};
    return tensor->values();
  }
  std::int64_t channels_of(const Node& layer) const { return value(layer.inputs[1]).tensor.size(0); }
  static std::int64_t behind_of(const Node& layer) { return layer.op->name() == "linear" ? 0 : 2; }

  Numbers bias_of(const Node& layer) const {
    if (layer.inputs.size() < 3 || layer.inputs[2] < 0) return Numbers(static_cast<std::size_t>(channels_of(layer)));
    return value(layer.inputs[2]).tensor.values();
  }

  /// `node` computes what `layer` does, with this weight (or the same, if it is empty) and bias.
  void become(Node& node, const Node& layer, int source, const Numbers& weight, const Numbers& bias) {
    const auto made = [&](const char* name, const Numbers& numbers, const Shape& shape) {
      return add_constant(structure_, layer, name, tensor(numbers, shape).to(DType::float32));
    };
    std::vector<int> inputs = layer.inputs;
    inputs.resize(std::max<std::size_t>(inputs.size(), 3), -1);
    inputs[0] = source;
    if (!weight.empty()) inputs[1] = made("weight", weight, value(layer.inputs[1]).tensor.shape());
    inputs[2] = made("bias", bias, {static_cast<std::int64_t>(bias.size())});
    node.op = layer.op;
    node.attributes = layer.attributes;
    node.inputs = std::move(inputs);
    if (node.module.empty()) node.module = layer.module;
  }

  /// layer(x) * constant, or permute(layer(x)) * constant.
  void scale(Node& node) {
    for (const std::size_t side : {0U, 1U}) {
      const Node* made = only(node.inputs[side]);
      if (made == nullptr || value(node.inputs[side]).shape != value(node.results[0]).shape) continue;
      std::int64_t behind = behind_of(*made);
      const Node* moved = nullptr;
      if (made->op->name() == "permute" && made->by_batch.empty()) {
        const auto& order = made->attributes.get<std::vector<std::int64_t>>();
        const auto rank = static_cast<std::int64_t>(order.size());
        const auto last = std::find_if(order.begin(), order.end(), [&](auto d) { return d == rank - 1 || d == -1; });
        behind = order.end() - last - 1;
        moved = made;
        made = only(moved->inputs[0]);
        if (made == nullptr || !is_linear(*made) || last == order.end()) continue;
      }
      if (!is_conv(*made) && !is_linear(*made)) continue;
      const auto factors = by_channel(node.inputs[1 - side], channels_of(*made), behind);
      if (!factors) continue;
      Numbers weight = value(made->inputs[1]).tensor.values(), bias = bias_of(*made);
      const std::size_t each = weight.size() / bias.size();
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= (*factors)[i / each];
      for (std::size_t o = 0; o < bias.size(); ++o) bias[o] *= (*factors)[o];
      const std::size_t layer = place(*made);
      if (moved == nullptr) {
        become(node, *made, made->inputs[0], weight, bias);
        gone_[layer] = true;
        return;
      }
      Node scaled = *made;
      become(scaled, *made, made->inputs[0], weight, bias);
      structure_.nodes[layer] = scaled;
      const std::size_t permutes = place(*moved);
      node.op = moved->op;
      node.attributes = moved->attributes;
      node.inputs = moved->inputs;
      gone_[permutes] = true;
      return;
    }
  }

  /// layer(x) + constant.
  bool shift(Node& node, double sign) {
    for (const std::size_t side : {0U, 1U}) {
      const Node* const made = only(node.inputs[side]);
      if (made == nullptr || value(node.inputs[side]).shape != value(node.results[0]).shape) continue;
      if ((side == 1 && sign < 0) || (!is_conv(*made) && !is_norm(*made))) continue;  // not constant - layer(x)
      const std::int64_t channels = value(made->inputs[is_norm(*made) ? 3 : 1]).tensor.size(0);
      const auto more = by_channel(node.inputs[1 - side], channels, 2);
      if (!more) continue;
      Numbers bias(static_cast<std::size_t>(channels));
      if (made->inputs.size() > 2 && made->inputs[2] >= 0) bias = value(made->inputs[2]).tensor.values();
      for (std::size_t o = 0; o < bias.size(); ++o) bias[o] += sign * (*more)[o];
      const std::size_t layer = place(*made);
      become(node, *made, made->inputs[0], {}, bias);
      gone_[layer] = true;
      return true;
    }
    return false;
  }

  Branch branch_of(int id) const {
    const Node* const made = only(id);
    if (made != nullptr && is_conv(*made)) return {made->inputs[0], made, nullptr, {place(*made)}};
    if (made == nullptr || !is_norm(*made)) return {id};
    const Node* const before = only(made->inputs[0]);
    if (before == nullptr || !is_conv(*before)) return {made->inputs[0], nullptr, made, {place(*made)}};
    return {before->inputs[0], before, made, {place(*before), place(*made)}};
  }

  /// Where the taps of `branch` lie in the kernel of `target`, for the same outputs; none where they do not.
  std::optional<Pair> offset(const Branch& branch, const Node& target) const {
    const auto symmetric = [](const Conv2dOptions& options) { return !options.end_padding && !options.same_padding; };
    const auto one = [](Pair pair) { return pair.h == 1 && pair.w == 1; };
    const auto& options = target.attributes.get<Conv2dOptions>();
    const Tensor& weight = value(target.inputs[1]).tensor;
    Pair padding = 0, taps = 1, stride = 1;
    if (!symmetric(options) || !one(options.dilation)) return {};
    if (branch.conv == nullptr) {
      if (weight.size(1) * options.groups != weight.size(0)) return {};
    } else {
      const auto& own = branch.conv->attributes.get<Conv2dOptions>();
      const Tensor& small = value(branch.conv->inputs[1]).tensor;
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

  /// Adds a branch to a kernel [O, C, KH, KW] and its bias.
  void add(Numbers& weight, Numbers& bias, const Shape& shape, const Branch& branch, Pair at, double sign) const {
    const auto outputs = static_cast<std::size_t>(shape[0]);
    Numbers scale(outputs, sign), shift(outputs);
    if (branch.norm != nullptr) {
      const auto of = [&](std::size_t i, double absent) {
        const int id = branch.norm->inputs[i];
        return id < 0 ? Numbers(outputs, absent) : value(id).tensor.values();
      };
      const Numbers gain = of(1, 1), offset = of(2, 0), mean = of(3, 0), variance = of(4, 1);
      const double epsilon = branch.norm->attributes.get<operators::BatchNormOptions>().epsilon;
      for (std::size_t o = 0; o < outputs; ++o) {
        scale[o] = sign * gain[o] / std::sqrt(variance[o] + epsilon);
        shift[o] = sign * offset[o] - mean[o] * scale[o];
      }
    }
    const Tensor* const own = branch.conv == nullptr ? nullptr : &value(branch.conv->inputs[1]).tensor;
    const Numbers taps = own == nullptr ? Numbers{} : own->values();
    const Numbers start = own == nullptr ? Numbers(outputs) : bias_of(*branch.conv);
    const std::int64_t KH = own == nullptr ? 1 : own->size(2), KW = own == nullptr ? 1 : own->size(3);
    for (std::int64_t o = 0; o < shape[0]; ++o) {
      const auto output = static_cast<std::size_t>(o);
      bias[output] += scale[output] * start[output] + shift[output];
      for (std::int64_t c = 0; c < shape[1]; ++c)
        for (std::int64_t h = 0; h < KH; ++h)
          for (std::int64_t w = 0; w < KW; ++w) {
            const std::int64_t to = ((o * shape[1] + c) * shape[2] + at.h + h) * shape[3] + at.w + w;
            const std::int64_t from = ((o * shape[1] + c) * KH + h) * KW + w;
            const double tap = own == nullptr ? double(c == o % shape[1]) : taps[static_cast<std::size_t>(from)];
            weight[static_cast<std::size_t>(to)] += scale[output] * tap;
          }
    }
  }

  /// The sum or difference of two branches of one source is the convolution that holds the taps of both.
  void sum(Node& node, double sign) {
    const Branch first = branch_of(node.inputs[0]), second = branch_of(node.inputs[1]);
    if (first.source != second.source || value(node.inputs[0]).shape != value(node.inputs[1]).shape) return;
    for (const Branch* branch : {&first, &second}) {
      if (branch->conv == nullptr) continue;
      const Node target = *branch->conv;
      const auto a = offset(first, target), b = offset(second, target);
      if (!a || !b) continue;
      const Shape shape = value(target.inputs[1]).tensor.shape();
      Numbers weight(static_cast<std::size_t>(element_count(shape))), bias(static_cast<std::size_t>(shape[0]));
      add(weight, bias, shape, first, *a, 1);
      add(weight, bias, shape, second, *b, sign);
      become(node, target, first.source, weight, bias);
      for (const Branch* part : {&first, &second})
        for (const std::size_t i : part->nodes) gone_[i] = true;
      return;
    }
  }

  Structure& structure_;
  std::vector<int> uses_;
  std::vector<bool> gone_;
  std::unordered_map<int, std::size_t> maker_;
};

}  // namespace

void merge_layers(Structure& structure) {
  const NoGrad no_grad;
  freeze(structure);
  join_linear(structure);
  Layers(structure).run();
}

}  // namespace tern::graph

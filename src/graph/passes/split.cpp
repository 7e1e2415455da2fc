#include "graph/passes/split.hpp"

#include "tern/graph/passes.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::graph {

namespace {

using operators::Attributes;

/// Takes the nodes of a structure one by one and writes others.
class Splitter {
 public:
  explicit Splitter(Structure& structure) : structure_(structure) {}

  void run() {
    std::vector<Node> old = std::move(structure_.nodes);
    for (Node& node : old) {
      node_ = &node;
      const std::string& name = node.op->name();
      if (!node.by_batch.empty())
        made_.push_back(std::move(node));
      else if (name == "batch_norm" && node.inputs.size() == 6 && !trains())
        split_sum();
      else if (name == "conv2d_add" && node.inputs.size() == 4)
        split_added();
      else if (name == "conv2d_max_pool2d")
        split_pool();
      else if (name == "conv2d_cat")
        split_cat();
      else if (name == "inverted_residual")
        split_residual();
      else
        made_.push_back(std::move(node));
    }
    structure_.nodes = std::move(made_);
  }

 private:
  /// Sums know these alone.
  static const char* name_of(Activation activation) { return activation == Activation::relu6 ? "relu6" : "relu"; }
  bool trains() const { return node_->attributes.get<operators::BatchNormOptions>().training; }
  /// A value like the node's result, but for its second size.
  int between(std::int64_t channels = -1) {
    Value value = structure_.values[node_->results[0]];
    value.name = "%between";
    if (channels >= 0) value.shape[1] = {channels, 0};
    return structure_.add(std::move(value));
  }
  void emit(const char* op, Attributes attributes, std::vector<int> inputs, int result) {
    made_.push_back({&operators::op(op), std::move(attributes), {}, std::move(inputs), {result}, node_->module});
  }

  void split_sum() {
    operators::BatchNormOptions options = node_->attributes.get<operators::BatchNormOptions>();
    const Activation activation = options.activation;
    options.activation = Activation::none;
    const bool activates = activation != Activation::none;
    const int normal = between(), sum = activates ? between() : node_->results[0];
    std::vector<int> own = node_->inputs;
    const int added = own.back();
    own.pop_back();
    emit("batch_norm", node_->attributes.with(options), own, normal);
    emit("add", Attributes(), {normal, added}, sum);
    if (activates) emit(name_of(activation), Attributes(), {sum}, node_->results[0]);
  }

  void split_added() {
    operators::Conv2dOptions options = node_->attributes.get<operators::Conv2dOptions>();
    const Activation activation = options.activation;
    options.activation = Activation::none;
    const bool activates = activation != Activation::none;
    const int own = between(), sum = activates ? between() : node_->results[0];
    std::vector<int> inputs(node_->inputs.begin(), node_->inputs.end() - 1);
    if (inputs.back() == -1) inputs.pop_back();
    emit("conv2d", node_->attributes.with(options), inputs, own);
    emit("add", Attributes(), {own, node_->inputs.back()}, sum);
    if (activates) emit(name_of(activation), Attributes(), {sum}, node_->results[0]);
  }

  void split_pool() {
    const auto& options = node_->attributes.get<operators::Conv2dOptions>();
    Value value = structure_.values[node_->results[0]];
    // The convolution's own size: that of its input and its weight.
    const Value &x = structure_.values[node_->inputs[0]], &weight = structure_.values[node_->inputs[1]];
    const auto size = [&](int d, std::int64_t stride, std::int64_t pad, std::int64_t end, std::int64_t dilation) {
      return Linear{(x.shape[d].fixed + pad + end - dilation * (weight.shape[d].fixed - 1) - 1) / stride + 1, 0};
    };
    const Pair end = options.end_padding.value_or(options.padding);
    if (options.same_padding || x.shape.size() != 4 || x.shape[2].each != 0 || x.shape[3].each != 0) {
      made_.push_back(std::move(*node_));
      return;
    }
    value.name = "%between";
    value.shape[2] = size(2, options.stride.h, options.padding.h, end.h, options.dilation.h);
    value.shape[3] = size(3, options.stride.w, options.padding.w, end.w, options.dilation.w);
    const int whole = structure_.add(std::move(value));
    emit("conv2d", node_->attributes, node_->inputs, whole);
    emit("max_pool2d", Attributes({std::any(Pair(2)), std::any(operators::MaxPool2dOptions{})}), {whole},
         node_->results[0]);
  }

  void split_cat() {
    const auto options = node_->attributes.get<std::vector<operators::Conv2dOptions>>();
    std::vector<int> tensors = node_->inputs, parts;
    tensors.resize(3 * options.size(), -1);
    for (std::size_t i = 0; i < options.size(); ++i) {
      std::vector<int> own(tensors.begin() + static_cast<std::ptrdiff_t>(3 * i),
                           tensors.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
      if (own.back() == -1) own.pop_back();
      parts.push_back(between(structure_.values[own[1]].shape[0].fixed));
      emit("conv2d", Attributes({std::any(options[i])}), own, parts.back());
    }
    emit("cat", Attributes({std::any(std::int64_t{1})}), parts, node_->results[0]);
  }

  void split_residual() {
    const auto& options = node_->attributes.get<operators::InvertedResidualOptions>();
    std::vector<int> in = node_->inputs;
    in.resize(8, -1);
    const auto convolve = [&](int x, std::size_t weight, const operators::Conv2dOptions& own, int result) {
      std::vector<int> inputs{x, in[weight]};
      if (in[weight + 1] >= 0) inputs.push_back(in[weight + 1]);
      emit("conv2d", Attributes({std::any(own)}), inputs, result);
      return result;
    };
    const std::int64_t middle = structure_.values[in[3]].shape[0].fixed;
    int x = in[0];
    if (in[1] >= 0) {
      const int wide = between(middle);
      for (const int d : {2, 3}) structure_.values[wide].shape[d] = structure_.values[x].shape[d];
      x = convolve(x, 1, {.activation = options.expand}, wide);
    }
    x = convolve(
        x, 3, {.stride = options.stride, .padding = options.padding, .groups = middle, .activation = options.depthwise},
        between(middle));
    if (in[7] < 0) {
      convolve(x, 5, {.activation = options.project}, node_->results[0]);
      return;
    }
    const bool activates = options.project != Activation::none;
    const int sum = activates ? between() : node_->results[0];
    emit("add", Attributes(), {convolve(x, 5, {}, between()), in[7]}, sum);
    if (activates) emit(name_of(options.project), Attributes(), {sum}, node_->results[0]);
  }

  Structure& structure_;
  Node* node_ = nullptr;
  std::vector<Node> made_;
};

}  // namespace

void split_fused(Structure& structure) { Splitter(structure).run(); }

}  // namespace tern::graph

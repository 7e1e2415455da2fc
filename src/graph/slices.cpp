#include "graph/slices.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "tern/graph/passes.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/shape.hpp"

namespace tern::graph {

namespace {

// Operators whose results for an image [C, H, W] depend on that image alone.
const std::set<std::string_view> by_image{"conv2d",
                                          "conv2d_add",
                                          "conv2d_max_pool2d",
                                          "conv2d_cat",
                                          "inverted_residual",
                                          "max_pool2d",
                                          "avg_pool2d",
                                          "adaptive_avg_pool2d",
                                          "batch_norm",
                                          "local_response_norm",
                                          "relu",
                                          "relu6",
                                          "sigmoid",
                                          "tanh",
                                          "gelu",
                                          "silu",
                                          "hardswish",
                                          "add",
                                          "mul_add",
                                          "cat",
                                          "quantize",
                                          "dequantize",
                                          "quantized_conv2d",
                                          "quantized_conv2d_cat",
                                          "quantized_add",
                                          "quantized_cat",
                                          "quantized_max_pool2d",
                                          "quantized_avg_pool2d",
                                          "quantized_adaptive_avg_pool2d"};

bool holds_elements(const Value& value) { return value.tensor.defined(); }
bool are_images(const Value& value) {
  return value.shape.size() == 4 && value.shape[0] == Linear{0, 1} &&
         std::all_of(value.shape.begin() + 1, value.shape.end(), [](const Linear& size) { return size.each == 0; });
}

bool by_images(const Structure& structure, const Node& node) {
  if (!by_image.contains(node.op->name()) || node.op->effect(node.attributes) != operators::Effect::none) return false;
  if (node.op->name() == "cat" && node.attributes.get<std::int64_t>() % 4 == 0) return false;
  const auto images = [&](int id) { return id < 0 || are_images(structure.values[id]); };
  const auto fits = [&](int id) { return images(id) || holds_elements(structure.values[id]); };
  return !node.inputs.empty() && images(node.inputs[0]) && std::ranges::all_of(node.inputs, fits) &&
         std::ranges::all_of(node.results, images);
}

/// Bytes that live at each node, for a batch of n.
class LiveBytes {
 public:
  explicit LiveBytes(const Structure& structure)
      : structure_(structure), made_(structure.values.size(), -1), last_(made_) {
    const int count = static_cast<int>(structure.nodes.size());
    for (int i = 0; i < count; ++i) {
      for (const int id : structure.nodes[i].inputs)
        if (id >= 0) last_[id] = i;
      for (const int id : structure.nodes[i].results) made_[id] = last_[id] = i;
    }
    for (const int id : structure.results) last_[id] = count;
  }
  std::vector<std::size_t> at_nodes(std::int64_t n) const {
    std::vector<std::size_t> live(structure_.nodes.size());
    for (std::size_t id = 0; id < made_.size(); ++id)
      for (std::size_t i = static_cast<std::size_t>(made_[id]); made_[id] >= 0 && i < live.size() && lives(id, i); ++i)
        live[i] += bytes(id, n);
    // Most modes make the convolution's result first.
    for (std::size_t i = 0; i < live.size(); ++i)
      if (const Node& node = structure_.nodes[i]; node.op->name() == "conv2d_max_pool2d")
        live[i] += 4 * bytes(static_cast<std::size_t>(node.results[0]), n);
    return live;
  }
  bool lives(std::size_t id, std::size_t node) const { return static_cast<int>(node) <= last_[id]; }
  /// What the nodes before `node` make and others read.
  std::vector<int> across(std::size_t node) const {
    std::vector<int> ids;
    for (std::size_t id = 0; id < made_.size(); ++id)
      if (made_[id] >= 0 && made_[id] < static_cast<int>(node) && lives(id, node)) ids.push_back(static_cast<int>(id));
    return ids;
  }
  std::size_t bytes(std::size_t id, std::int64_t n) const {
    const Value& value = structure_.values[id];
    return byte_count(value.shape_at(n), size_of(value.dtype));
  }

 private:
  const Structure& structure_;
  std::vector<int> made_, last_;  // by nodes
};

/// The nodes before `node`, or from it on.
Graph part(const Structure& whole, std::size_t node, const std::vector<int>& across, bool head) {
  Structure made = whole;
  const auto middle = made.nodes.begin() + static_cast<std::ptrdiff_t>(node);
  if (head) {
    made.nodes.erase(middle, made.nodes.end());
    made.results = across;
  } else {
    made.nodes.erase(made.nodes.begin(), middle);
    for (const int id : across) made.values[id].kind = Kind::input;
    made.inputs.insert(made.inputs.end(), across.begin(), across.end());
  }
  remove_dead(made);
  return Graph(std::move(made));
}

/// A tensor for n images with the layout of this one.
Tensor for_images(const Tensor& slice, std::int64_t n) {
  Shape shape = slice.shape();
  shape[0] = n;
  if (slice.is_contiguous()) return Tensor(shape, slice.dtype());
  const std::size_t bytes = byte_count(shape, size_of(slice.dtype()));
  return {std::make_shared<Storage>(bytes), slice.dtype(), shape, slice.strides(), 0};
}

bool dense(const Tensor& images) {
  const Tensor last = operators::permute(images, {0, 2, 3, 1});
  return images.is_contiguous() || last.is_contiguous();
}

}  // namespace

std::vector<Tensor> Slices::run_whole(const std::vector<Tensor>& inputs, AlgorithmChoices& choices) const {
  choices.begin(AlgorithmChoices::State::notes);
  std::vector<Tensor> all = inputs, across = head.run(inputs);
  choices.end();
  std::ranges::move(across, std::back_inserter(all));
  return tail.run(all);
}

std::vector<Tensor> Slices::run(const std::vector<Tensor>& inputs, AlgorithmChoices& choices, bool& other) const {
  std::vector<Tensor> all = inputs;
  const std::int64_t n = inputs[0].size(0);
  for (std::int64_t begin = 0; begin < n; begin += images) {
    const std::int64_t end = std::min(begin + images, n);
    std::vector<Tensor> some;
    for (const Tensor& input : inputs) some.push_back(input.slice(0, begin, end));
    choices.begin(AlgorithmChoices::State::repeats);
    some = head.run(some);
    if (!choices.end()) other = true;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!dense(some[i])) {
        other = true;
        some[i] = some[i].contiguous();
      }
      if (begin == 0) all.push_back(for_images(some[i], n));
      all[inputs.size() + i].slice(0, begin, end).copy_(some[i]);
      some[i] = Tensor{};
    }
  }
  return tail.run(all);
}

std::optional<Slices> sliced(const Graph& graph, std::int64_t n, std::size_t bytes) {
  const Structure& whole = graph.structure();
  const auto is_image = [&](int id) { return are_images(whole.values[id]); };
  if (n < 2 || whole.batch == 0 || whole.inputs.empty() || !std::ranges::all_of(whole.inputs, is_image)) return {};
  const LiveBytes live(whole);
  const std::vector<std::size_t> of_one = live.at_nodes(1), of_all = live.at_nodes(n);
  std::vector<std::size_t> behind = of_all;  // the most from here on
  for (std::size_t i = behind.size(); i-- > 1;) behind[i - 1] = std::max(behind[i - 1], behind[i]);
  std::size_t best = behind.empty() ? 0 : behind[0] / 10 * 9, node = 0;
  std::int64_t images = 0;
  for (std::size_t k = 1, most = 0; k < whole.nodes.size() && by_images(whole, whole.nodes[k - 1]); ++k) {
    most = std::max(most, of_one[k - 1]);
    if (most == 0) continue;
    const auto some = std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / most), 1, n);
    std::size_t ahead = most * static_cast<std::size_t>(some);
    for (const int id : live.across(k)) ahead += live.bytes(static_cast<std::size_t>(id), n);
    if (const std::size_t peak = std::max(ahead, behind[k]); peak < best) {
      best = peak;
      node = k;
      images = some;
    }
    if (best <= behind[0] / 10 * 3) break;  // later nodes are faster on the whole batch
  }
  if (node == 0) return {};
  const std::vector<int> across = live.across(node);
  return Slices{part(whole, node, across, true), part(whole, node, across, false), images};
}

}  // namespace tern::graph

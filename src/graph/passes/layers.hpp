#pragma once
// Layers with constant weights, for passes that change these (scales.cpp, branches.cpp).

#include <optional>
#include <unordered_map>

#include "tern/graph/graph.hpp"

namespace tern::graph {

using Numbers = std::vector<double>;

/// The nodes of a structure up to the one that is looked at.
class Layers {
 public:
  explicit Layers(Structure& structure)
      : structure_(structure), uses_(structure.uses()), gone_(structure.nodes.size()) {}

  /// Calls visit(node) for one node after another, and removes those that are replaced.
  template <class Visit>
  void run(const Visit& visit) {
    for (std::size_t i = 0; i < structure_.nodes.size(); ++i) {
      Node& node = structure_.nodes[i];
      if (node.by_batch.empty() && node.inputs.size() == 2 && node.results.size() == 1) visit(node);
      for (const int id : node.results) maker_[id] = i;
    }
    std::size_t i = 0;
    std::erase_if(structure_.nodes, [&](const Node&) { return gone_[i++]; });
  }

  const Value& value(int id) const { return structure_.values[static_cast<std::size_t>(id)]; }
  /// A constant of float32, or null.
  const Tensor* constant(int id) const;
  /// The node that makes a value; null where others read that, too.
  const Node* only(int id) const;
  std::size_t place(const Node& node) const { return static_cast<std::size_t>(&node - structure_.nodes.data()); }
  Node& node(std::size_t place) { return structure_.nodes[place]; }
  void remove(std::size_t place) { gone_[place] = true; }

  /// Without an activation and with constant weights; a normalisation of images by running statistics.
  bool is_conv(const Node& node) const;
  bool is_linear(const Node& node) const;
  bool is_norm(const Node& node) const;
  /// The numbers of a constant for each of `channels` outputs, which are `behind` dimensions before the last; none
  /// where it varies otherwise.
  std::optional<Numbers> by_channel(int id, std::int64_t channels, std::int64_t behind) const;
  Numbers bias_of(const Node& layer, std::int64_t channels) const;
  /// `node` computes of `source` what `layer` does, with this weight (or the same, if it is empty) and bias.
  void become(Node& node, const Node& layer, int source, const Numbers& weight, const Numbers& bias);

 private:
  bool has_weights(const Node& node) const;

  Structure& structure_;
  std::vector<int> uses_;
  std::vector<bool> gone_;
  std::unordered_map<int, std::size_t> maker_;
};

/// A scale or a shift of a layer's outputs becomes part of the layer; false where `node` is none.
bool fold_scale(Layers& layers, Node& node);
bool fold_shift(Layers& layers, Node& node, double sign);
/// The sum or difference of two branches of one value becomes one convolution, where one of them can hold the other.
bool merge_branches(Layers& layers, Node& node, double sign);

}  // namespace tern::graph

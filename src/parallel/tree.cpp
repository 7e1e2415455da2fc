#include "parallel/tree.hpp"

#include <algorithm>
#include <utility>

#include "parallel/filled.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/shape.hpp"

namespace tern::parallel {

namespace {

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

Tensor sum_below(const Node& node, int shards, const std::function<Tensor(const Node&)>& find) {
  if (std::int64_t{node.index} << node.level >= shards) return {};
  if (Tensor known = find(node); known.defined() || node.level == 0) return known;
  const int level = node.level - 1, left = 2 * node.index;
  return plus(sum_below({level, left}, shards, find), sum_below({level, left + 1}, shards, find));
}

}  // namespace

void Partial::add(int shard, Tensor value) {
  nodes_.push_back({0, shard});
  values_.push_back(std::move(value));
  while (nodes_.size() >= 2) {
    const Node right = nodes_.back(), left = nodes_[nodes_.size() - 2];
    if (left.level != right.level || left.index % 2 != 0 || right.index != left.index + 1) return;
    nodes_.pop_back();
    nodes_.back() = {left.level + 1, left.index / 2};
    const Tensor last = std::move(values_.back());
    values_.pop_back();
    values_.back() = plus(values_.back(), last);
  }
}

std::vector<Node> nodes_of(const std::vector<int>& shards) {
  Partial partial;
  for (const int shard : shards) partial.add(shard, {});
  return partial.nodes();
}

Tensor tree_sum(int shards, const std::function<Tensor(const Node&)>& find) {
  int level = 0;
  while (std::int64_t{1} << level < shards) ++level;
  return sum_below({level, 0}, shards, find);
}

// Each rank sums one slice of the elements: it receives that slice of every node, and all get its sum.
Tensor sum_over(const Group& group, int shards, const Holdings& holdings, const Partial& own, const Tensor& like,
                DType wire) {
  const auto lookup = [](const std::vector<Node>& nodes, const Node& node) {
    return static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
  };
  const std::int64_t size = group.size(), n = like.numel(), slice = (n + size - 1) / size;
  if (size == 1 || n == 0)
    return tree_sum(shards, [&](const Node& node) {
      const std::size_t i = lookup(own.nodes(), node);
      return i < own.nodes().size() ? own.values()[i] : Tensor();
    });
  std::vector<std::vector<Node>> nodes;
  for (const std::vector<int>& held : holdings) nodes.push_back(nodes_of(held));
  std::size_t most = 1;
  for (const std::vector<Node>& list : nodes) most = std::max(most, list.size());
  std::vector<Tensor> pieces;
  for (std::size_t i = 0; i < most; ++i) {
    Tensor piece = i < own.values().size() ? own.values()[i] : filled({n}, 0, like.dtype());
    if (slice * size > n) piece = operators::pad(piece, {{0, 0, slice * size - n}});
    pieces.push_back(piece.reshape({size, 1, slice}).to(wire));
  }
  const Tensor received = group.all_to_all(pieces.size() == 1 ? pieces[0] : operators::cat(pieces, 1)).to(like.dtype());
  const Tensor sum = tree_sum(shards, [&](const Node& node) -> Tensor {
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const std::size_t i = lookup(nodes[rank], node);
      if (i == nodes[rank].size()) continue;
      const auto from = static_cast<std::int64_t>(rank), place = static_cast<std::int64_t>(i);
      return received.slice(0, from, from + 1).slice(1, place, place + 1).reshape({slice});
    }
    return {};
  });
  return group.all_gather(sum.to(wire)).to(like.dtype()).slice(0, 0, n);
}

}  // namespace tern::parallel

#pragma once
// The sum over a batch's shards in one fixed binary tree, so that it has the same bits however the shards are
// distributed: (((0
// 1) (2 3)) ((4 5) (6 7))). Shards without a value are skipped.

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// The shards [index << level, (index + 1) << level).
struct Node {
  int level = 0;
  int index = 0;
  bool operator==(const Node&) const = default;
};

/// A rank's part of the sum, while its shards arrive in order: nodes that have no sibling here.
class Partial {
 public:
  void add(int shard, Tensor value);
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& values() const { return values_; }

 private:
  std::vector<Node> nodes_;
  std::vector<Tensor> values_;  // undefined if only the nodes are requested
};

/// The nodes that remain for a set of shards.
std::vector<Node> nodes_of(const std::vector<int>& shards);

/// The sum of the nodes that `find` returns, in the tree over `shards` shards; `find` returns an undefined tensor for
/// an absent node.
Tensor tree_sum(int shards, const std::function<Tensor(const Node&)>& find);

/// Which shards have a value, rank by rank.
using Holdings = std::vector<std::vector<int>>;

/// The sum of all ranks' partials in every rank. `like` is [n] of the dtype, for a rank without a partial; data travel
/// as `wire`.
Tensor sum_over(const Group& group, int shards, const Holdings& holdings, const Partial& own, const Tensor& like,
                DType wire);

}  // namespace tern::parallel

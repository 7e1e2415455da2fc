#pragma once

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Which nodes change tensors that others read: batch normalisation in training updates its running statistics. A node
/// that reads them must not pass it.
class Changes {
 public:
  explicit Changes(const Structure& structure);
  /// Whether node i may change this value: one that it writes to, or that was made of it and may be a view.
  bool changes(std::size_t i, int value) const;
  /// Whether some node may.
  bool changes(int value) const;
  /// Whether `first` may run behind all nodes up to `next`.
  bool may_move(const Structure& structure, std::size_t first, std::size_t next) const;
  /// Node `first` has become part of node `next`.
  void move(std::size_t first, std::size_t next);

 private:
  std::map<std::size_t, std::vector<bool>> of_node_;
};

}  // namespace tern::graph

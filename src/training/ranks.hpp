#pragma once
// The ranks of a training, and how they hold its network and optimiser together.

#include <string>
#include <unordered_map>
#include <vector>

#include "parallel/split_shards.hpp"
#include "tern/optim/optimizer.hpp"

namespace tern::training {

class Ranks {
 public:
  /// Throws Error for a stage of a pipeline, which is not a whole network.
  Ranks(const nn::Module& net, const optim::Optimizer& optimizer, const parallel::Group& group);

  /// Whether ranks have shards of layers: then saving is a collective call that joins them.
  bool divided() const { return !shards_.empty(); }
  /// Whether this is the rank that writes files.
  bool writes() const;
  bool several() const { return !groups_.empty(); }

  // ---- collective calls ----
  /// Whether any rank returns true; `model`: among those that hold one copy of the network.
  bool any(bool own) const { return any(groups_, own); }
  bool any_of_model(bool own) const { return any(model_, own); }
  /// Group::check_same over all ranks.
  void check_same(const std::string& what, const std::string& text) const;
  /// A state of the net or of its averages with all shards joined.
  nn::State whole(nn::State state) const;
  nn::State whole(const optim::Optimizer& optimizer) const;

  // ---- this rank's shards of such a state ----
  nn::State own(nn::State state) const;
  nn::State own(const optim::Optimizer& optimizer, nn::State state) const;

 private:
  static bool any(const std::vector<parallel::Group>& groups, bool own);
  const parallel::SplitShard* shard_of(const Tensor& parameter) const;

  std::vector<parallel::Group> model_, groups_;  // groups of more than one rank: of the shards; and of the copies, too
  bool first_;                                   // among the copies
  std::map<std::string, parallel::SplitShard> shards_;
  std::unordered_map<const Storage*, parallel::SplitShard> by_storage_;
};

}  // namespace tern::training

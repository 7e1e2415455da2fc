#pragma once
// The replicas of a module that ranks train: what is equal in them, and what each holds another shard of.

#include <map>
#include <string>
#include <vector>

#include "parallel/split_shards.hpp"

namespace tern::parallel {

using SplitShards = std::map<std::string, SplitShard>;

/// Throws ParallelError that names the first parameter that differs from rank 0's.
void check_same(const Group& group, const std::vector<nn::NamedTensor>& tensors, const SplitShards& shards);

/// The tensors of which every rank of the group has another shard. If several but not all have the same shard, this
/// group cannot train it: ParallelError.
std::vector<char> held_apart(const Group& group, const std::vector<nn::NamedTensor>& tensors,
                             const SplitShards& shards);

}  // namespace tern::parallel

#pragma once
// The copies of a module that ranks train: what is alike in them, and what each has another shard of.

#include <map>
#include <string>
#include <vector>

#include "parallel/split_shards.hpp"

namespace tern::parallel {

using SplitShards = std::map<std::string, SplitShard>;

/// Throws ParallelError with the first parameter that is not rank 0's.
void check_same(const Group& group, const std::vector<nn::NamedTensor>& tensors, const SplitShards& shards);

/// The tensors that every rank of the group has another shard of. What several but not all have the same shard of
/// cannot be trained by this group: ParallelError.
std::vector<char> held_apart(const Group& group, const std::vector<nn::NamedTensor>& tensors,
                             const SplitShards& shards);

}  // namespace tern::parallel

#pragma once
// The copies of a module that ranks train: what is alike in them, and what each has another part of.

#include <map>
#include <string>
#include <vector>

#include "parallel/split_parts.hpp"

namespace tern::parallel {

using SplitParts = std::map<std::string, SplitPart>;

/// Throws ParallelError with the first parameter that is not rank 0's.
void check_same(const Group& group, const std::vector<nn::NamedTensor>& tensors, const SplitParts& parts);

/// The tensors that every rank of the group has another part of. What several but not all have the same part of cannot
/// be trained by this group: ParallelError.
std::vector<char> held_apart(const Group& group, const std::vector<nn::NamedTensor>& tensors, const SplitParts& parts);

}  // namespace tern::parallel

#pragma once

#include <map>
#include <string>

#include "tern/parallel/split.hpp"

namespace tern::parallel {

/// A shard that a rank holds.
struct SplitShard {
  Group group;
  Layout layout;
};

/// The parameters and buffers of a module that are shards, under all their names.
std::map<std::string, SplitShard> split_shards(const nn::Module& module);

}  // namespace tern::parallel

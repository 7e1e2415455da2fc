#pragma once

#include "tern/data/share.hpp"
#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// Which of `count` things this rank looks after: a stretch of nearly the same length as every other rank's.
inline data::Rows share_of(const Group& group, std::int64_t count) {
  return data::Share{.rank = group.rank(), .ranks = group.size()}.rows(count);
}

/// own [share_of(group, count).size(), width] -> [count, width] in every rank: a row for each of the things, in their
/// order. A collective call.
Tensor gather_shares(const Group& group, const Tensor& own, std::int64_t count);

}  // namespace tern::parallel

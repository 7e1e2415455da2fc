#pragma once

#include "tern/data/share.hpp"
#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// This rank's range of `count` items: all ranks have nearly equally many.
inline data::Rows share_of(const Group& group, std::int64_t count) {
  return data::Share{.rank = group.rank(), .ranks = group.size()}.rows(count);
}

/// own [share_of(group, count).size(), width] -> [count, width] in every rank: one row per item, in order. A collective
/// call.
Tensor gather_shares(const Group& group, const Tensor& own, std::int64_t count);

}  // namespace tern::parallel

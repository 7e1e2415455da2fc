#pragma once

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// Ranks in a grid: `model` consecutive ranks hold one copy of the model together (SplitModules, a Pipeline). Ranks
/// with the same shard in all copies train it on different examples (DataParallel).
///
///     const parallel::Mesh mesh(group, 2);                       // of 4 ranks: 0 1 and 2 3; 0 2 and 1 3
///     nn::Sequential net{parallel::ColumnLinear(mesh.model, 784, 100), parallel::RowLinear(mesh.model, 100, 10)};
///     parallel::DataParallel ranks(mesh.data, net);
struct Mesh {
  /// Throws ShapeError unless the ranks are a multiple of `model`. A collective call.
  Mesh(const Group& group, int model);

  Group model;  ///< the ranks of this rank's copy
  Group data;   ///< the ranks with this rank's shard
};

}  // namespace tern::parallel

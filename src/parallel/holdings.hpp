#pragma once
// Which parameters a rank has a shard of, for what sees tensors and no module: norms of gradients, and trainers.

#include <memory>
#include <vector>

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// The ranks that hold something together. Lives as long as the SplitModule or the Pipeline.
struct Holding {
  Group group;          // on devices where the elements are
  Group words;          // the same ranks, on the host where they were given so
  bool stages = false;  // each has other parameters, in the order of the ranks; else another shard of one
};

/// Says that a rank holds its shard of this tensor so.
void note_holding(const Tensor& tensor, const std::shared_ptr<const Holding>& holding);

/// Of a tensor and of all that share its elements. Null: it is whole, or of no stage.
struct Held {
  std::shared_ptr<const Holding> shard = nullptr, stage = nullptr;
};
Held held_of(const Tensor& tensor);

/// The sum over all parameters of `squares` (float64 [1] each, undefined where there is nothing), the shards and stages
/// of other ranks included: the same bits in all of them, and for any number of stages. A collective call where there
/// are shards or stages; `stages` is for a rank whose stage has no parameters.
Tensor sum_over_parameters(const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares,
                           std::shared_ptr<const Holding> stages = nullptr);

}  // namespace tern::parallel

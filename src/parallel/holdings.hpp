#pragma once
// Which parameters a rank holds a shard of, for code that sees tensors without modules: norms of gradients, and
// trainers.

#include <memory>
#include <vector>

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// The ranks that hold something together. Lives as long as the SplitModule or the Pipeline.
struct Holding {
  Group group;          // on devices if the elements are there
  Group words;          // the same ranks, on the host if they were passed so
  bool stages = false;  // each rank has other parameters, in rank order; otherwise another shard of one
};

/// Notes how a rank holds its shard of this tensor.
void note_holding(const Tensor& tensor, const std::shared_ptr<const Holding>& holding);

/// For a tensor and all that share its elements. Null: it is whole, or in no stage.
struct Held {
  std::shared_ptr<const Holding> shard = nullptr, stage = nullptr;
};
Held held_of(const Tensor& tensor);

/// The sum over all parameters of `squares` (float64 [1] each, undefined if absent), including shards and stages of
/// other ranks: the same bits in all of them, and for any number of stages. A collective call if there are shards or
/// stages; pass `stages` in a rank whose stage has no parameters.
Tensor sum_over_parameters(const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares,
                           std::shared_ptr<const Holding> stages = nullptr);

}  // namespace tern::parallel

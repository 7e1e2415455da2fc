#pragma once

#include "tern/nn/normalization.hpp"
#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// The sum of x over the ranks, in every rank. The gradient of x is the sum of the ranks' gradients. All ranks call it,
/// and run backward through it, in the same order.
Tensor all_reduce(const Group& group, const Tensor& x);

/// nn::BatchNorm2d with statistics over the batch of all ranks instead of each rank's shard, under the same names.
/// Shards may differ in size; none may be empty. Not for a DataParallel with a fixed number of shards, which computes
/// each shard separately.
class BatchNorm2d : public nn::Module {
 public:
  /// The statistics are always tracked.
  BatchNorm2d(const Group& group, std::int64_t channels, const nn::BatchNorm2dOptions& options = {});
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return message("BatchNorm2d(", channels_, ", of all ranks)"); }

 private:
  Group group_;
  std::int64_t channels_;
  double epsilon_, momentum_;
  nn::Parameter weight_, bias_;
  Tensor running_mean_, running_var_;
};

}  // namespace tern::parallel

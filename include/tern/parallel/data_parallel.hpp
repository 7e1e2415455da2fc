#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tern/data/share.hpp"
#include "tern/nn/module.hpp"
#include "tern/parallel/group.hpp"
#include "tern/parallel/shard_loss.hpp"

namespace tern::parallel {

struct DataParallelOptions {
  /// Shards per batch. With a fixed number, the same for any number of ranks, the gradient of each shard is computed
  /// separately and all are summed in one fixed binary tree: 1, 2, 4 and 8 ranks train to the same bits, and a training
  /// may continue with another number of ranks. 0: one shard per rank, summed by the transport: the least work, but
  /// rounding depends on the number of ranks.
  int shards = 0;
  /// Gradients are sent in buckets of about this many bytes; a larger gradient goes alone.
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  /// The dtype in which float32 gradients travel: float32, or bfloat16 for half the bytes. With bfloat16 each rank
  /// rounds its gradients, they are summed in float32, and the sum is rounded once more, so all ranks have the same
  /// bits. Not with a fixed number of shards, whose sum would depend on where it is rounded.
  DType wire = DType::float32;
};

/// Trains a module in all ranks of a group on the shards of each batch:
///
///     parallel::launch({.ranks = 2}, [&](const parallel::Group& group) {
///       models::LeNet net;
///       optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
///       parallel::DataParallel ranks(group, net, {.shards = 8});
///       ...
///       optimizer.zero_grad();
///       const Tensor loss = ranks.backward(batch, [&](const data::Rows& rows) {
///         return operators::cross_entropy(net(x.slice(0, rows.begin, rows.end)), y.slice(0, rows.begin, rows.end));
///       }).loss;
///       optimizer.step();
///
/// If each rank has its own device, gradients go over NCCL (on_devices).
///
/// Every rank starts with the parameters and buffers of rank 0 and has the same gradients and buffers after each
/// backward, so the same optimiser keeps all ranks equal. Gradients travel in buckets, the last layer's first; a bucket
/// is summed as soon as backward has completed it; without `shards`, on the gradients' device. Sums are float32
/// (float64 for a float64 module). A parameter that no rank used has no gradient. Frozen parameters are left out;
/// freeze and unfreeze them between two backwards, in all ranks alike.
///
/// Buffers (the running statistics of batch_norm) become the mean over the shards. Each shard has its own batch
/// statistics, except in parallel::BatchNorm2d. Dropout draws by seed, step and shard: each shard takes its own streams
/// from default_generator(), so every shard must draw equally often. The parameters of a SplitModule are averaged over
/// the ranks that hold the same shard of them; if every rank holds another shard, they stay local.
class DataParallel {
 public:
  /// Throws ParallelError if this rank's module has other parameters than rank 0's.
  DataParallel(const Group& group, const nn::Module& module, const DataParallelOptions& options = {});

  /// Calls `loss_of` for the rows of each of this rank's shards of a batch of `batch` examples (of all ranks), and adds
  /// the gradient of the whole batch's mean loss to the parameters' gradients. Returns that loss and the sums, the same
  /// in all ranks. More gradients may be added before the optimiser's step.
  ShardLoss backward(std::int64_t batch, const std::function<ShardLoss(const data::Rows& rows)>& loss_of);

  /// For your own loop, without shards: backward of this rank's loss, then the mean over the ranks of all accumulated
  /// gradients. A `loss.backward()` before it accumulates without sending.
  void backward(const Tensor& loss);
  /// The same without a backward, for gradients that exist already, such as those of a Pipeline.
  void average();

  /// Throws ShapeError if a batch of this many examples cannot be trained on: if it is not a multiple of the ranks that
  /// each hold a shard of a layer, or smaller than the number of ranks with a parallel::BatchNorm2d. backward throws
  /// it, too.
  void check(std::int64_t batch) const;
  /// Whether each rank holds another shard of something: then all of them compute together on a batch of all rows.
  bool divides() const;
  /// Which examples of a batch are this rank's: LoaderOptions::share.
  const data::Share& share() const;
  /// The number of gradient buckets.
  std::size_t buckets() const;

 private:
  struct Body;
  struct Pass;
  void average_behind(const Tensor& loss);
  std::shared_ptr<Body> body_;
};

}  // namespace tern::parallel

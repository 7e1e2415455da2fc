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
  /// Shards that every batch is cut into. With a fixed number, the same for any number of ranks, the gradient of
  /// each shard is computed alone and all are summed in one fixed binary tree: 1, 2, 4 and 8 ranks train to the same
  /// bits, and a training may go on with another number of ranks. 0: one shard for each rank, summed by the transport:
  /// the least work, and results that depend on the number of ranks as rounding does.
  int shards = 0;
  /// Gradients are sent in pieces of about so many bytes; a larger one goes alone.
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  /// What float32 gradients travel as: float32, or bfloat16 for half the bytes. Then each rank sends its own, rounded,
  /// the sum is made of them in float32, and it is rounded once more on its way to all: so all have the same bits. Not
  /// with a fixed number of shards, whose sum would depend on where it is rounded.
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
/// Where each rank has a device of its own, gradients go over NCCL (on_devices).
///
/// Every rank begins with the parameters and buffers of rank 0, and after each backward has the same gradients and
/// buffers, so the same optimiser keeps all of them equal. Gradients go in buckets, the last layer's first; a bucket
/// is summed as soon as backward has completed it, without `shards` where the gradients are. Sums are of float32
/// (float64 for a float64 module). A parameter that no rank used has no gradient; frozen parameters are left out, and
/// may be frozen and unfrozen between two backwards, in all ranks alike.
///
/// Buffers (the running statistics of batch_norm) become the mean of what the shards made of them; statistics within a
/// shard are the shard's own, unless they are parallel::BatchNorm2d's. Dropout draws by seed, step and shard: each
/// shard takes streams of its own from default_generator(), so every shard must draw alike. A SplitModule's parameters
/// are averaged over the ranks that have the same shard of them; what every rank has another shard of stays where it
/// is.
class DataParallel {
 public:
  /// Throws ParallelError when this rank's module has other parameters than rank 0's.
  DataParallel(const Group& group, const nn::Module& module, const DataParallelOptions& options = {});

  /// Calls `loss_of` for the rows of each of this rank's shards of a batch of `batch` examples (of all ranks), and adds
  /// the gradient of the mean loss of the whole batch to that of the parameters. Returns that loss and the sums, the
  /// same in all ranks. Further gradients may be added before the optimiser's step.
  ShardLoss backward(std::int64_t batch, const std::function<ShardLoss(const data::Rows& rows)>& loss_of);

  /// For your own loop, without shards: backward of this rank's loss, and then the mean over the ranks of all
  /// that has been added up. `loss.backward()` before it adds gradients without sending them.
  void backward(const Tensor& loss);
  /// The same without a backward: for gradients that are there already, as of a Pipeline.
  void average();

  /// Throws ShapeError where a batch of so many examples cannot be trained on: not a multiple of the ranks where each
  /// has a part of a layer, or fewer than ranks with a parallel::BatchNorm2d. backward does, too.
  void check(std::int64_t batch) const;
  /// Whether each rank has another part of something: then all of them compute together on a batch of all rows.
  bool divides() const;
  /// Which examples of a batch are this rank's: LoaderOptions::share.
  const data::Share& share() const;
  /// How many buckets the gradients go in.
  std::size_t buckets() const;

 private:
  struct Body;
  struct Pass;
  void average_behind(const Tensor& loss);
  std::shared_ptr<Body> body_;
};

}  // namespace tern::parallel

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tern/data/share.hpp"
#include "tern/nn/sequential.hpp"
#include "tern/parallel/group.hpp"
#include "tern/parallel/shard_loss.hpp"

namespace tern::parallel {

struct PipelineOptions {
  /// Micro-batches of equal size per batch; more of them leave the ranks idle for less time. At most 256.
  int micro_batches = 4;
  /// The cost of each module of the net, in any unit: stages are chosen so that the most expensive one is as cheap as
  /// possible. Empty: all equal. Rank 0's values count.
  std::vector<double> costs = {};
};

/// Trains a Sequential whose modules are divided among the ranks of a group, in order: rank 0 has the first ones. A
/// batch runs in micro-batches, forward and backward in turns (1F1B), so a rank keeps the activations of at most as
/// many micro-batches as there are stages from it on:
///
///     parallel::Pipeline pipeline(group, net, {.micro_batches = 8});
///     optim::SGD optimizer(pipeline.stage().parameters(), {.learning_rate = 0.1});
///     ...
///     optimizer.zero_grad();
///     const Tensor loss = pipeline.backward(64,
///         [&](const data::Rows& rows) { return images.slice(0, rows.begin, rows.end); },
///         [&](const Tensor& y, const data::Rows& rows) -> parallel::ShardLoss {
///           return operators::cross_entropy(y, labels.slice(0, rows.begin, rows.end));
///         }).loss;
///     optimizer.step();
///
/// Gradients are accumulated over the micro-batches in order, and random numbers are a function of seed, step,
/// micro-batch and module, so any number of ranks, including one, trains to the same bits. Batch normalisation uses the
/// statistics of a micro-batch.
///
/// If each rank has its own device, activations and gradients go over NCCL (on_devices).
class Pipeline {
 public:
  /// `net` has the same modules in every rank; this rank's modules keep their weights and live on here. Throws
  /// ShapeError if there are more ranks than modules.
  Pipeline(const Group& group, const nn::Sequential& net, const PipelineOptions& options = {});

  /// This rank's modules, under their names in the net.
  const nn::Sequential& stage() const;
  nn::Sequential& stage();
  /// The stage holds the modules [first(), last()) of the net.
  std::size_t first() const;
  std::size_t last() const;

  /// Runs a batch of `batch` examples forward and backward, and adds the gradient of its mean loss to the parameters'
  /// gradients. `input` returns the examples of a micro-batch in the first rank; `loss` takes the net's result in the
  /// last one. Returns the mean loss and the sums, the same in all ranks. Throws ShapeError unless the micro-batches
  /// have equal size, and if a stage's output has another shape than before for micro-batches of that size.
  ShardLoss backward(std::int64_t batch, const std::function<Tensor(const data::Rows& rows)>& input,
                     const std::function<ShardLoss(const Tensor& y, const data::Rows& rows)>& loss);

  /// optim::clip_grad_norm over the parameters of all stages, with the bits of a single stage; works in ranks whose
  /// stage has no parameters. A collective call.
  Tensor clip_grad_norm(double max_norm);
  /// The state of the whole net, in every rank, for saving. A rank loads its own modules from it with
  /// `stage().load_state(state, {.allow_unexpected = true})`. A collective call.
  nn::State whole_state() const;

 private:
  struct Body;
  struct Pass;
  std::shared_ptr<Body> body_;
};

/// Seconds that each module of a net takes forward and backward, for PipelineOptions::costs: the least of three runs on
/// the micro-batch `x`. Restores parameters, gradients, buffers and the random generator.
std::vector<double> measured_costs(const nn::Sequential& net, const Tensor& x);

}  // namespace tern::parallel

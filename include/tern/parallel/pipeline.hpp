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
  /// Equal micro-batches that every batch is cut into; more of them leave the ranks less time without work. At most
  /// 256.
  int micro_batches = 4;
  /// What each module of the net costs, in any unit: the dearest stage is made as cheap as can be. Empty: alike. Those
  /// of rank 0 count.
  std::vector<double> costs = {};
};

/// Trains a Sequential whose modules are divided among the ranks of a group, in order: rank 0 has the first ones. A
/// batch goes through in micro-batches, forward and backward by turns (1F1B), so that a rank keeps the activations of
/// no more micro-batches than there are stages from it on:
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
/// Gradients are added up over the micro-batches in their order, and random numbers are a function of seed, step,
/// micro-batch and place in the net, so any number of ranks, one as well, trains to the same bits. Batch normalisation
/// takes the statistics of a micro-batch.
///
/// Where each rank has a device of its own, activations and gradients go over NCCL (on_devices).
class Pipeline {
 public:
  /// `net` has the same modules in every rank; this rank's go on living here, with the weights that they have in it.
  /// Throws ShapeError where there are more ranks than modules.
  Pipeline(const Group& group, const nn::Sequential& net, const PipelineOptions& options = {});

  /// This rank's modules, under their names in the net.
  const nn::Sequential& stage() const;
  nn::Sequential& stage();
  /// They are the modules [first(), last()) of the net.
  std::size_t first() const;
  std::size_t last() const;

  /// Takes a batch of `batch` examples forward and backward, and adds the gradient of its mean loss to that of the
  /// parameters. `input` gives the first rank the examples of a micro-batch, `loss` is called for the result of the net
  /// in the last one. Returns the mean loss and the sums, the same in all ranks. Throws ShapeError unless the
  /// micro-batches are of one size, and where what one stage hands to the next has another shape than before in
  /// micro-batches of that size.
  ShardLoss backward(std::int64_t batch, const std::function<Tensor(const data::Rows& rows)>& input,
                     const std::function<ShardLoss(const Tensor& y, const data::Rows& rows)>& loss);

  /// optim::clip_grad_norm of the parameters of all stages, with the bits of one stage; also in a rank whose stage has
  /// none. A collective call.
  Tensor clip_grad_norm(double max_norm);
  /// The state of the whole net, in every rank: what a file is to hold. A rank loads its own of it by
  /// `stage().load_state(state, {.allow_unexpected = true})`. A collective call.
  nn::State whole_state() const;

 private:
  struct Body;
  struct Pass;
  std::shared_ptr<Body> body_;
};

/// Seconds that each module of a net takes forward and backward, for PipelineOptions::costs: the least of three runs
/// on `x`, a micro-batch. Leaves parameters, gradients, buffers and the random generator as they were.
std::vector<double> measured_costs(const nn::Sequential& net, const Tensor& x);

}  // namespace tern::parallel

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/data/augment.hpp"
#include "tern/data/loader.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/optim/average.hpp"
#include "tern/optim/mixed.hpp"
#include "tern/optim/schedule.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/run/step.hpp"

namespace tern::training {

class Ranks;

/// The mean loss of a batch: `return operators::mse_loss(net(x), y)`. A second tensor of one element, such as the
/// result of nn::count_right, is summed over the examples and gives the epoch's accuracy. Called in training and in
/// validation.
using Loss = std::function<parallel::ShardLoss(const Tensor& x, const Tensor& labels)>;

/// The position of a training.
struct Position {
  std::int64_t epoch = 0;    ///< done
  std::int64_t batch = 0;    ///< done of the current epoch
  std::int64_t batches = 0;  ///< of an epoch
  std::int64_t step = 0;     ///< done in all
};

/// The loss on held-out examples, and its standard error if known.
struct StoppingLoss {
  double loss = 0, error = 0;
};
/// Whether the last of these epochs is worth keeping: within one standard error of the least loss. A smaller difference
/// is noise, and the later epoch has seen more examples.
bool worth_keeping(std::span<const StoppingLoss> epochs);

/// Figures of a completed epoch.
struct EpochResult {
  std::int64_t epoch = 0;  ///< from 1
  double loss = 0;         ///< mean over its examples, each measured when it was trained on
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< NaN if the loss function counts nothing
  std::optional<double> validation_loss = {}, validation_accuracy = {};
  std::optional<StoppingLoss> stopping = {};  ///< what early stopping compares
  double learning_rate = 0;                   ///< at its end
  double seconds = 0;                         ///< of its steps
  bool best = false;                          ///< its weights are kept, unless a later epoch is best, too
};

/// The epoch to keep (of at least one): the last best one, else the last.
const EpochResult& kept_of(const std::vector<EpochResult>& history);
/// Epochs as a checkpoint stores them, float64 [epochs, n], and back. Throws ShapeError for another n.
Tensor table_of(const std::vector<EpochResult>& history);
std::vector<EpochResult> epochs_in(const Tensor& table);

enum class Ended { finished, stopped_early, interrupted };

/// Any may be left empty. In a group, all ranks call them.
struct Callbacks {
  /// Called after each step. `loss` may be pending: reading it waits for the device. After a loop it is called for each
  /// of its steps, with that step's position and loss, but weights and figures are those after the last step.
  std::function<void(const Position& position, const Tensor& loss)> step = {};
  /// Replaces the validation over TrainerOptions::validation: fills in its figures, and `stopping` for early stopping.
  /// Returns false if it was interrupted and must be repeated. All ranks must find the same.
  std::function<bool(EpochResult& result)> validate = {};
  /// Called after each epoch and its validation, when a checkpoint would continue with the next epoch.
  std::function<void(const EpochResult& result)> epoch = {};
  std::function<void(Ended ended)> end = {};
  /// Called before each step or loop, and after each batch of the validation; true stops there. Every rank calls it,
  /// and all stop together when it returns true in one of them.
  std::function<bool()> stop = {};
  /// Seconds that steps may run in a loop (Step::each) without the host, if the mode launches it as one and the loader
  /// is resident; the bits are the same. 0: single steps if `step` is set, else a twentieth of a second.
  double loop_seconds = 0;
  /// A step whose number is a multiple of this ends its loop; 0: any. So does every step that checkpoint_every names.
  std::int64_t loop_until = 0;
};

struct TrainerOptions {
  std::int64_t epochs = 10;
  std::optional<data::DataLoader> validation = {};  ///< evaluated after each epoch; the ranks share its batches
  optim::Schedule schedule = {};                    ///< of the learning rate, by epochs done; empty: constant
  bool schedule_by_step = false;                    ///< by steps done
  double clip_norm = 0;                             ///< see optim::clip_grad_norm; 0: no clipping
  /// Of the loss, for float16 gradients. Empty: the default one where the scope in which the trainer is made has
  /// float16 activations (Precision::f16), else none.
  std::optional<optim::GradScalerOptions> scaler = {};
  double average = 0;  ///< decay of the optim::WeightAverage that is validated and kept; 0: none
  /// Epochs without improvement before training stops and keeps the best weights; 0: never. Only validated epochs
  /// count. Where the losses have an error (StoppingLoss), training also stops once their means over half as many
  /// epochs have turned: they were least at least so many epochs ago, in the first third of the training, and have
  /// grown since.
  std::int64_t patience = 0;
  std::string checkpoints = {};       ///< folder of one training; empty: no checkpoints
  std::int64_t checkpoint_every = 0;  ///< in steps; 0: after each epoch
  int keep = 3;                       ///< number of checkpoints to keep
  int shards = 0;                     ///< see parallel::DataParallelOptions
  std::int64_t first_step = 0;        ///< the initial step number, for a second training in the same folder
  data::AugmentOptions augment = {};  ///< random changes of images in training
};

/// Trains a network on the batches of a loader, one recorded Step each:
///
///     models::LeNet net;
///     optim::SGD sgd{net.parameters(), {.learning_rate = 0.02, .momentum = 0.9}};
///     training::Trainer trainer{net, sgd, loader, [&](const Tensor& x, const Tensor& labels) {
///       const Tensor logits = net(x);
///       return parallel::ShardLoss{operators::cross_entropy(logits, labels), nn::count_right(logits, labels)};
///     }, {.epochs = 5, .validation = held_out, .patience = 3, .checkpoints = "run"}};
///     trainer.resume();  // continues an interrupted training
///     trainer.run();
///     net.load_state(trainer.result());
///
/// It can be stopped after any step, saved, and resumed in another process with the same bits, if the program makes the
/// same network, optimiser, loader and options again. All ranks of a group make the same trainer; a loader that is not
/// resident needs LoaderOptions::share. Options, optimiser and data are compared before the first step; a difference is
/// a ParallelError.
///
/// Layers may be split among the ranks (parallel::SplitModule). Then `snapshot`, `save` and `result` hold the whole
/// model and are collective calls: `parallel::load_whole_state(net, trainer.result())`. A checkpoint can be resumed
/// with another number of ranks; only rank 0 writes it. Ranks whose layers exchange rows divide a validation batch like
/// a training batch. A stage of a parallel::Pipeline is refused.
class Trainer {
 public:
  /// The network and the optimiser must outlive it and start equal in all ranks of the group. With a resident loader,
  /// the step gathers its batch.
  Trainer(nn::Module& net, optim::Optimizer& optimizer, const data::DataLoader& loader, Loss loss,
          const TrainerOptions& options = {}, parallel::Group group = parallel::Group());
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains until the epochs of the options are done, or early stopping ends it. Throws NumericError if the loss of an
  /// epoch is not finite. May be called again. Before its first step it throws ShapeError for a loader without a batch
  /// or batches that cannot be divided among the ranks, and FileError if the checkpoint folder holds more steps than
  /// this training has done: those belong to another training.
  Ended run(const Callbacks& callbacks = {}) { return run(options_.epochs, callbacks); }
  Ended run(std::int64_t epochs, const Callbacks& callbacks = {});
  /// Whether all epochs of the options are done.
  bool over() const;

  /// Everything that the rest of the training depends on. Throws NumericError if a weight is not finite.
  io::Checkpoint snapshot() const;
  /// Restores a snapshot. Throws FileError, which begins with `file`, if it belongs to another training.
  void restore(const io::Checkpoint& checkpoint, const std::string& file);
  /// Writes a checkpoint into the folder of the options, and returns its name.
  std::string save() const;
  /// Restores the newest valid checkpoint of that folder that all ranks can read. False if there is none.
  bool resume();

  const Position& position() const { return position_; }
  const std::vector<EpochResult>& history() const { return history_; }
  /// Loss of the current epoch so far; waits for the device. NaN before its first step.
  double running_loss() const;
  double running_accuracy() const;
  /// The weights to keep: those of the best epoch with early stopping, else the current ones, averaged if the options
  /// request it.
  nn::State result() const;
  /// The epoch that `result` belongs to.
  const EpochResult& kept() const { return kept_of(history_); }
  const data::DataLoader& loader() const { return loader_; }

 private:
  using ShardLossOf = std::function<parallel::ShardLoss(const data::Rows& rows)>;
  Step make_step();
  Tensor step_on_rows(const Tensor& rows, const Tensor& drawn);
  Tensor step_on_batch(const data::Batch& batch, const Tensor& drawn);
  parallel::ShardLoss shard_loss(const Tensor& x, const Tensor& labels, const Tensor& drawn) const;
  Tensor train_on(std::int64_t examples, const ShardLossOf& loss_of);
  void begin();
  void check_folder() const;
  void save_where_due() const;
  void take_fingerprints();
  std::string described() const;
  bool stops(const Callbacks& callbacks) const;
  bool train_epoch(const Callbacks& callbacks);
  std::int64_t steps_at_once(const Callbacks& callbacks) const;
  Tensor loop(std::vector<Tensor> inputs, std::int64_t steps, const Callbacks& callbacks);
  void stepped(const Tensor& loss, const Callbacks& callbacks);
  Ended run_epochs(std::int64_t epochs, const Callbacks& callbacks);
  bool validate(EpochResult& result, const Callbacks& callbacks);
  bool score(EpochResult& result, const Callbacks& callbacks);
  bool score_share(const Tensor& figures, const Callbacks& callbacks) const;
  bool score_together(Tensor figures, const Callbacks& callbacks) const;
  void finish_epoch(const EpochResult& result);
  nn::State weights() const;
  nn::State present() const;

  nn::Module* net_;
  optim::Optimizer* optimizer_;
  data::DataLoader loader_;
  Loss loss_;
  TrainerOptions options_;
  parallel::Group group_;
  std::optional<data::Augment> augment_;
  std::optional<optim::Scheduler> schedule_;
  std::unique_ptr<optim::WeightAverage> average_;
  std::optional<optim::MasterWeights> masters_;  // with the scaler
  std::optional<optim::GradScaler> scaler_;
  std::shared_ptr<const Ranks> held_;            // how the ranks hold the network together
  std::optional<parallel::DataParallel> ranks_;  // made by the first step
  std::string fingerprints_;                     // of the data
  bool begun_ = false;
  Tensor totals_;  // float64 [3] for the current epoch: losses, counts, examples
  Position position_;
  std::vector<EpochResult> history_;
  nn::State best_;
  std::int64_t since_best_ = 0;
  std::int64_t loop_steps_ = 8;  // as many as fit the time that a loop may take
  Step step_;
};

}  // namespace tern::training

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
#include "tern/optim/schedule.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/run/step.hpp"

namespace tern::training {

class Ranks;

/// The mean loss of a batch: `return operators::mse_loss(net(x), y)`. With a second tensor of one element, which is
/// added up over the examples, such as nn::count_right gives, an epoch has an accuracy too. Called in training and in
/// validation.
using Loss = std::function<parallel::ShardLoss(const Tensor& x, const Tensor& labels)>;

/// Where a training stands.
struct Position {
  std::int64_t epoch = 0;    ///< done
  std::int64_t batch = 0;    ///< done of the current epoch
  std::int64_t batches = 0;  ///< of an epoch
  std::int64_t step = 0;     ///< done in all
};

/// The loss of examples that are held out, and its standard error where it is known.
struct StoppingLoss {
  double loss = 0, error = 0;
};
/// Whether the last of these epochs is one to keep: within a standard error of the least loss. A difference below it
/// says nothing, and of epochs alike the last one has seen more.
bool worth_keeping(std::span<const StoppingLoss> epochs);

/// Figures of an epoch that is done.
struct EpochResult {
  std::int64_t epoch = 0;  ///< from 1
  double loss = 0;         ///< mean over its examples, each as it was when it was trained on
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< NaN where the loss function counts nothing
  std::optional<double> validation_loss = {}, validation_accuracy = {};
  std::optional<StoppingLoss> stopping = {};  ///< what early stopping looks at
  double learning_rate = 0;                   ///< at its end
  double seconds = 0;                         ///< of its steps
  bool best = false;                          ///< its weights are kept, unless a later epoch is best too
};

/// The epoch to keep of some (at least one): the last best one, else the last.
const EpochResult& kept_of(const std::vector<EpochResult>& history);
/// Epochs as a checkpoint holds them, float64 [epochs, n], and back. Throws ShapeError for another n.
Tensor table_of(const std::vector<EpochResult>& history);
std::vector<EpochResult> epochs_in(const Tensor& table);

enum class Ended { finished, stopped_early, interrupted };

/// Each may be left empty. In a group they are called in all ranks.
struct Callbacks {
  /// After each step. `loss` may be pending: reading it waits for the device. After a loop it is called for each of its
  /// steps, with the position and the loss of that step, while weights and figures are those after the last one.
  std::function<void(const Position& position, const Tensor& loss)> step = {};
  /// Instead of the validation over TrainerOptions::validation: fills in what it finds, `stopping` where early stopping
  /// shall look at it. False: it was interrupted, and will be made anew. All ranks must find the same.
  std::function<bool(EpochResult& result)> validate = {};
  /// After each epoch and its validation, when a checkpoint would go on with the next one.
  std::function<void(const EpochResult& result)> epoch = {};
  std::function<void(Ended ended)> end = {};
  /// Called before each step or loop, and after each batch of the validation: true stops there.
  /// Every rank calls it, and all stop together when it returns true in one of them.
  std::function<bool()> stop = {};
  /// Seconds that steps may run in a loop (Step::each), where the mode launches it as one and the loader is resident,
  /// before the host looks after them; the bits are the same. 0: each step by itself if there is `step` to call, else
  /// a twentieth.
  double loop_seconds = 0;
  /// A step whose number is a multiple of it is the last of its loop; 0: any. Those of checkpoint_every always are.
  std::int64_t loop_until = 0;
};

struct TrainerOptions {
  std::int64_t epochs = 10;
  std::optional<data::DataLoader> validation = {};  ///< looked at after each epoch; the ranks share out its batches
  optim::Schedule schedule = {};                    ///< of the learning rate, by epochs done; empty: it stays
  bool schedule_by_step = false;                    ///< by steps done
  double clip_norm = 0;                             ///< see optim::clip_grad_norm; 0: gradients stay as they are
  double average = 0;  ///< decay of the optim::WeightAverage that is validated and kept; 0: none
  /// Epochs after the best one until it stops, keeping the best weights; 0: never. Only epochs that were validated
  /// count.
  std::int64_t patience = 0;
  std::string checkpoints = {};       ///< folder of one training; empty: none are written
  std::int64_t checkpoint_every = 0;  ///< steps; 0: after each epoch
  int keep = 3;                       ///< checkpoints
  int shards = 0;                     ///< see parallel::DataParallelOptions
  std::int64_t first_step = 0;        ///< where steps are counted from, for a second training in the same folder
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
///     trainer.resume();  // where an interrupted training stands
///     trainer.run();
///     net.load_state(trainer.result());
///
/// It can be stopped after any step, saved, and taken up again in another process without a difference in a single bit,
/// as long as the program makes the same network, optimiser, loader and options again. A group's ranks each make the
/// same trainer; the loader of a source, or one that is not resident, needs LoaderOptions::share. Options, optimiser
/// and data are compared before the first step: ParallelError where they differ.
///
/// Layers may be split among the ranks (parallel::SplitModule). Then `snapshot`, `save` and `result` hold the whole
/// model, put together by all ranks, which all call them: `parallel::load_whole_state(net, trainer.result())`. A
/// checkpoint goes on with another number of ranks, and rank 0 alone writes it. A validation batch is divided among the
/// ranks whose layers exchange their rows, as one of training. A stage of a parallel::Pipeline is refused.
class Trainer {
 public:
  /// The network and the optimiser must outlive it, and begin alike in all ranks of the group. A loader that is
  /// resident is gathered from in the step.
  Trainer(nn::Module& net, optim::Optimizer& optimizer, const data::DataLoader& loader, Loss loss,
          const TrainerOptions& options = {}, parallel::Group group = parallel::Group());
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains until as many epochs are done as the options say, or fewer, or early stopping ends it. Throws NumericError
  /// when the loss of an epoch is not finite. May be called again. Before its first step it throws ShapeError for a
  /// loader without a batch and for batches that cannot be divided among the ranks, and FileError when the folder of
  /// the options holds checkpoints of more steps than this training stands at: they are another training's.
  Ended run(const Callbacks& callbacks = {}) { return run(options_.epochs, callbacks); }
  Ended run(std::int64_t epochs, const Callbacks& callbacks = {});
  /// Whether nothing is left of the epochs of the options.
  bool over() const;

  /// Everything that the rest of the training depends on. Throws NumericError when a weight is not finite.
  io::Checkpoint snapshot() const;
  /// Takes up a snapshot. Throws FileError, which begins with `file`, when it is of another training.
  void restore(const io::Checkpoint& checkpoint, const std::string& file);
  /// Writes a checkpoint into the folder of the options, and returns its name.
  std::string save() const;
  /// Takes up the newest valid checkpoint of that folder, which all ranks can read. False when there is none.
  bool resume();

  const Position& position() const { return position_; }
  const std::vector<EpochResult>& history() const { return history_; }
  /// Of the current epoch, so far; this waits for the device. NaN before its first step.
  double running_loss() const;
  double running_accuracy() const;
  /// The weights to keep: those of the best epoch with early stopping, else the present ones, averaged where the
  /// options want it.
  nn::State result() const;
  /// The epoch that `result` is of.
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
  std::shared_ptr<const Ranks> held_;            // how the ranks hold the network together
  std::optional<parallel::DataParallel> ranks_;  // made by the first step
  std::string fingerprints_;                     // of the data
  bool begun_ = false;
  Tensor totals_;  // float64 [3] of the epoch under way: losses, what is counted, examples
  Position position_;
  std::vector<EpochResult> history_;
  nn::State best_;
  std::int64_t since_best_ = 0;
  std::int64_t loop_steps_ = 8;  // that take about as long as a loop may
  Step step_;
};

}  // namespace tern::training

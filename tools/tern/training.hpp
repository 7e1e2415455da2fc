#pragma once
// One training: the network, the optimiser and their position. It can be stopped after any step, saved, and resumed in
// another process with the same bits.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data_sets.hpp"
#include "early_stopping.hpp"
#include "names.hpp"
#include "settings.hpp"
#include "tern/nn/load.hpp"
#include "tern/optim/optim.hpp"
#include "tern/training/trainer.hpp"
#include "timed_transport.hpp"

namespace tern::tool {

/// Fills in what the settings leave to the kind of data. Throws UsageError for contradictory settings.
void complete(Settings& settings, const TrainingData& data);

/// The augmentation of these examples' pictures in training.
data::AugmentOptions augment_of(const Settings& settings, const Blueprint& blueprint);

/// Figures of a completed epoch.
struct EpochResult : training::EpochResult {
  double validation_rmse = 0;           // for a regression, in the target's unit; not stored in a checkpoint
  std::optional<RankTimes> ranks = {};  // of several ranks, if they communicate through the host's memory
};

using training::Ended;
using training::Position;

struct Score;

class Training {
 public:
  /// Builds the network in the scope of the caller; `settings` are complete. Keeps references to both. All ranks of the
  /// group make the same training and run it alike.
  Training(const Settings& settings, const TrainingData& data, const parallel::Group& group = parallel::Group());
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  struct Hooks {
    /// Called after each step. `loss` is pending: reading it waits for the device.
    std::function<void(const Position& position, const Tensor& loss)> step = [](const auto&, const auto&) {};
    std::function<void(const EpochResult& result)> epoch = [](const auto&) {};
    /// Called before the refit, and after each of its epochs.
    std::function<void(const Position& position)> refit = [](const auto&) {};
    /// Called before each step and after each part of the validation; true stops with everything intact. All ranks call
    /// it, and the first one's answer counts.
    std::function<bool()> stop = [] { return false; };
  };
  /// Trains until `epochs` epochs are done or early stopping ends it; then, if the settings request it, again on all
  /// training examples for the best number of epochs. Throws NumericError if the loss is not finite.
  Ended run(std::int64_t epochs, const Hooks& hooks);

  /// Everything that the rest of the training depends on. Throws NumericError if a weight is not finite.
  io::Checkpoint snapshot() const;
  /// Restores a snapshot of a training with the same settings. Throws FileError if it does not match.
  void restore(const io::Checkpoint& checkpoint, const std::string& file);

  const Position& position() const { return trainer_->position(); }
  /// Whether all epochs are done or early stopping has ended them; of a refit, whether that is done.
  bool ended() const { return trainer_->over(); }
  /// For the current epoch so far; waits for the device. The accuracy is NaN for a net that trains on more than its
  /// outputs.
  double running_loss() const { return trainer_->running_loss(); }
  double running_accuracy() const { return trainer_->running_accuracy(); }
  /// Without those of a refit.
  const std::vector<training::EpochResult>& history() const { return refitting() ? searched_ : trainer_->history(); }
  const Blueprint& blueprint() const { return blueprint_; }
  /// What happened to the weights of --init, and the names of the parameters that --freeze froze.
  const std::optional<nn::LoadReport>& begun_with() const { return begun_with_; }
  const std::vector<std::string>& frozen() const { return frozen_; }
  /// Whether these weights had as many, but different, classes, so that the last layer is new nevertheless.
  bool other_classes() const { return other_classes_; }
  /// Columns of the table that these weights do not know, so that their inputs are new.
  const std::vector<std::string>& new_columns() const { return new_columns_; }
  nn::Module& net() { return *net_; }
  /// The weights to keep: those of the best epoch with early stopping, else (and after a refit) the current ones.
  nn::State result() const { return trainer_->result(); }
  /// The epoch that `result` belongs to: the last best one, else the last.
  const training::EpochResult& kept() const { return training::kept_of(history()); }
  std::int64_t examples() const { return trainer_->loader().examples(); }
  const parallel::Group& group() const { return group_; }
  std::int64_t stopping_examples() const { return stopping_.size(); }
  std::int64_t validation_examples() const { return validation_.size(); }
  /// Epochs of the refit; 0 before it, and if there is none.
  std::int64_t refit_epochs() const { return refit_epochs_; }
  bool refitting() const { return refit_epochs_ > 0; }

 private:
  Training(const Settings& settings, const TrainingData& data, const TrainingParts& parts,
           const parallel::Group& group);
  std::shared_ptr<nn::Module> make_net();
  std::shared_ptr<nn::Module> imported_net() const;
  data::DataLoader make_loader(const Examples& examples) const;
  void begin(const Examples& examples);
  parallel::ShardLoss shard_loss(const Tensor& x, const Tensor& labels) const;
  Ended search(std::int64_t epochs, const Hooks& hooks);
  bool validate(EpochResult& result, const Hooks& hooks);
  void begin_refit(std::int64_t epochs);
  Ended refit(const Hooks& hooks);

  const Settings& settings_;
  const TrainingData& data_;
  parallel::Group group_;
  Blueprint blueprint_;
  std::optional<nn::LoadReport> begun_with_;
  std::vector<std::string> frozen_;
  bool other_classes_ = false;
  std::vector<std::string> new_columns_;
  Cost cost_;
  std::shared_ptr<nn::Module> net_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<training::Trainer> trainer_;
  // Scaled, if they are in memory. With a test part the first ones serve both purposes.
  Examples validation_, stopping_;
  std::vector<training::EpochResult> searched_;  // before a refit
  std::int64_t refit_epochs_ = 0;
};

/// The mean cost and the fraction of right answers, or R2, over examples, in evaluation mode. The ranks of the group
/// share the batches and get the same result for any number of ranks. `stop` is called between batches; if it returns
/// true in the first rank, there is no result.
struct Score {
  double loss = 0, accuracy = 0;
  double error = 0;  // standard error of the loss
  double rmse = 0;   // for a regression, in the target's unit
};
std::optional<Score> score(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                           const std::function<bool()>& stop, bool with_error = false,
                           const parallel::Group& group = parallel::Group());
/// Examples that pass through the net at once in evaluation.
std::int64_t evaluation_batch(const Blueprint& blueprint);

}  // namespace tern::tool

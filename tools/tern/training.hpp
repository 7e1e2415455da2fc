#pragma once
// One training: the network, the optimiser and where it stands. It can be stopped after any step, saved, and taken up
// again in another process without a difference in a single bit.

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

/// Fills in what the settings leave to the kind of data. Throws UsageError for settings that do not go together.
void complete(Settings& settings, const TrainingData& data);

/// The augmentation of the pictures of these examples, in training.
data::AugmentOptions augment_of(const Settings& settings, const Blueprint& blueprint);

/// Figures of an epoch that is done.
struct EpochResult : training::EpochResult {
  double validation_rmse = 0;           // of a regression, in the target's unit; a checkpoint does not hold it
  std::optional<RankTimes> ranks = {};  // of several, where they talk through the host's memory
};

using training::Ended;
using training::Position;

struct Score;

class Training {
 public:
  /// Builds the network in the scope of the caller; `settings` are complete. Both are kept by reference. All ranks of
  /// the group make the same training and run it alike.
  Training(const Settings& settings, const TrainingData& data, const parallel::Group& group = parallel::Group());
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  struct Hooks {
    /// After each step. `loss` is still on its way: reading it waits for the device.
    std::function<void(const Position& position, const Tensor& loss)> step = [](const auto&, const auto&) {};
    std::function<void(const EpochResult& result)> epoch = [](const auto&) {};
    /// Before the refit, and after each epoch of it.
    std::function<void(const Position& position)> refit = [](const auto&) {};
    /// Asked before each step and after each part of the validation: true stops, with everything as it stands. All
    /// ranks are asked, and the first one's answer counts.
    std::function<bool()> stop = [] { return false; };
  };
  /// Trains until `epochs` epochs are done or the early stopping ends them; then, where the settings want it, anew on
  /// all training examples for as many epochs as were best. Throws NumericError when the loss is not finite.
  Ended run(std::int64_t epochs, const Hooks& hooks);

  /// Everything that the rest of the training depends on. Throws NumericError when a weight is not finite.
  io::Checkpoint snapshot() const;
  /// Takes up a snapshot of a training with the same settings. Throws FileError when it does not fit.
  void restore(const io::Checkpoint& checkpoint, const std::string& file);

  const Position& position() const { return trainer_->position(); }
  /// Of the epoch under way, so far; this waits for the device. The accuracy is NaN for a net that trains on more than
  /// its outputs.
  double running_loss() const { return trainer_->running_loss(); }
  double running_accuracy() const { return trainer_->running_accuracy(); }
  /// Without those of a refit.
  const std::vector<training::EpochResult>& history() const { return refitting() ? searched_ : trainer_->history(); }
  const Blueprint& blueprint() const { return blueprint_; }
  /// What became of the weights of --init, and the names of the parameters that --freeze leaves alone.
  const std::optional<nn::LoadReport>& begun_with() const { return begun_with_; }
  const std::vector<std::string>& frozen() const { return frozen_; }
  /// Whether these weights told as many other classes apart, so that the last layer begins anew all the same.
  bool other_classes() const { return other_classes_; }
  /// Columns of the table that these weights do not know, so that their inputs begin anew.
  const std::vector<std::string>& new_columns() const { return new_columns_; }
  nn::Module& net() { return *net_; }
  /// The weights to keep: those of the best epoch with early stopping, else (and after a refit) the present ones.
  nn::State result() const { return trainer_->result(); }
  /// The epoch that `result` is of: the last best one, else the last.
  const training::EpochResult& kept() const { return training::kept_of(history()); }
  std::int64_t examples() const { return trainer_->loader().examples(); }
  const parallel::Group& group() const { return group_; }
  std::int64_t stopping_examples() const { return stopping_.size(); }
  std::int64_t validation_examples() const { return validation_.size(); }
  /// Epochs of the refit; 0 before it, and where there is none.
  std::int64_t refit_epochs() const { return refit_epochs_; }
  bool refitting() const { return refit_epochs_ > 0; }

 private:
  Training(const Settings& settings, const TrainingData& data, const TrainingParts& parts,
           const parallel::Group& group);
  std::shared_ptr<nn::Module> make_net();
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
  // Scaled, where they are in memory. With a test part the first ones do for both.
  Examples validation_, stopping_;
  std::vector<training::EpochResult> searched_;  // before a refit
  std::int64_t refit_epochs_ = 0;
};

/// The mean cost and the share of right answers, or R2, over examples, in evaluation mode. The ranks of the group share
/// out the batches and find the same, any number of them. `stop` is asked between batches; when it says true in the
/// first rank, nothing is returned.
struct Score {
  double loss = 0, accuracy = 0;
  double error = 0;  // standard error of the loss
  double rmse = 0;   // of a regression, in the target's unit
};
std::optional<Score> score(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                           const std::function<bool()>& stop, bool with_error = false,
                           const parallel::Group& group = parallel::Group());
/// Examples that pass through the net at once when nothing is learnt.
std::int64_t evaluation_batch(const Blueprint& blueprint);

}  // namespace tern::tool

#pragma once
// A training and its run folder: takes up what is there, writes the events and the checkpoints, leaves the model.

#include <memory>
#include <optional>
#include <string>

#include "dashboard.hpp"
#include "evaluation.hpp"
#include "folder_lock.hpp"
#include "run_folder.hpp"
#include "tensorboard.hpp"
#include "training.hpp"

namespace tern::tool {

/// What a training is, by the names of options; the others may change when it is resumed.
bool decides_training(const std::string& name);

/// What a training left.
struct Finished {
  std::string model;                     // its file
  std::optional<Evaluation> evaluation;  // of that model, where examples were held out
};

/// What the net of the first rank, which alone need have its final weights, says of the examples that were held out;
/// all ranks of the training work at it: a collective call, which `finish` makes in the first one.
Prediction evaluate_together(Training& training, const TrainingData& data);

class RunSession {
 public:
  /// With --resume, takes the settings of the training that is in the run folder; those in `given` must not contradict
  /// them. Throws UsageError when they do.
  RunSession(Settings& settings, const Options& options, const OptionNames& chosen);

  /// Takes up the checkpoint, or begins the folder anew.
  void start(Training& training, const TrainingData& data);
  /// After each step: an event now and then, a checkpoint when one is due.
  void stepped(const Position& position, const Tensor& loss);
  void epoch_done(const EpochResult& result);
  /// Before the refit, and after each epoch of it.
  void refitting(const Position& position);
  /// Saves a checkpoint, says so in the metrics and returns its name.
  std::string interrupt();
  /// Saves a checkpoint to go on from later.
  void pause() { save(); }
  /// Evaluates, writes the model and the last event.
  Finished finish(Ended ended);

  const std::string& path() const { return path_; }
  /// Available after `start`.
  RunFolder& folder() { return *folder_; }
  /// Whether `start` took up an earlier training.
  bool resumed() const { return resumed_.has_value(); }

 private:
  void take_settings(const io::Resumed& resumed, const OptionNames& chosen);
  void begin_again(const OptionNames& chosen);
  void apply_saved(const Json& saved, const std::string& file, const OptionNames& chosen);
  std::string save();
  void save_when_due();
  Json settings_json() const;
  void write_config() const;
  void write_start();
  void open_listeners();

  Settings& settings_;
  const Options& options_;
  std::string path_;
  std::optional<FolderLock> lock_;
  std::optional<io::Resumed> resumed_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<Dashboard> dashboard_;
  std::unique_ptr<TensorBoard> tensorboard_;
  Training* training_ = nullptr;
  const TrainingData* data_ = nullptr;
  double began_, last_save_, save_seconds_ = 0;
  std::optional<Json> last_epoch_;  // its event, where that was left out
};

}  // namespace tern::tool

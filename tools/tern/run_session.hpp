#pragma once
// A training and its run folder: resumes what is there, writes the events and checkpoints, leaves the model.

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

/// Whether an option defines the training; the others may change when it is resumed.
bool decides_training(const std::string& name);

/// The result of a training.
struct RunResult {
  std::string model;                     // its file
  std::optional<Evaluation> evaluation;  // of that model, if examples were held out
};

/// The predictions of the first rank's net, which alone needs its final weights, for the held-out examples. All ranks
/// take part: a collective call, which `finish` makes in the first one.
Prediction evaluate_together(Training& training, const TrainingData& data);

class RunSession {
 public:
  /// With --resume, takes the settings of the training in the run folder. Throws UsageError if those in `given`
  /// contradict them.
  RunSession(Settings& settings, const Options& options, const OptionNames& chosen);

  /// Resumes from the checkpoint, or starts an empty folder.
  void start(Training& training, const TrainingData& data);
  /// Called after each step: writes an occasional event, and a checkpoint when one is due.
  void stepped(const Position& position, const Tensor& loss);
  void epoch_done(const EpochResult& result);
  /// Called before the refit, and after each of its epochs.
  void refitting(const Position& position);
  /// Saves a checkpoint, records it in the metrics and returns its name.
  std::string interrupt();
  /// Saves a checkpoint to continue from later.
  void pause() { save(); }
  /// Evaluates, and writes the model and the last event.
  RunResult finish(Ended ended);

  const std::string& path() const { return path_; }
  /// Available after `start`.
  RunFolder& folder() { return *folder_; }
  /// Whether `start` resumed an earlier training.
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
  std::optional<Json> last_epoch_;  // its event, if that was left out
};

}  // namespace tern::tool

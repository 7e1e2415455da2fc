#pragma once
// Runs the trials of a search, several at a time.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run_session.hpp"
#include "tune_plan.hpp"

namespace tern::tool {

enum class TrialState { waiting, running, paused, dropped, done, failed };
const char* name_of(TrialState state);

/// What is known of a trial; a copy for whoever looks.
struct TrialStatus {
  TrialState state = TrialState::waiting;
  std::int64_t epoch = 0;  // done
  double loss = 0;         // of the last epoch
  std::optional<double> validation_loss = {}, accuracy = {};
  double seconds = 0;        // spent on it
  std::string problem = {};  // why it failed
};

struct TunePlan {
  std::vector<Trial> trials;
  std::vector<Settings> settings;  // of each trial, complete
  std::int64_t epochs = 0;         // the most of any trial
  std::int64_t halving = 0;        // 0: every trial goes to the end; else one in so many goes on from each rung
  std::size_t jobs = 1;            // trials at a time
  int threads = 1;                 // of each
};

/// Trials from the best to the worst: by accuracy, then by loss, where what is not a number comes last; failed ones
/// after all others.
std::vector<std::size_t> ranked(const std::vector<TrialStatus>& trials);

class TuneRunner {
 public:
  /// `data[i]` is what trial i learns; trials may share it. `watch` is called when something has changed, from any
  /// thread, one at a time.
  TuneRunner(const TunePlan& plan, std::vector<std::shared_ptr<const TrainingData>> data, std::function<void()> watch);

  /// Takes up what is in the folders of the runs. False when a signal came; everything is saved then.
  bool run();
  std::vector<TrialStatus> status() const;
  std::vector<std::size_t> ranking() const { return ranked(status()); }

 private:
  std::vector<std::int64_t> rungs() const;
  bool run_rung(const std::vector<std::size_t>& trials, std::int64_t epochs, bool last);
  void run_trial(std::size_t trial, std::int64_t epochs, bool last);
  void train(std::size_t trial, std::int64_t epochs, bool last);
  void change(std::size_t trial, const std::function<void(TrialStatus&)>& edit);

  const TunePlan& plan_;
  std::vector<std::shared_ptr<const TrainingData>> data_;
  std::function<void()> watch_;
  mutable std::mutex mutex_;
  std::vector<TrialStatus> status_;
};

}  // namespace tern::tool

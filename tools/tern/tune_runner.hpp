#pragma once
// Runs the trials of a search, several at a time.

#include <functional>
#include <memory>
#include <mutex>
#include <set>
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
  std::int64_t epoch = 0;                                     // done
  double loss = 0;                                            // of the last epoch
  std::optional<double> validation_loss = {}, accuracy = {};  // the accuracy of a regression is R2
  std::optional<double> test = {};                            // the same of a test part, by which nothing is ranked
  double seconds = 0;                                         // spent on it
  std::string problem = {};                                   // why it failed
};

struct TunePlan {
  std::vector<Trial> trials;
  std::vector<Settings> settings;  // of each trial, complete
  std::int64_t epochs = 0;         // the most of any trial
  std::int64_t halving = 0;        // 0: every trial goes to the end; else one in so many goes on from each rung
  std::vector<std::string> devices = {"fastest"};  // of the ranks that are threads of this process
  std::size_t jobs = 1;                            // trials at a time, of each rank
  int threads = 1;                                 // of each trial
  bool regression = false;                         // R2 stands for the accuracy
  bool shared = false;                             // other processes work on the same trials
  std::int64_t limit = 0;                          // seconds that a trial of theirs may stand still; 0: for ever
};

/// Trials from the best to the worst: by accuracy or R2, then by loss, where what is not a number comes last; failed
/// ones after all others.
std::vector<std::size_t> ranked(const std::vector<TrialStatus>& trials);

class TuneRunner {
 public:
  /// `data[i]` is what trial i learns; trials may share it. `watch` is called when something has changed, from any
  /// thread, one at a time.
  TuneRunner(const TunePlan& plan, std::vector<std::shared_ptr<const TrainingData>> data, std::function<void()> watch);

  /// Takes up what is in the folders of the runs. False when a signal came; everything is saved then. A device that
  /// fails gives its trial back and takes no more, while there is another one; the last one's error is thrown where
  /// other processes can go on without this one, and is the trial's otherwise.
  bool run();
  std::vector<TrialStatus> status() const;
  std::vector<std::size_t> ranking() const { return ranked(status()); }

 private:
  struct Rung;
  struct Taken;
  std::vector<std::int64_t> rungs() const;
  bool run_rung(const std::vector<std::size_t>& trials, std::int64_t epochs, bool last);
  Taken take(Rung& rung);
  void work(Rung& rung, const std::string& device);
  bool run_trial(std::size_t trial, Rung& rung, const std::string& device);
  void look_after_others(Rung& rung) const;
  bool can_leave(Rung& rung, const std::string& device);
  void train(std::size_t trial, const Rung& rung, const std::string& device);
  void change(std::size_t trial, const std::function<void(TrialStatus&)>& edit);

  const TunePlan& plan_;
  std::vector<std::shared_ptr<const TrainingData>> data_;
  std::function<void()> watch_;
  mutable std::mutex mutex_;
  std::vector<TrialStatus> status_;
  std::set<std::string> broken_;  // devices that take no more
};

}  // namespace tern::tool

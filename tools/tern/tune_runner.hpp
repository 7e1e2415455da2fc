#pragma once
// Runs the trials of a search, several at a time.

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "run_session.hpp"
#include "trial_status.hpp"
#include "tune_plan.hpp"

namespace tern::tool {

struct TunePlan {
  std::vector<Trial> trials;
  std::vector<Settings> settings;  // of each trial, complete
  std::int64_t epochs = 0;         // the most of any trial
  std::int64_t halving = 0;        // 0: every trial runs to the end; else one in this many continues after each rung
  std::vector<std::string> devices = {"fastest"};  // of the ranks that are threads of this process
  std::size_t jobs = 1;                            // trials at a time, per rank
  int threads = 1;                                 // per trial
  bool regression = false;                         // R2 replaces the accuracy
  bool shared = false;                             // other processes work on the same trials
  std::int64_t limit = 0;                          // seconds that one of their trials may stand still; 0: forever
};

/// Trials from best to worst: by accuracy or R2, then by loss, with non-numbers last; failed ones after all others.
std::vector<std::size_t> ranked(const std::vector<TrialStatus>& trials);

class TuneRunner {
 public:
  /// `data[i]` is the data of trial i; trials may share it. `watch` is called on changes, from any thread, one at a
  /// time.
  TuneRunner(const TunePlan& plan, std::vector<std::shared_ptr<const TrainingData>> data, std::function<void()> watch);

  /// Resumes from the runs' folders. False on a signal; everything is then saved. A device that fails returns its trial
  /// and takes no more while another one works. The last device's error is thrown if other processes can continue
  /// without this one; otherwise it is the trial's.
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
  std::set<std::string> broken_;  // devices that take no more trials
};

}  // namespace tern::tool

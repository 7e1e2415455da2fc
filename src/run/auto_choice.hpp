#pragma once
// Chooses the mode of a Step in a Device{"auto"} by trial.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "run/plan.hpp"

namespace tern {

/// The trials of one key, whose mode is null. Successive calls run in each mode in turn, a stretch at a time. The
/// measured time is from call to call: it includes the caller's work, waits and moves. A mode that is clearly slower is
/// left out of the next round; one that would be too slow even at the rate of its products is not tried.
class AutoChoice {
 public:
  using Clock = std::chrono::steady_clock;
  using Call = std::function<std::vector<Tensor>()>;

  /// `modes`: the probably fastest last.
  AutoChoice(StepKey key, const std::vector<const Mode*>& modes);

  const StepKey& key() const { return key_; }
  /// The mode of all further calls; null during the trials.
  const Mode* chosen() const { return chosen_; }
  /// Runs one call inside the thread's Device{"auto"}, in the chosen mode or in the one on trial. If the previous call
  /// had another key and ran in `before`, the trial pauses and this call runs there as well: moving the data for one
  /// call would cost more than it gains. Null: the previous call had this key, or there was none.
  std::vector<Tensor> call(const Call& function, const Mode* before);
  /// Where the last call ran.
  const Mode* last() const { return last_; }

 private:
  struct Candidate {
    const Mode* mode;
    double seconds = 0;                  // of a call, the median of its stretches; 0: none yet
    std::vector<double> stretches = {};  // sorted
    std::string out = {};                // why it was dropped
  };

  std::vector<Tensor> run(const Call& function, Candidate& candidate);
  void end_stretch();
  void next();
  void choose();
  bool too_slow(Candidate& candidate) const;
  double fastest() const;
  std::string sentence() const;

  StepKey key_;
  std::uint64_t number_;
  std::vector<Candidate> candidates_;  // the probably fastest first
  const Mode* chosen_ = nullptr;
  const Mode* last_ = nullptr;
  std::size_t current_ = 0;  // on trial
  int round_ = 0;
  std::uint64_t explained_ = 0;  // the device that has the explanation
  double flops_ = -1;            // of the products of one call; below 0: not counted yet

  // Of the current stretch.
  int warm_ = 0, timed_ = 0;
  Clock::time_point start_{};
};

}  // namespace tern

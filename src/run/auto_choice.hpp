#pragma once
// Where a Step runs in a Device{"auto"}: found by trial.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "run/plan.hpp"

namespace tern {

/// The trials of one key, whose mode is null. Calls that come one after another run in each mode in turn, a stretch of
/// them at a time. What counts is the time from call to call: it holds what the caller does between them, waits and
/// moves included. A mode that is clearly behind is left out of the next round, and one that would be too slow even at
/// the rate of its products is not tried at all.
class AutoChoice {
 public:
  using Clock = std::chrono::steady_clock;
  using Call = std::function<Tensor()>;

  /// `modes`: the likely fastest last.
  AutoChoice(StepKey key, const std::vector<const Mode*>& modes);

  const StepKey& key() const { return key_; }
  /// The mode of all calls from now on; null during the trials.
  const Mode* chosen() const { return chosen_; }
  /// Runs one call inside the Device{"auto"} of the thread, in the chosen mode or in the one that is on trial. After a
  /// call of another key, which ran in `before`, a trial waits: this call runs there as well, because a move for one
  /// call would cost more than it gains. Null: the call before was of this key, or there was none.
  Tensor call(const Call& function, const Mode* before);
  /// Where the last call ran.
  const Mode* last() const { return last_; }

 private:
  struct Candidate {
    const Mode* mode;
    double seconds = 0;                  // of a call, the median of its stretches; 0: none yet
    std::vector<double> stretches = {};  // sorted
    std::string out = {};                // why it is left out
  };

  Tensor run(const Call& function, Candidate& candidate);
  void end_stretch();
  void next();
  void choose();
  bool too_slow(Candidate& candidate) const;
  double fastest() const;
  std::string sentence() const;

  StepKey key_;
  std::uint64_t number_;
  std::vector<Candidate> candidates_;  // the likely fastest first
  const Mode* chosen_ = nullptr;
  const Mode* last_ = nullptr;
  std::size_t current_ = 0;  // on trial
  int round_ = 0;
  std::uint64_t explained_ = 0;  // the device that knows the choice
  double flops_ = -1;            // of the products of a call; below 0: not counted yet

  // Of the stretch.
  int warm_ = 0, timed_ = 0;
  Clock::time_point start_{};
};

}  // namespace tern

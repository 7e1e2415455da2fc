#pragma once
// What the processes of one search share through a trial's folder: who works on it, and its state after each rung.

#include <optional>
#include <string>

#include "trial_status.hpp"

namespace tern::tool {

/// A trial that this process works on, as a lock on a file: a process that dies releases it, and another one continues
/// from the trial's checkpoint.
class TrialClaim {
 public:
  /// False if another process, or another thread of this one, works on the trial.
  explicit TrialClaim(const std::string& folder);
  TrialClaim(const TrialClaim&) = delete;
  TrialClaim& operator=(const TrialClaim&) = delete;
  ~TrialClaim();
  explicit operator bool() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

/// The state of a trial after the rung of this many epochs, if it has been trained that far.
std::optional<TrialStatus> read_outcome(const std::string& folder, std::int64_t epochs);
/// Called by the holder of the claim.
void write_outcome(const std::string& folder, std::int64_t epochs, const TrialStatus& status);
/// A resumed search retries what failed.
void forget_failure(const std::string& folder);

}  // namespace tern::tool

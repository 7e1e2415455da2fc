#pragma once
// What the processes of one search tell each other, in the folder of a trial: who works on it, and how it stood after
// each rung.

#include <optional>
#include <string>

#include "tune_runner.hpp"

namespace tern::tool {

/// A trial that this process works on. It is a lock on a file: a process that dies lets go of it, and another one goes
/// on from the trial's checkpoint.
class TrialClaim {
 public:
  /// False where another process, or another thread of this one, works on the trial.
  explicit TrialClaim(const std::string& folder);
  TrialClaim(const TrialClaim&) = delete;
  TrialClaim& operator=(const TrialClaim&) = delete;
  ~TrialClaim();
  explicit operator bool() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

/// How a trial stood after the rung of so many epochs, where somebody has brought it there.
std::optional<TrialStatus> read_outcome(const std::string& folder, std::int64_t epochs);
/// By the holder of the claim.
void write_outcome(const std::string& folder, std::int64_t epochs, const TrialStatus& status);
/// A search that is taken up again tries once more what failed.
void forget_failure(const std::string& folder);

}  // namespace tern::tool

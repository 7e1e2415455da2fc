#pragma once
// What the engines of a team run.

#include <atomic>
#include <cstdint>
#include <exception>

#include "vectorized/team.hpp"
#include "vectorized/worth.hpp"

namespace tern::vectorized {

/// One call of run_team, on its caller's stack.
class TeamCall {
 public:
  /// `timed`: whether parts record their processor time.
  TeamCall(const TeamWork& work, bool timed) : work_(work), timed_(timed) {}

  int parts() const { return work_.parts; }
  int phases() const { return work_.phases; }

  /// Called by any thread. Keeps the exception of the part, and then skips parts that have not begun.
  void run(int part, int phase);

  /// Whether a part has thrown. Between two phases all threads get the same answer.
  bool failed() const { return failed_.load(); }
  void rethrow() const {
    if (failed()) std::rethrow_exception(failure_);
  }
  Worth::Time processor_time() const { return Worth::Time(processor_time_.load()); }

 private:
  const TeamWork work_;
  const bool timed_;
  std::atomic<std::int64_t> processor_time_{0};  // of the parts, in nanoseconds
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

// Each runs all phases; later ones do not run after a part has thrown.
void run_on_workers(TeamCall& call);
void run_on_openmp(TeamCall& call);

}  // namespace tern::vectorized

#pragma once
// The worker threads beneath this mode's operators, one set for the whole process. Work is cut into parts that any
// thread may take, so nobody ever waits for a thread that has not come: a caller whose workers do not run, because
// other processes hold the cores or the system grants no thread, does all parts itself.

namespace tern::vectorized {

/// Parts in phases: every part of a phase ends before one of the next begins.
struct TeamWork {
  void (*run)(void* body, int part, int parts, int phase);
  void* body;
  int parts, phases;
};

/// The most parts that a team's work may have.
inline constexpr int most_threads = 256;

/// Runs all parts on this thread and on the workers that are free, and starts workers where there are fewer than
/// parts. What the first part to throw throws reaches the caller, when the phase has ended; later phases do not run.
void run_team(const TeamWork& work);

/// Whether this thread runs a part now.
bool in_team();

/// TERN_TEAMS=always shares out all work, also short work and beside other processes, which is slower: for tests of
/// what threads do.
extern const bool teams_always;

}  // namespace tern::vectorized

#pragma once
// The threads beneath this mode's operators, in one of two engines. The workers (team_workers.cpp) are threads of the
// library's own: they get on with busy cores, forked processes and ThreadSanitizer. OpenMP (team_openmp.cpp) shares its
// threads with the regions of the program, and OMP_PROC_BIND, OMP_PLACES and OMP_WAIT_POLICY hold for it.

namespace tern::vectorized {

/// Parts in phases: every part of a phase ends before one of the next begins.
struct TeamWork {
  void (*run)(void* body, int part, int parts, int phase);
  void* body;
  int parts, phases;
};

/// The most parts that a team's work may have.
inline constexpr int most_threads = 256;

/// Runs all parts on this thread and on others, or alone where that is faster (worth.hpp). What the first part to throw
/// throws reaches the caller, when the phase has ended; later phases do not run.
void run_team(const TeamWork& work);

/// Whether this thread runs a part now.
bool in_team();

enum class TeamEngine { workers, openmp };

/// The engine of this process: TERN_TEAM=workers or openmp, else the workers. A forked process has the workers, since
/// OpenMP's threads stay behind. Throws DeviceUnavailable for another word, and where this build has no OpenMP.
TeamEngine team_engine();

/// TERN_TEAMS=always shares out all work, also short work and beside other processes, which is slower: for tests of
/// what threads do.
extern const bool teams_always;

}  // namespace tern::vectorized

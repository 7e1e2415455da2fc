#pragma once
// The threads beneath this mode's operators, in one of two engines. The workers (team_workers.cpp) are the library's
// own threads: they cope with busy cores, forked processes and ThreadSanitizer. OpenMP (team_openmp.cpp) shares its
// threads with the program's regions, and OMP_PROC_BIND, OMP_PLACES and OMP_WAIT_POLICY apply to it.

namespace tern::vectorized {

/// Parts in phases: every part of a phase ends before one of the next begins.
struct TeamWork {
  void (*run)(void* body, int part, int parts, int phase);
  void* body;
  int parts, phases;
};

/// The largest number of parts of a team's work.
inline constexpr int most_threads = 256;

/// Runs all parts on this thread and on others, or alone if that is faster (worth.hpp). The first exception of a part
/// reaches the caller when the phase has ended; later phases do not run.
void run_team(const TeamWork& work);

/// Whether this thread is running a part.
bool in_team();

enum class TeamEngine { workers, openmp };

/// The engine of this process: TERN_TEAM=workers or openmp; the default is the workers. A forked process uses the
/// workers, since OpenMP's threads do not survive a fork. Throws DeviceUnavailable for another word, and if this build
/// has no OpenMP.
TeamEngine team_engine();

/// TERN_TEAMS=always divides all work, also short work and beside other processes, which is slower: for tests of
/// threading.
extern const bool teams_always;

}  // namespace tern::vectorized

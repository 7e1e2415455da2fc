#pragma once
// --restarts: runs the work as a separate program, which is restarted when a rank is lost.

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"

namespace tern::tool {

struct Restarts {
  std::string work = {};                ///< what ends: "training"
  std::int64_t times = 0;               ///< at most
  std::string launcher = {};            ///< words that start the processes; empty: mpirun, or none if ranks are threads
  std::string parallel = {};            ///< threads or mpi
  std::int64_t ranks = 0;               ///< for mpirun
  std::int64_t rank_limit = 0;          ///< seconds
  std::string folder = {};              ///< that the first rank locks (FolderLock)
  std::string begun = {};               ///< a file in it that is created when the work begins, and grows
  std::vector<std::string> saved = {};  ///< options with a value that --resume takes from the folder
  bool first_ends = false;              ///< whether the work is over when the first rank unlocks the folder
};

/// Runs `tern VERB` with the command line's words after those of the launcher, and again with --resume if it ended
/// because a rank was killed, failed or did not arrive, or if the launcher hangs after its ranks have ended. It stops
/// for what the user must fix (the command line, a file, a missing device) and for a signal to this process, which is
/// passed on. What was in the folder before the first attempt is resumed only with --resume. Returns the last exit
/// code. Throws UsageError inside mpirun, which ends all ranks and so cannot restart them.
int run_with_restarts(const Restarts& restarts, const std::string& verb, const std::vector<std::string>& words,
                      const OptionNames& chosen);

}  // namespace tern::tool

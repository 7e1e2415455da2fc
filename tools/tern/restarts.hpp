#pragma once
// --restarts: the work as a program of its own, which is started again when a rank was lost.

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"

namespace tern::tool {

struct Restarts {
  std::string work = {};        ///< what ends: "training"
  std::int64_t times = 0;       ///< at most
  std::string launcher = {};    ///< words that start the processes; empty: mpirun, or none where ranks are threads
  std::string parallel = {};    ///< threads or mpi
  std::int64_t ranks = 0;       ///< for mpirun
  std::int64_t rank_limit = 0;  ///< seconds
  std::string folder = {};      ///< that the first rank keeps (FolderLock)
  std::string begun = {};       ///< a file in it that is made anew when the work begins, and grows
  std::vector<std::string> saved = {};  ///< options with a value that --resume takes from the folder
  bool first_ends = false;              ///< whether the work is over when the first rank lets go of the folder
};

/// Runs `tern VERB` with the words of the command line behind those of the launcher, and again with --resume where it
/// ended because a rank was killed, failed or did not come, or where what started the ranks does not end with them.
/// What the user has to mend ends it: the command line, a file, a missing device; so does a signal to this process,
/// which is passed on. What was in the folder before the first attempt is not taken up, but for --resume. Returns the
/// last exit code. Throws UsageError inside of mpirun, which ends all ranks and so cannot start again.
int run_with_restarts(const Restarts& restarts, const std::string& verb, const std::vector<std::string>& words,
                      const OptionNames& chosen);

}  // namespace tern::tool

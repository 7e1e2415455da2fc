#pragma once
// --restarts: a training as a program of its own, which is started again when a rank was lost.

#include <string>
#include <vector>

#include "options.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Runs `tern VERB` with the words of the command line behind the words of --launcher (`mpirun -n RANKS` for
/// processes), and again with --resume, at most settings.restarts times, where it ended because a rank was killed,
/// failed or did not come. What the user has to mend ends it: the command line, a file, a missing device; so does a
/// signal to this process, which is passed on. What was in the run folder before the first attempt is not taken up, but
/// for --resume. Returns the last exit code. Throws UsageError inside of mpirun, which ends all ranks and so cannot
/// start again.
int run_with_restarts(const Settings& settings, const std::string& verb, const std::vector<std::string>& words,
                      const Given& given);

}  // namespace tern::tool

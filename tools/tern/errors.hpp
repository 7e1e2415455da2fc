#pragma once
// How the program ends, and the errors that are the program's own. What the library throws becomes an exit code
// by `exit_code`.

#include <exception>
#include <string>

#include "tern/core/error.hpp"

namespace tern::tool {

enum ExitCode : int {
  success = 0,
  failed = 1,        ///< something went wrong while working: the loss is NaN, memory ran out
  usage = 2,         ///< the command line, or settings that do not go together
  bad_data = 3,      ///< a file or a data set: missing, malformed, not to be written
  no_device = 4,     ///< the mode is missing, or its device failed to start
  rank_lost = 5,     ///< another rank failed or did not come, or makes other calls
  interrupted = 130  ///< by Ctrl-C; 143 by SIGTERM
};

/// The command line asks for something that does not exist or does not go together.
class UsageError : public Error {
  using Error::Error;
};

/// The code with which the program ends on this error.
inline int exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return usage;
  if (dynamic_cast<const FileError*>(&error) != nullptr) return bad_data;
  if (dynamic_cast<const DeviceUnavailable*>(&error) != nullptr) return no_device;
  if (dynamic_cast<const ParallelError*>(&error) != nullptr) return rank_lost;
  return failed;
}

}  // namespace tern::tool

#pragma once
// Exit codes, and the errors of the program itself. `exit_code` maps what the library throws.

#include <exception>
#include <string>

#include "tern/core/error.hpp"

namespace tern::tool {

enum ExitCode : int {
  success = 0,
  failed = 1,        ///< something went wrong while working: the loss is NaN, memory ran out
  usage = 2,         ///< the command line, or contradictory settings
  bad_data = 3,      ///< a file or a data set: missing, malformed, not writable
  no_device = 4,     ///< the mode is missing, or its device failed to start
  rank_lost = 5,     ///< another rank failed, did not arrive or makes other calls
  interrupted = 130  ///< by Ctrl-C; 143 by SIGTERM
};

/// The command line requests something that does not exist, or options that exclude each other.
class UsageError : public Error {
  using Error::Error;
};

/// The program's exit code for this error.
inline int exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return usage;
  if (dynamic_cast<const FileError*>(&error) != nullptr) return bad_data;
  if (dynamic_cast<const DeviceUnavailable*>(&error) != nullptr) return no_device;
  if (dynamic_cast<const ParallelError*>(&error) != nullptr) return rank_lost;
  return failed;
}

}  // namespace tern::tool

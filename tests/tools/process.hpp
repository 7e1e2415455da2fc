#pragma once
// Runs the program tern as a person does: arguments in, exit code and words out.

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tern::testing {

struct Outcome {
  int code = -1;                ///< exit code; 128 + signal for a process that was killed
  bool timed_out = false;       ///< it ran past the limit and was killed
  std::string out, err;         ///< what it wrote
  std::int64_t peak_bytes = 0;  ///< of memory; 0 under a sanitizer, whose own memory is not the program's
};

struct ProcessOptions {
  double seconds = 60;
  std::string folder = {};                    ///< to run in; empty: the present one
  std::vector<std::string> environment = {};  ///< "NAME=VALUE", or "NAME" to remove it
  bool terminal = false;                      ///< standard error is a terminal of 100 columns
  std::int64_t address_space = 0;             ///< most bytes of address space; 0: no limit
  bool nobody = false;                        ///< as an unprivileged user, where this is root
};

/// A program that runs.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Also while another thread waits.
  void signal(int number);
  bool running();
  /// Waits for the end, or kills it after the limit.
  Outcome wait();
  /// What it wrote to standard error so far.
  std::string err_so_far();

 private:
  void drain();
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  double deadline_ = 0;
  Outcome outcome_;
  std::mutex mutex_;  // for ended_: a process that is no more gets no signal
  bool ended_ = false;
};

/// The program tern of this build.
extern const char* const program_path;

/// `tern ARGUMENTS...`
Outcome tern(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

}  // namespace tern::testing

#pragma once
// Training in several ranks: its options, and what the first rank sends the others. Only the first one owns the run
// folder, the screen and the signals.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "options.hpp"
#include "settings.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/modes/mode.hpp"
#include "tern/parallel/group.hpp"

namespace tern::tool {

/// --ranks, --parallel, --shards, --rank-limit, and the options below.
Options rank_options(Settings& settings);
/// --restarts and --launcher.
Options restart_options(Settings& settings);

/// Fills in the number of shards; there are `ranks`. Throws UsageError if they do not fit together.
void complete_ranks(Settings& settings, int ranks);

/// Ranks take the mode's devices in turn: "cuda", "cuda:1", "cuda", ...; all take a device that is named.
std::string device_of_rank(const Mode& mode, int rank);

/// The first rank's value.
int agreed(const parallel::Group& group, int own);
inline bool agreed(const parallel::Group& group, bool own) { return agreed(group, own ? 1 : 0) != 0; }

/// Throws UsageError in all ranks if some have other options than the first: the result would match no command line.
/// Options for the first rank only, such as --quiet, may differ.
void check_same_options(const parallel::Group& group, const Options& options);
/// Throws FileError in all ranks if some read other data than the first: `text` describes what this one has read.
void check_same_data(const parallel::Group& group, const std::string& what, const std::string& text);

/// The first rank's options, in all.
void share_settings(const parallel::Group& group, const Options& options);

/// The first rank's checkpoint, in all.
void share_checkpoint(const parallel::Group& group, io::Checkpoint& checkpoint);

/// Runs `program` in each of the processes that mpirun started, also if one of them stops before all have begun or
/// after all are done. Returns its result.
int run_processes(const parallel::LaunchOptions& options, const std::function<int(const parallel::Group&)>& program);

/// MPI has no time limit for its start and end, nor a GPU for its waits. If the process does not finish in time, it
/// ends with this message and the exit code of a lost rank. A limit of 0 is none.
class Deadline {
 public:
  Deadline(std::chrono::seconds limit, std::string words);
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  /// Finished in time.
  ~Deadline();
  /// Restarts the period.
  void renew();
  /// Limits the time for the end of the process from here on.
  static void of_the_end(std::chrono::seconds limit, std::string words);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tern::tool

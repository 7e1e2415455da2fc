#pragma once
// A training in several ranks: its options, and what the first rank tells the others. The first one alone owns the run
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

/// --ranks, --parallel, --shards, --rank-limit, and those below.
Options rank_options(Settings& settings);
/// --restarts and --launcher.
Options restart_options(Settings& settings);

/// Fills in the shards; `ranks` are there. Throws UsageError where they do not go together.
void complete_ranks(Settings& settings, int ranks);

/// Ranks take the devices of the mode in turn: "cuda", "cuda:1", "cuda", ...; all take the one that is named.
std::string device_of_rank(const Mode& mode, int rank);

/// What the first rank says.
int agreed(const parallel::Group& group, int own);
inline bool agreed(const parallel::Group& group, bool own) { return agreed(group, own ? 1 : 0) != 0; }

/// Throws UsageError in all ranks where some were given other options than the first: they would train on something
/// that nobody asked for. What concerns the first one alone, such as --quiet, may differ.
void check_same_options(const parallel::Group& group, const Options& options);
/// Throws FileError in all ranks where some read something else than the first: `text` says what this one has read.
void check_same_data(const parallel::Group& group, const std::string& what, const std::string& text);

/// The options of the first rank, in all.
void share_settings(const parallel::Group& group, const Options& options);

/// The first rank's checkpoint, in all.
void share_checkpoint(const parallel::Group& group, io::Checkpoint& checkpoint);

/// Runs `program` in each of the processes that mpirun started, also where one of them stops before all have begun or
/// after all are done. Returns what it returns.
int run_processes(const parallel::LaunchOptions& options, const std::function<int(const parallel::Group&)>& program);

/// What MPI waits for at its start and its end has no limit of its own, and neither has what a GPU waits for: where the
/// process is not beyond it in time, it ends with these words and the code of a lost rank. A limit of 0 is none.
class Deadline {
 public:
  Deadline(std::chrono::seconds limit, std::string words);
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  /// In time.
  ~Deadline();
  /// The time begins again.
  void renew();
  /// The end of the process has so much time from here on.
  static void of_the_end(std::chrono::seconds limit, std::string words);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tern::tool

#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tune_runner.hpp"

namespace tern::tool {

/// Shows a running search: on a terminal a table that is rewritten, elsewhere a line per trial.
class TuneTable {
 public:
  TuneTable(const TunePlan& plan, bool quiet);
  /// Something has changed; from any thread.
  void update(const TuneRunner& runner);
  /// The last table stays.
  void finish(const TuneRunner& runner);

 private:
  void draw(const TuneRunner& runner, bool all);
  void tell(const std::vector<TrialStatus>& status);

  const TunePlan& plan_;
  bool quiet_, terminal_, colour_;
  std::mutex mutex_;
  double next_ = 0, began_;
  std::size_t lines_ = 0;  // on the terminal
  std::vector<TrialState> reported_;
};

/// The trials from best to worst, one row each.
std::string tune_csv(const TunePlan& plan, const TuneRunner& runner, const std::string& folder);
/// The curves of the trials as a page, best first, without what each run's own report shows; empty if none ran.
std::string tune_report(const TunePlan& plan, const TuneRunner& runner);
/// What the best trial sets, how good it is and where it is stored.
std::string tune_best(const TunePlan& plan, const TuneRunner& runner);
/// "trial-003".
std::string trial_folder(std::size_t trial);

}  // namespace tern::tool

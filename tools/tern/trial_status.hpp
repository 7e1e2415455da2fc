#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern::tool {

enum class TrialState { waiting, running, paused, dropped, done, failed };
const char* name_of(TrialState state);

/// What is known about a trial; observers get a copy.
struct TrialStatus {
  TrialState state = TrialState::waiting;
  std::int64_t epoch = 0;                                     // done
  double loss = 0;                                            // of the last epoch
  std::optional<double> validation_loss = {}, accuracy = {};  // the accuracy of a regression is R2
  std::optional<double> test = {};                            // the same for a test part, which is not used for ranking
  double seconds = 0;                                         // spent on it
  std::string problem = {};                                   // why it failed
};

}  // namespace tern::tool

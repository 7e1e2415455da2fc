#pragma once
// The data and settings of a search's trials.

#include <memory>
#include <vector>

#include "tune_runner.hpp"

namespace tern::tool {

using TrialData = std::vector<std::shared_ptr<const TrainingData>>;

/// The settings of every trial of `plan`, which equal `base` except for what the trial sets, and its data: trials that
/// read the same data share it. Throws as load_training_data.
TrialData load_trials(TunePlan& plan, const Settings& base);
/// Finds contradictions before anything is trained: a UsageError that names the trial.
void check_trials(TunePlan& plan, const TrialData& data);

}  // namespace tern::tool

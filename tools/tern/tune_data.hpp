#pragma once
// What the trials of a search are trained with.

#include <memory>
#include <vector>

#include "tune_runner.hpp"

namespace tern::tool {

using TrialData = std::vector<std::shared_ptr<const TrainingData>>;

/// The settings of every trial of `plan`, which are `base` but for what the trial sets, and its data: trials that read
/// the same share it. Throws what load_training_data throws.
TrialData load_trials(TunePlan& plan, const Settings& base);
/// What cannot work is found before anything is trained: a UsageError that names the trial.
void check_trials(TunePlan& plan, const TrialData& data);

}  // namespace tern::tool

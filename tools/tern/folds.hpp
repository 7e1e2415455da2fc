#pragma once
// Cross-validation: every fold is held out of a training of its own, in a folder of its own; what came of them is put
// together.

#include <functional>
#include <string>

#include "options.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Trains each of `settings.folds` by `train`, which is told its number in `settings.fold` and its folder in
/// `settings.run`, and writes results.csv, results.json and metrics.jsonl into the folder of the whole. With --resume
/// goes on with the settings that are there. Returns the exit code: that of the first fold that did not end.
int train_folds(Settings& settings, const Options& options, const OptionNames& chosen,
                const std::function<int()>& train);

/// Whether --resume finds the folds of a cross-validation in the folder.
bool holds_folds(const std::string& folder);

}  // namespace tern::tool

#pragma once
// Cross-validation: every fold is held out of its own training, in its own folder; the results are combined.

#include <functional>
#include <string>

#include "options.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Trains each of `settings.folds` with `train`, which gets its number in `settings.fold` and its folder in
/// `settings.run`, and writes results.csv, results.json and metrics.jsonl into the common folder. With --resume it
/// continues with the settings found there. Returns the exit code: that of the first fold that failed.
int train_folds(Settings& settings, const Options& options, const OptionNames& chosen,
                const std::function<int()>& train);

/// Whether --resume finds the folds of a cross-validation in the folder.
bool holds_folds(const std::string& folder);

}  // namespace tern::tool

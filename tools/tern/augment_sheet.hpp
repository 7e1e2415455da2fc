#pragma once

#include "data_sets.hpp"
#include "settings.hpp"

namespace tern::tool {

/// Writes the page of --augment-sheet: some training pictures, each with its augmented forms in the first epochs.
/// Throws UsageError for a table.
void write_augment_sheet(const Settings& settings, const TrainingData& data);

}  // namespace tern::tool

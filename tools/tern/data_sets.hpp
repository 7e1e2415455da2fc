#pragma once
// Loads examples: a CSV file, a folder, or a set by name.

#include <string>

#include "training_data.hpp"

namespace tern::tool {

/// Throws FileError with the place, UsageError for settings that make no sense.
TrainingData load_training_data(const Settings& settings);

/// Identifies the data: the examples, which of them are held out, and how they are encoded.
std::string fingerprint_of(const TrainingData& data);

/// The examples of `dataset` in the form that the blueprint's model takes. A set with its own test part provides that
/// part. If `labelled` is false a table may lack the class column; labels are then undefined.
Examples load_test_data(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled);

}  // namespace tern::tool

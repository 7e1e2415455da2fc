#pragma once
// Where examples come from: a CSV file, a folder, or a set by name.

#include <string>
#include <vector>

#include "blueprint.hpp"
#include "settings.hpp"
#include "tern/data/dataset.hpp"

namespace tern::tool {

/// Examples in memory, ready to train on: tables are scaled, images become float when they are batched.
struct TrainingData {
  data::Dataset train, validation;  // `validation` is empty when nothing is held out
  Blueprint blueprint;              // its part about the data
  bool own_test_part = false;       // `validation` is the test part that the set came with
};

/// Throws FileError with the place, UsageError when the settings make no sense.
TrainingData load_training_data(const Settings& settings);

/// Which examples of a set are tested.
enum class Part { all, held_out };

/// The examples of `dataset` as the model of `blueprint` takes them. A set that comes with a test part gives that part.
/// With `labelled` false a table need not have the class column: labels are then undefined.
data::Dataset load_test_data(const Settings& settings, const Blueprint& blueprint, Part part, bool labelled);

/// Images as float32, scaled; features are that already.
Tensor scaled(const Tensor& images, const Blueprint& blueprint);

}  // namespace tern::tool

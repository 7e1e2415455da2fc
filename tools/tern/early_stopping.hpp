#pragma once
// Early stopping: examples set aside from the training decide which epoch's weights are kept. The validation examples,
// whose accuracy is reported, have no part in it.

#include "data_sets.hpp"
#include "settings.hpp"

namespace tern::tool {

/// The training examples in two parts, each class in the same proportion.
struct TrainingParts {
  Examples learning;  // gradients come from these
  Examples stopping;  // empty without early stopping
};
/// The parts that `settings` ask for: a function of the data, the share and the split alone.
TrainingParts divide(const Settings& settings, const TrainingData& data);
/// Whether a share of the examples would be an example at least.
bool divisible(const Settings& settings, const TrainingData& data);

}  // namespace tern::tool

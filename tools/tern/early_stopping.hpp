#pragma once
// Early stopping: examples set aside from the training decide which epoch's weights are kept. Those that are held out,
// whose accuracy is reported, have no part in it.

#include "data_sets.hpp"
#include "settings.hpp"

namespace tern::tool {

/// The training examples in two parts, each class in the same proportion.
struct TrainingParts {
  Examples learning;  // gradients come from these
  Examples stopping;  // decide which epoch is best; empty without early stopping
};
/// The parts that `settings` ask for: a function of the data, the share and the split alone. Where a test part is held
/// out, `stopping` are the validation examples, with early stopping or without.
TrainingParts divide(const Settings& settings, const TrainingData& data);
/// Whether a share of the examples would be an example at least.
bool divisible(const Settings& settings, const TrainingData& data);

}  // namespace tern::tool

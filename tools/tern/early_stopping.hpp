#pragma once
// Early stopping: examples set aside from the training decide which epoch's weights are kept. The held-out examples,
// whose accuracy is reported, have no part in it.

#include "settings.hpp"
#include "training_data.hpp"

namespace tern::tool {

/// The training examples in two parts, stratified by class.
struct TrainingParts {
  Examples learning;  // gradients come from these
  Examples stopping;  // decide which epoch is best; empty without early stopping
};
/// The parts that `settings` request: a function of the data, the share and the split only. If a test part is held out,
/// `stopping` are the validation examples, with or without early stopping.
TrainingParts divide(const Settings& settings, const TrainingData& data);
/// Whether a share of the examples would contain at least one.
bool divisible(const Settings& settings, const TrainingData& data);

}  // namespace tern::tool

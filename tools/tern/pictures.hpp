#pragma once

#include "data_sets.hpp"
#include "evaluation.hpp"

namespace tern::tool {

/// Some predictions to look at, the wrong ones first: what each is, what it was taken for, and its pixels (base64, red,
/// green and blue or grey bytes) or its features.
Json example_predictions(const TrainingData& data, const Blueprint& blueprint, const Prediction& prediction);

/// Of a regression, for a drawing: what is and what was predicted, of at most 1,000 examples spread over all.
Json pairs_of(const Prediction& prediction);

}  // namespace tern::tool

#pragma once

#include "data_sets.hpp"
#include "evaluation.hpp"

namespace tern::tool {

/// The pixels of a scaled image [channels, height, width] for a page: base64 of grey or red, green and blue bytes,
/// n by n of them averaged to one where a side has more than `largest`.
Json pixels_of(const Tensor& image, const data::Scaling& scaling, std::int64_t largest = 96);

/// Some predictions to look at, the wrong ones first: what each is, what it was taken for, and its pixels (base64, red,
/// green and blue or grey bytes) or its features.
Json example_predictions(const TrainingData& data, const Blueprint& blueprint, const Prediction& prediction);

/// Of a regression, for a drawing: what is and what was predicted, of at most 1,000 examples spread over all.
Json pairs_of(const Prediction& prediction);

}  // namespace tern::tool

#pragma once

#include "data_sets.hpp"
#include "evaluation.hpp"

namespace tern::tool {

/// The pixels of a scaled image [channels, height, width] for a page: base64 of grey or red, green and blue bytes. n by
/// n of them are averaged if a side exceeds `largest`.
Json pixels_of(const Tensor& image, const data::Scaling& scaling, std::int64_t largest = 96);

/// Some predictions to look at, wrong ones first: the true class, the predicted one, and its pixels (base64, RGB or
/// grey bytes) or features.
Json example_predictions(const TrainingData& data, const Blueprint& blueprint, const Prediction& prediction);

/// For a plot of a regression: true and predicted values of at most 1,000 examples, spread over all.
Json pairs_of(const Prediction& prediction);

}  // namespace tern::tool

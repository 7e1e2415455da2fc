#pragma once
// The forms of cross_entropy that are composed of other operators: each checks its own inputs, but for the two that it
// hands on.

#include "tern/operators/loss.hpp"

namespace tern::operators {

/// Of logits [N, classes, d...]: every position is a row.
Tensor spread_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
/// The same of nll.
Tensor spread_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options);
Tensor weighted_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options);
/// With probabilities instead of labels.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);
/// With weights of the classes.
Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);

}  // namespace tern::operators

#pragma once
// The forms of cross_entropy that are composed of other operators. Each checks its own inputs, except the two that
// delegate.

#include "tern/operators/loss.hpp"

namespace tern::operators {

/// For logits [N, classes, d...]: every position is a row.
Tensor spread_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
/// The same for nll.
Tensor spread_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options);
Tensor weighted_nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options);
/// With probabilities instead of labels.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);
/// With weights of the classes.
Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);

}  // namespace tern::operators

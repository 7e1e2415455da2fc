#pragma once

#include "tern/kernels/loss.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {
using kernels::Reduce;
}

namespace tern::operators {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this label cost nothing and do not count
  double label_smoothing = 0;        ///< in [0, 1]
  Reduce reduce = Reduce::mean;
};

/// -log(softmax(logits)[label]) fused and stable, never negative. logits [rows, classes], labels [rows] int64.
/// A label out of range is a NumericError (on cuda: at the next wait).
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {});
/// -log_probabilities[label]; log_probabilities [rows, classes] as log_softmax gives them.
Tensor nll(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options = {});

// Pointwise losses: prediction and target have one shape; the target takes no gradient.
/// (prediction - target)^2.
Tensor mse(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);
/// |prediction - target|.
Tensor mae(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);
/// -(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))), stable; x the logits, t in [0, 1].
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::mean);
/// max(0, 1 - t x), t = -1 or 1.
Tensor hinge(const Tensor& prediction, const Tensor& target, Reduce reduce = Reduce::mean);

}  // namespace tern::operators

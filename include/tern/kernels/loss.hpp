#pragma once

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// How a loss combines its values: none, sum or mean.
enum class Reduce : std::uint8_t { none, sum, mean };

/// logits is [rows, classes], labels [rows]. A label equal to `ignore_index` costs nothing and does not count in the
/// mean. Any other label outside [0, classes) makes the loss NaN and is reported: in host modes the caller has checked,
/// on cuda the next wait throws NumericError.
struct CrossEntropy {
  std::int64_t rows = 0, classes = 0;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< in [0, 1]: weight of the uniform distribution over the classes
  Reduce reduce = Reduce::mean;

  using Members = MemberList<&CrossEntropy::rows, &CrossEntropy::classes, &CrossEntropy::ignore_index,
                             &CrossEntropy::label_smoothing, &CrossEntropy::reduce>;
};

/// Losses. `loss` is one value, or [rows] or [n] with Reduce::none; `grad_loss` has the shape of `loss`. A mean over
/// nothing is NaN.
template <class T>
struct Loss {
  /// -sum(target * log_softmax(logits)), never negative. `probabilities`, unless null, receives softmax(logits),
  /// which backward needs; `grad_logits`, unless null, the gradient for a grad_loss of 1: then neither is null.
  Kernel<void(Context&, Scalar<T>* loss, Scalar<T>* probabilities, T* grad_logits, const T* logits,
              const std::int64_t* labels, const CrossEntropy&)>
      cross_entropy;
  /// grad_logits = grad_loss * (probabilities - target), divided by the number of counted rows for the mean.
  Kernel<void(Context&, T* grad_logits, const Scalar<T>* grad_loss, const Scalar<T>* probabilities,
              const std::int64_t* labels, const CrossEntropy&)>
      cross_entropy_backward;

  /// -log_probabilities[row, label]; label_smoothing is 0.
  Kernel<void(Context&, Scalar<T>* loss, const T* log_probabilities, const std::int64_t* labels, const CrossEntropy&)>
      nll;
  Kernel<void(Context&, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels, const CrossEntropy&)>
      nll_backward;

  using Pointwise =
      Kernel<void(Context&, Scalar<T>* loss, const T* prediction, const T* target, std::int64_t n, Reduce)>;
  using PointwiseBackward = Kernel<void(Context&, T* grad_prediction, const Scalar<T>* grad_loss, const T* prediction,
                                        const T* target, std::int64_t n, Reduce)>;
  /// (prediction - target)^2.
  Pointwise mse;
  PointwiseBackward mse_backward;
  /// |prediction - target|; the derivative is 0 where they are equal.
  Pointwise mae;
  PointwiseBackward mae_backward;
  /// max(x, 0) - x t + log1p(exp(-|x|)), x the logit, t in [0, 1]; the derivative is sigmoid(x) - t.
  Pointwise binary_cross_entropy_with_logits;
  PointwiseBackward binary_cross_entropy_with_logits_backward;
  /// max(0, 1 - t x), t = -1 or 1; the derivative is -t where t x < 1, else 0.
  Pointwise hinge;
  PointwiseBackward hinge_backward;

  using Members =
      MemberList<&Loss::cross_entropy, &Loss::cross_entropy_backward, &Loss::nll, &Loss::nll_backward, &Loss::mse,
                 &Loss::mse_backward, &Loss::mae, &Loss::mae_backward, &Loss::binary_cross_entropy_with_logits,
                 &Loss::binary_cross_entropy_with_logits_backward, &Loss::hinge, &Loss::hinge_backward>;
};

}  // namespace tern::kernels

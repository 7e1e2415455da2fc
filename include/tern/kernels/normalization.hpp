#pragma once

#include "tern/kernels/activation.hpp"

namespace tern::kernels {

/// y = x / (k + alpha / size * sum x_j^2)^beta over the channels j in [c - size / 2, c - size / 2 + size) inside [0, C)
/// (integer division). Arrays are [N, C, area], or [N, area, C] with channels last.
struct LocalResponseNorm {
  std::int64_t N = 0, C = 0, area = 0, size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
  Layout layout = Layout::channels_first;

  using Members = MemberList<&LocalResponseNorm::N, &LocalResponseNorm::C, &LocalResponseNorm::area,
                             &LocalResponseNorm::size, &LocalResponseNorm::alpha, &LocalResponseNorm::beta,
                             &LocalResponseNorm::k, &LocalResponseNorm::layout>;
};

/// Arrays are [N, C, area], or [N, area, C] with channels last. Statistics are per channel, over N * area elements.
struct BatchNorm {
  std::int64_t N = 0, C = 0, area = 0;
  double epsilon = 1e-5, momentum = 0.1;
  Layout layout = Layout::channels_first;
  Activation activation = Activation::none;  ///< or relu, or relu6

  using Members = MemberList<&BatchNorm::N, &BatchNorm::C, &BatchNorm::area, &BatchNorm::epsilon, &BatchNorm::momentum,
                             &BatchNorm::layout, &BatchNorm::activation>;
};

/// Rows [rows, length], each with its own statistics. Weights and biases are [groups, length / area], shared by
/// `groups` consecutive rows: element i of row r uses entry r % groups * (length / area) + i / area. Layer
/// normalisation has one group and area 1; group normalisation has the area of a plane. When not centred, the mean is
/// taken as 0.
struct RowNorm {
  std::int64_t rows = 0, length = 0, groups = 1, area = 1;
  double epsilon = 1e-5;
  bool centred = true;

  using Members = MemberList<&RowNorm::rows, &RowNorm::length, &RowNorm::groups, &RowNorm::area, &RowNorm::epsilon,
                             &RowNorm::centred>;
};

/// Normalisations. Weights, biases, their gradients and statistics are float32 beside 16-bit elements. Batch
/// normalisation has statistics [C]; `weight` and `bias` are [C] or both null. Squares may leave
/// the range of T: y and the gradients equal those of exact squares.
template <class T>
struct Normalization {
  Kernel<void(Context&, T* y, const T* x, const LocalResponseNorm&)> local_response_norm;
  Kernel<void(Context&, T* grad_x, const T* grad_y, const T* x, const T* y, const LocalResponseNorm&)>
      local_response_norm_backward;

  /// y = (x - mean) * inverse_deviation * weight + bias with the batch's mean and biased variance, plus `added` (may be
  /// null), then the activation. Saves mean and inverse_deviation = 1 / sqrt(var + epsilon). Unless
  /// running_mean is null, updates both running statistics in place: running = (1 - momentum) running + momentum batch,
  /// with the unbiased variance (biased for one element).
  Kernel<void(Context&, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, Scalar<T>* running_mean,
              Scalar<T>* running_var, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* added,
              const BatchNorm&)>
      batch_norm;
  /// With an activation, y is an input and grad_y first passes through it; the result is grad_added. grad_added is null
  /// if nothing was added; then a mode may recompute y from x, weight and bias. Without one, bias, y and grad_added are
  /// null. grad_weight and grad_bias may both be null; grad_x may be null.
  Kernel<void(Context&, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, T* grad_added, const T* grad_y,
              const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* y, const Scalar<T>* mean,
              const Scalar<T>* inverse_deviation, const BatchNorm&)>
      batch_norm_backward;
  /// y = (x - running_mean) / sqrt(running_var + epsilon) * weight + bias, plus `added` (may be null), then the
  /// activation.
  Kernel<void(Context&, T* y, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* added,
              const Scalar<T>* running_mean, const Scalar<T>* running_var, const BatchNorm&)>
      batch_norm_inference;

  /// y = (x - mean) * inverse_deviation * weight + bias for each row; weight or bias may be null. Saves mean (null if
  /// not centred) and inverse_deviation = 1 / sqrt(mean of (x - mean)^2 + epsilon), both [rows]. There is at least one
  /// row with at least one element.
  Kernel<void(Context&, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, const T* x, const Scalar<T>* weight,
              const Scalar<T>* bias, const RowNorm&)>
      row_norm;
  /// Each gradient may be null.
  Kernel<void(Context&, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, const T* grad_y, const T* x,
              const Scalar<T>* weight, const Scalar<T>* mean, const Scalar<T>* inverse_deviation, const RowNorm&)>
      row_norm_backward;

  using Members =
      MemberList<&Normalization::local_response_norm, &Normalization::local_response_norm_backward,
                 &Normalization::batch_norm, &Normalization::batch_norm_backward, &Normalization::batch_norm_inference,
                 &Normalization::row_norm, &Normalization::row_norm_backward>;
};

}  // namespace tern::kernels

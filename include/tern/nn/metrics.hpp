#pragma once
// Metrics that count in the mode of the scope: `update` only queues work, and the host waits once, where the value is
// read. The counters live on from update to update, so an update may be part of a Step.

#include "tern/core/tensor.hpp"

namespace tern::nn {

/// The share of rows of logits [rows, classes] whose largest element is at labels [rows] (int64).
double accuracy(const Tensor& logits, const Tensor& labels);

/// Accuracy over many batches.
class Accuracy {
 public:
  Accuracy();
  void update(const Tensor& logits, const Tensor& labels);
  /// Rows seen, and those that were right.
  std::int64_t count() const;
  std::int64_t correct() const;
  /// NaN before the first update.
  double value() const;
  void reset();

 private:
  Tensor totals_;  // float64 [2]: right, seen
};

/// Mean of one-element tensors, such as the losses of an epoch, each counting `weight` times.
class Mean {
 public:
  Mean();
  void update(const Tensor& value, double weight = 1);
  /// NaN before the first update.
  double value() const;
  void reset();

 private:
  Tensor totals_;  // float64 [2]: sum, weights
};

/// How often rows of each class (row of the matrix) were taken for each class (column).
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);
  void update(const Tensor& logits, const Tensor& labels);
  /// int64 [classes, classes].
  Tensor value() const;
  void reset();

 private:
  std::int64_t classes_;
  Tensor counts_;  // float64 [classes, classes]
};

}  // namespace tern::nn

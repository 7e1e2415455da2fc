#pragma once
// Metrics that count in the mode of the scope. `update` only queues work; the host waits once, when it reads the value.
// The counters persist between updates, so an update may be part of a Step.

#include "tern/tensor/create.hpp"

namespace tern::nn {

/// The counters of a metric, float64. A copy continues to count separately. Assignment writes into the existing
/// counters, so that a recorded Step continues with them.
class Counters {
 public:
  explicit Counters(const Shape& shape) : tensor_(zeros(shape, DType::float64)) {}
  Counters(const Counters& other) : tensor_(other.tensor_.clone()) {}
  Counters& operator=(const Counters& other);
  ~Counters() = default;
  Tensor& operator*() { return tensor_; }
  const Tensor& operator*() const { return tensor_; }

 private:
  Tensor tensor_;
};

/// How many rows of logits [rows, classes] have their largest element at the label, as float64 [1], without a wait.
/// Labels are [rows] (int64), or [rows, classes] probabilities, of which the largest counts.
Tensor count_right(const Tensor& logits, const Tensor& labels);

/// The fraction of rows of logits [rows, classes] whose largest element is at labels [rows] (int64).
double accuracy(const Tensor& logits, const Tensor& labels);

/// Accuracy over many batches.
class Accuracy {
 public:
  void update(const Tensor& logits, const Tensor& labels);
  /// Rows seen, and rows that were right.
  std::int64_t count() const;
  std::int64_t correct() const;
  /// NaN before the first update.
  double value() const;
  void reset();

 private:
  Counters totals_{{2}};  // right, seen
};

/// Mean of one-element tensors, such as the losses of an epoch, each counted `weight` times.
class Mean {
 public:
  void update(const Tensor& value, double weight = 1);
  /// NaN before the first update.
  double value() const;
  void reset();

 private:
  Counters totals_{{2}};  // sum, weights
};

/// How often each true class (row of the matrix) was predicted as each class (column).
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);
  void update(const Tensor& logits, const Tensor& labels);
  /// int64 [classes, classes].
  Tensor value() const;
  void reset();

 private:
  std::int64_t classes_;
  Counters counts_;  // [classes, classes]
};

}  // namespace tern::nn

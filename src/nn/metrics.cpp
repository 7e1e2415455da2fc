#include "tern/nn/metrics.hpp"

#include <limits>

#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

namespace tern::nn {
namespace {

void check(const char* metric, const Tensor& logits, const Tensor& labels) {
  expects<ShapeError>(logits.rank() == 2 && labels.rank() == 1 && labels.size(0) == logits.size(0), metric,
                      ": expected logits [rows,classes] and labels [rows], came ", logits.shape(), " and ",
                      labels.shape());
  expects<DTypeError>(labels.dtype() == DType::int64, metric, ": labels are int64, not ", labels.dtype());
}

double ratio(const Tensor& totals) {
  const auto values = totals.values();
  return values[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : values[0] / values[1];
}

/// totals[0] += first; totals[1] += second.
void accumulate(Tensor& totals, const Tensor& first, double second) {
  totals.slice(0, 0, 1).copy_(totals.slice(0, 0, 1) + first);
  totals.slice(0, 1, 2).copy_(totals.slice(0, 1, 2) + second);
}

}  // namespace

Tensor count_right(const Tensor& logits, const Tensor& labels) {
  const NoGrad no_grad;
  const Tensor wanted = labels.rank() == 2 ? operators::argmax(labels) : labels;
  check("count_right", logits, wanted);
  // Operators compute in floating types; a float64 represents every label below 2^53.
  const Tensor right = operators::equal(operators::argmax(logits).to(DType::float64), wanted.to(DType::float64));
  return operators::sum(right.to(DType::float64), {0}, true);
}

Counters& Counters::operator=(const Counters& other) {
  tensor_.copy_(other.tensor_);
  return *this;
}

double accuracy(const Tensor& logits, const Tensor& labels) {
  Accuracy metric;
  metric.update(logits, labels);
  return metric.value();
}

void Accuracy::update(const Tensor& logits, const Tensor& labels) {
  check("accuracy", logits, labels);
  const NoGrad no_grad;
  accumulate(*totals_, count_right(logits, labels), static_cast<double>(labels.numel()));
}

std::int64_t Accuracy::count() const { return static_cast<std::int64_t>((*totals_).values()[1]); }
std::int64_t Accuracy::correct() const { return static_cast<std::int64_t>((*totals_).values()[0]); }
double Accuracy::value() const { return ratio(*totals_); }
void Accuracy::reset() { (*totals_).fill_(0); }

void Mean::update(const Tensor& value, double weight) {
  expects<ShapeError>(value.numel() == 1, "mean: expected one element, found ", value.shape());
  const NoGrad no_grad;
  accumulate(*totals_, value.reshape({1}).to(DType::float64) * weight, weight);
}

double Mean::value() const { return ratio(*totals_); }
void Mean::reset() { (*totals_).fill_(0); }

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes), counts_({classes, classes}) {}

void ConfusionMatrix::update(const Tensor& logits, const Tensor& labels) {
  check("confusion matrix", logits, labels);
  expects<ShapeError>(logits.size(1) == classes_, "confusion matrix: ", classes_, " classes, but logits ",
                      logits.shape());
  const NoGrad no_grad;
  const Tensor actual = operators::one_hot(labels, classes_, DType::float64);
  const Tensor taken = operators::one_hot(operators::argmax(logits), classes_, DType::float64);
  (*counts_).copy_(*counts_ + operators::matmul(actual, taken, {.transpose_a = true}));
}

Tensor ConfusionMatrix::value() const { return (*counts_).to(DType::int64); }
void ConfusionMatrix::reset() { (*counts_).fill_(0); }

}  // namespace tern::nn

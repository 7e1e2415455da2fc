#include "tern/nn/metrics.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;

namespace {
const Tensor logits = tensor({1.f, 2.f, 0.f, 3.f, 1.f, 1.f, 0.f, 0.f, 9.f, -1.f, -2.f, -3.f}, {4, 3});  // 1 0 2 0
const Tensor labels = tensor<std::int64_t>({1, 0, 1, 0});
}  // namespace

TEST_CASE("metrics: accuracy", "[nn]") {
  CHECK(nn::accuracy(logits, labels) == 0.75);
  nn::Accuracy metric;
  CHECK(std::isnan(metric.value()));
  metric.update(logits, labels);
  metric.update(logits.slice(0, 2, 3), labels.slice(0, 2, 3));
  CHECK(metric.count() == 5);
  CHECK(metric.correct() == 3);
  CHECK(metric.value() == Approx(0.6));
  metric.reset();
  CHECK(metric.count() == 0);
  CHECK_THROWS_AS(metric.update(logits, labels.slice(0, 0, 2)), ShapeError);
  CHECK_THROWS_AS(metric.update(logits, ones({4})), DTypeError);
}

TEST_CASE("metrics: running mean", "[nn]") {
  nn::Mean mean;
  CHECK(std::isnan(mean.value()));
  mean.update(scalar(2.0f), 3);
  mean.update(scalar(6.0), 1);
  CHECK(mean.value() == Approx(3));
  CHECK_THROWS_AS(mean.update(ones({2})), ShapeError);
  mean.reset();
  mean.update(tensor({5.0f}));
  CHECK(mean.value() == 5);
}

TEST_CASE("metrics: confusion matrix", "[nn]") {
  nn::ConfusionMatrix matrix(3);
  matrix.update(logits, labels);
  matrix.update(logits, labels);
  const Tensor counts = matrix.value();
  CHECK(counts.dtype() == DType::int64);
  CHECK(counts.to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 0, 0, 0, 2, 2, 0, 0, 0});
  CHECK_THROWS_AS(nn::ConfusionMatrix(4).update(logits, labels), ShapeError);
}

// Arguments that do not go together, beside those of the catalogue: each is a typed error.

#include <cmath>

#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

TEST_CASE("mistakes: shapes", "[operators]") {
  CHECK_THROWS_AS(op::add(ones({2}), ones({0})), ShapeError);
  CHECK_THROWS_AS(op::conv2d(ones({1, 4, 5, 5}), ones({4, 4, 3, 3}), {}, {.groups = 2}), ShapeError);
  CHECK_THROWS_AS(
      op::conv2d_cat({{ones({1, 16, 5, 5}), ones({16, 16, 1, 1})}, {ones({2, 16, 5, 5}), ones({16, 16, 1, 1})}}),
      ShapeError);
  CHECK_THROWS_AS(op::cross_entropy(ones({3, 2}), zeros({2}, DType::int64)), ShapeError);
  CHECK_THROWS_AS(op::cross_entropy(ones({2, 2}), zeros({3}, DType::int64)), ShapeError);
  CHECK_THROWS_AS(op::max_pool2d(ones({1, 1, 9, 9}), {3, 4}, {.padding = {1, 3}}), ShapeError);
  CHECK_THROWS_AS(op::avg_pool2d(ones({1, 1, 9, 9}), {4, 3}, {.padding = {3, 1}}), ShapeError);
  CHECK_THROWS_AS(op::adaptive_avg_pool2d(ones({1, 1, 5, 5}), {1, 0}), ShapeError);
}

TEST_CASE("mistakes: convolutions of two dtypes are not joined", "[operators]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device{mode};
    const Tensor one = ones({1, 16, 8, 8}), other = ones({1, 16, 8, 8}, DType::float64);
    CHECK_THROWS_AS(op::conv2d_cat({{one, ones({16, 16, 3, 3})}, {other, ones({16, 16, 3, 3}, DType::float64)}}),
                    DTypeError);
  }
}

TEST_CASE("mistakes: numbers", "[operators]") {
  CHECK_THROWS_AS(op::clamp(ones({2}), 0, std::nan("")), NumericError);
  CHECK_THROWS_AS(op::clamp(ones({2}), std::nan(""), 0), NumericError);
  const Tensor labels = zeros({2}, DType::int64);
  CHECK_THROWS_AS(op::cross_entropy(ones({2, 2}), labels, {.label_smoothing = -0.1}), NumericError);
  CHECK_THROWS_AS(op::cross_entropy(ones({2, 2}), labels, {.label_smoothing = 1.1}), NumericError);
}

TEST_CASE("mistakes: an index that is none is named on the host", "[operators]") {
  const Tensor source = ones({1, 2});
  for (const char* const mode : {"sequential", "vectorized"})
    for (const std::int64_t bad : {4, -1}) {
      const Device device{mode};
      const Tensor index = tensor<std::int64_t>({0, bad}, {1, 2});
      CHECK_THROWS_AS(op::scatter(ones({2, 4}), 1, index, source), NumericError);
      CHECK_THROWS_AS(op::scatter_add(ones({2, 4}), 1, index, source), NumericError);
    }
}

TEST_CASE("mistakes: a loss takes no gradient of its target", "[operators]") {
  const Tensor x = ones({3}).set_requires_grad(), target = ones({3}).set_requires_grad();
  CHECK_THROWS_AS(op::mse(x, target), AutogradError);
  CHECK_THROWS_AS(op::mae(ones({3}), target), AutogradError);
  CHECK_NOTHROW(op::mse(x, target.detach()));
}

TEST_CASE("mistakes: what changes in place is contiguous, and statistics come together", "[operators]") {
  const Tensor x = ones({2, 3, 4}), weight = ones({3}), bias = zeros({3}), mean = zeros({3}), variance = ones({3});
  CHECK_THROWS_AS(op::batch_norm(x, weight, bias, mean, {}), Error);
  CHECK_THROWS_AS(op::batch_norm(x, weight, bias, {}, variance), Error);
  const Tensor apart = ones({3, 2}).slice(1, 0, 1).squeeze(1);
  REQUIRE(!apart.is_contiguous());
  CHECK_NOTHROW(op::batch_norm(x, weight, bias, apart, variance));  // torch_test.cpp says what it writes
  CHECK_THROWS_AS(op::sgd({ones({3})}, {ones({3})}, {apart}, ones({1}), {.momentum = 0.9}), ShapeError);
  CHECK_THROWS_AS(op::sgd({apart}, {ones({3})}, {}, ones({1}), {}), ShapeError);
  const Tensor moment = zeros({3});
  CHECK_THROWS_AS(op::adam({ones({3})}, {ones({3})}, {moment}, {moment}, ones({1}), zeros({2}, DType::int64), {}),
                  DTypeError);
}

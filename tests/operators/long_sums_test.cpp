// Sums of many terms, statistics of large planes, and what lies at the edges of a dtype's range.

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

double largest(const Tensor& x) { return op::max(op::abs(x)).item(); }

}  // namespace

TEST_CASE("long sums: a plane of equal numbers is 0 when it is normalised", "[operators]") {
  const Device device("vectorized");
  for (const std::int64_t size : {224, 512, 1024}) {
    INFO(size);
    const Tensor x = full({1, 1, size, size}, 1000.1F);
    Tensor mean = zeros({1}), var = ones({1});
    CHECK(largest(op::batch_norm(x, {}, {}, mean, var, {.momentum = 1})) < 1e-3);
    CHECK(mean.item() == Approx(1000.1F).epsilon(1e-7));
    CHECK(largest(op::instance_norm(x)) < 1e-3);
    CHECK(largest(op::group_norm(x, 1)) < 1e-3);
    CHECK(largest(op::layer_norm(x.reshape({1, size * size}), {size * size})) < 1e-3);
  }
  // Channels last, and rows that begin elsewhere.
  const Tensor last = full({1, 300, 300, 8}, 1000.1F).permute({0, 3, 1, 2});
  CHECK(largest(op::batch_norm(last, {}, {}, {}, {})) < 1e-3);
}

TEST_CASE("long sums: the gradients of normalised planes add up all positions", "[operators]") {
  const Device device("vectorized");
  constexpr std::int64_t size = 2048;
  const Tensor x = randn({1, 1, size, size});
  const auto bias_of = [&](const auto& normalise) {
    Tensor weight = ones({1}).set_requires_grad(), bias = zeros({1}).set_requires_grad();
    normalise(weight, bias).backward(full({1, 1, size, size}, 0.1F));
    return bias.grad().item();
  };
  const double exact = static_cast<double>(0.1F) * size * size;
  CHECK(bias_of([&](const Tensor& w, const Tensor& b) { return op::batch_norm(x, w, b, {}, {}); }) ==
        Approx(exact).epsilon(1e-6));
  CHECK(bias_of([&](const Tensor& w, const Tensor& b) { return op::group_norm(x, 1, w, b); }) ==
        Approx(exact).epsilon(1e-6));
}

TEST_CASE("long sums: variances whose squares leave the range", "[operators]") {
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    for (const Shape& shape : {Shape{1, 100}, Shape{1, 10000}, Shape{100, 3}, Shape{10000, 3}}) {
      Tensor x(shape);
      std::int64_t i = 0;
      for (float& value : x.write<float>()) value = i++ / (shape[1] == 3 ? 3 : 1) % 2 == 0 ? 1e19F : -1e19F;
      const std::int64_t dim = shape[1] == 3 ? 0 : 1;
      const Tensor var = op::var(x, dim, 0);
      for (const double value : var.values()) CHECK(value == Approx(1e38).epsilon(1e-5));
    }
    CHECK(std::isinf(op::var(tensor<float>({1e20F, -1e20F}), 0, 0).item()));
    CHECK(std::isnan(op::var(tensor<float>({1, std::numeric_limits<float>::infinity()}), 0, 0).item()));
  }
}

TEST_CASE("long sums: equal numbers have no deviation", "[operators]") {
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    for (const double value : {0.37461, 0.1, 1e300, -7e-5}) {
      Tensor x = full({8}, value, DType::float64).set_requires_grad();
      const Tensor std = op::std(x, {0}, 0);
      CHECK(std.item() == 0);
      CHECK(op::var(x, {0}, 0).item() == 0);
      std.backward();
      for (const double gradient : x.grad().values()) CHECK(gradient == 0);
    }
  }
}

TEST_CASE("cross_entropy: a class that is no target costs nothing, even when it is impossible", "[operators]") {
  constexpr float never = -std::numeric_limits<float>::infinity();
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    Tensor logits = tensor<float>({1, 2, never, 3, never, 0}, {2, 3}).set_requires_grad();
    const Tensor targets = tensor<float>({0.25F, 0.75F, 0, 1, 0, 0}, {2, 3});
    const Tensor loss = op::cross_entropy(logits, targets);
    const double first = 0.25 * std::log1p(std::exp(1.0)) + 0.75 * std::log1p(std::exp(-1.0));
    CHECK(loss.item() == Approx((first + std::log1p(std::exp(-3.0))) / 2));
    loss.backward();
    for (const double gradient : logits.grad().values()) CHECK(std::isfinite(gradient));
    CHECK(logits.grad().values()[2] == 0);
    // The labels' say the same.
    const Tensor rows = tensor<float>({1, never, 3}, {1, 3});
    CHECK(op::cross_entropy(rows, tensor<float>({1, 0, 0}, {1, 3})).item() ==
          Approx(op::cross_entropy(rows, tensor<std::int64_t>({0})).item()));
    // An impossible target costs everything.
    CHECK(std::isinf(op::cross_entropy(rows, tensor<float>({0.5F, 0.5F, 0}, {1, 3})).item()));
  }
}

TEST_CASE("conv2d: padding beyond all memory is computed or refused, like a stride", "[operators]") {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const char* name : {"sequential", "vectorized"}) {
    INFO(name);
    const Device device(name);
    const Tensor x = ones({1, 1, 2, 2}), one = ones({1, 1, 1, 1});
    const Tensor y = op::conv2d(x, one, {}, {.stride = most, .padding = most});
    CHECK(y.values() == Values{0, 0, 0, 0, 1, 0, 0, 0, 0});
    Tensor image = ones({1, 1, 2, 2}).set_requires_grad(), weight = ones({1, 1, 1, 1}).set_requires_grad();
    op::sum(op::conv2d(image, weight, {}, {.stride = most, .padding = most})).backward();
    CHECK(image.grad().values() == Values{1, 0, 0, 0});
    CHECK(weight.grad().item() == 1);
  }
}

TEST_CASE("div: nothing divided by 0 is nothing", "[operators]") {
  for (const char* name : {"sequential", "vectorized", "debug"}) {
    INFO(name);
    const Device device(name);
    const Tensor none = zeros({0}, DType::int32), zero = zeros({1}, DType::int32);
    CHECK(op::div(none, zero).numel() == 0);
    CHECK(op::fmod(none, zero).numel() == 0);
    CHECK_THROWS_AS(op::div(zero, zero).item(), NumericError);
  }
}

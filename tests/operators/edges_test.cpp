// Places where a derivative jumps, and sizes at which a formula changes: the same in every mode of the host.

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The gradient of x behind `f`, whose outputs each get 1.
template <class F>
Values gradient(std::initializer_list<double> values, DType dtype, F f) {
  Tensor x = tensor<double>(values).to(dtype).set_requires_grad();
  const Tensor y = f(x);
  y.backward(ones(y.shape(), dtype));
  return x.grad().values();
}

template <class Check>
void everywhere(Check check) {
  for (const char* mode : {"sequential", "vectorized"})
    for (const DType dtype : {DType::float32, DType::float64}) {
      INFO(message(mode, " ", dtype));
      const Device device(mode);
      check(dtype);
    }
}

}  // namespace

TEST_CASE("edges: clamp passes the gradient at its bounds", "[operators]") {
  everywhere([](DType dtype) {
    // Enough for whole vectors and a rest.
    CHECK(gradient({-2, -1, -0.5, 0, 1, 2, -1, 1, -1, 1, -1, 1, 3, -3, -1, 1, -1, 1, 1.5}, dtype, [](const Tensor& x) {
            return op::clamp(x, -1, 1);
          }) == Values{0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0});
  });
}

TEST_CASE("edges: the power 0 has the gradient 0, at 0 too", "[operators]") {
  everywhere([](DType dtype) {
    const auto power = [](double exponent) { return [exponent](const Tensor& x) { return op::pow(x, exponent); }; };
    CHECK(gradient({0, 1, -2, 3, infinity, -0.0, 0, 5, 7}, dtype, power(0)) == Values(9, 0));
    CHECK(gradient({0, 3}, dtype, power(1)) == Values{1, 1});
    CHECK(gradient({0, 3}, dtype, power(2)) == Values{0, 6});
  });
}

TEST_CASE("edges: hinge has no gradient at its kink", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor target = tensor<double>({1, -1, 1, 1, -1, 1, -1, 1, 1}).to(dtype);
    CHECK(gradient({1, -1, 0.5, 2, 0, 1, -1, -3, 1}, dtype, [&](const Tensor& x) {
            return op::hinge(x, target, Reduce::none);
          }) == Values{0, 0, -1, 0, 1, 0, 0, -1, 0});
  });
}

TEST_CASE("edges: an impossible class costs nothing unless it is the label", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor logits = tensor<double>({0, -infinity, 0, -infinity, 0, 0}, {2, 3}).to(dtype);
    const auto loss = [&](std::int64_t a, std::int64_t b) {
      return op::cross_entropy(logits, tensor<std::int64_t>({a, b}), {.reduce = Reduce::none}).values();
    };
    const Values possible = loss(0, 2);
    CHECK(possible[0] == Approx(std::log(2.0)));
    CHECK(possible[1] == Approx(std::log(2.0)));
    CHECK(loss(1, 1)[0] == infinity);
    CHECK(gradient({0, -infinity, 0}, dtype, [](const Tensor& x) {
            return op::cross_entropy(x.reshape({1, 3}), tensor<std::int64_t>({0}));
          }) == Values{-0.5, 0, 0.5});
  });
}

TEST_CASE("edges: a variance of as many elements as its correction is no number", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor x = tensor<double>({1, 2, 4, 8, 16, 32}, {2, 3}).to(dtype);
    for (const double value : op::var(x, {1}, 3).values()) CHECK(std::isnan(value));
    for (const double value : op::var(x, {0}, 2).values()) CHECK(std::isnan(value));
    for (const double value : op::var(x, {1}, 4).values()) CHECK(std::isnan(value));
    CHECK(std::isnan(op::var(x.slice(0, 0, 1).slice(1, 0, 1)).item()));
    CHECK(op::var(x, {0}, 1).values()[0] == Approx(24.5));
    CHECK(op::var(x.slice(1, 0, 1), {1}, 0).values() == Values{0, 0});
  });
}

TEST_CASE("edges: batch norm of no images", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor none = zeros({0, 2, 3, 3}, dtype), scale = ones({2}, dtype), mean = zeros({2}, dtype),
                 variance = ones({2}, dtype);
    CHECK_THROWS_AS(op::batch_norm(none, scale, scale, mean, variance), ShapeError);
    CHECK_THROWS_AS(op::batch_norm(zeros({2, 2, 0}, dtype), scale, scale, mean, variance), ShapeError);
    CHECK(mean.values() == Values{0, 0});
    CHECK(variance.values() == Values{1, 1});
    const Tensor out = op::batch_norm(none, scale, scale, mean, variance, {.training = false});
    CHECK(out.shape() == none.shape());
  });
}

TEST_CASE("edges: a convolution of no volumes has their sizes", "[operators]") {
  const Tensor x = Tensor({0, 2, 5, 8, 7}).fill_(0).set_requires_grad();
  const Tensor weight = ones({4, 2, 2, 3, 3}).set_requires_grad();
  const Tensor y = op::conv3d(x, weight, {}, {.stride = 2, .dilation = {3, 1, 1}});
  CHECK(y.shape() == Shape{0, 4, 1, 3, 3});
  op::sum(y).backward();
  CHECK(x.grad().shape() == x.shape());
  CHECK(op::sum(op::abs(weight.grad())).item() == 0);
}

TEST_CASE("edges: an update takes gradients of its parameters' shapes, not only of as many elements", "[operators]") {
  const Tensor parameter = ones({2, 3}), rate = ones({1}), count = zeros({1}, DType::int64);
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{2, 3, 1}, Shape{2, 2}}) {
    CHECK_THROWS_AS(op::sgd({parameter}, {ones(shape)}, {}, rate, {}), ShapeError);
    CHECK_THROWS_AS(op::sgd({parameter}, {ones({2, 3})}, {ones(shape)}, rate, {.momentum = 0.9}), ShapeError);
    CHECK_THROWS_AS(op::adam({parameter}, {ones(shape)}, {ones({2, 3})}, {ones({2, 3})}, rate, count, {}), ShapeError);
    CHECK_THROWS_AS(op::adam({parameter}, {ones({2, 3})}, {ones(shape)}, {ones({2, 3})}, rate, count, {}), ShapeError);
    CHECK_THROWS_AS(op::adam({parameter}, {ones({2, 3})}, {ones({2, 3})}, {ones(shape)}, rate, count, {}), ShapeError);
  }
  CHECK(parameter.values() == Values(6, 1));
  CHECK(count.item() == 0);
}

TEST_CASE("edges: sums of images of one layout take one allocation for the elements", "[operators]") {
  const Tensor image = arange(0, 2 * 3 * 4 * 5, 1, DType::float32).reshape({2, 4, 5, 3}).permute({0, 3, 1, 2});
  const Tensor plain = image.contiguous();
  everywhere([&](DType) {
    for (const auto& [last, first] : {std::pair{image + image, plain + plain},
                                      {image * image, plain * plain},
                                      {image / (image + 1.0), plain / (plain + 1.0)}}) {
      CHECK(last.strides() == image.strides());
      CHECK(last.values() == first.values());
    }
    CHECK((image + plain).values() == (plain + plain).values());
    Tensor a = Tensor(image.clone()).permute({0, 1, 2, 3}).set_requires_grad();
    op::sum(op::add(a, image)).backward();
    CHECK(a.grad().values() == Values(120, 1));
  });
}

TEST_CASE("edges: mae has no gradient where it is 0", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor target = tensor<double>({1, -1, 0, 1, 2, 3, 4, 5, 6}).to(dtype);
    CHECK(gradient({1, -2, 0, 2, 2, 3, 4, 5, 6}, dtype, [&](const Tensor& x) {
            return op::mae(x, target, Reduce::none);
          }) == Values{0, -1, 0, 1, 0, 0, 0, 0, 0});
  });
}

TEST_CASE("edges: cross entropy smoothed over all classes is infinite where one is impossible", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor logits = tensor<double>({0, -infinity, 0, 0}, {2, 2}).to(dtype);
    const Tensor loss =
        op::cross_entropy(logits, tensor<std::int64_t>({1, 1}), {.label_smoothing = 1, .reduce = Reduce::none});
    CHECK(loss.values()[0] == infinity);
    CHECK(loss.values()[1] == Approx(std::log(2.0)));
  });
}

TEST_CASE("edges: of a window of nothing but -infinity the first element gets the gradient", "[operators]") {
  everywhere([](DType dtype) {
    for (const std::int64_t width : {3, 65}) {  // single outputs, and vectors of them
      Tensor x = full({1, 1, 3, width}, -infinity, dtype).set_requires_grad();
      const Tensor y = op::max_pool2d(x, 3, {.stride = 2, .padding = 1});
      CHECK(y.values() == Values(static_cast<std::size_t>(2 * y.size(3)), -infinity));
      y.backward(ones(y.shape(), dtype));
      const Values grad = x.grad().values();
      double sum = 0;
      for (const double value : grad) sum += value;
      CHECK(sum == static_cast<double>(y.numel()));
      // The windows begin at -1, 1, 3 ... in either direction.
      CHECK(grad[0] == 1);
      CHECK(grad[1] == 1);
      CHECK(grad[2] == 0);
      CHECK(grad[static_cast<std::size_t>(width)] == 1);
    }
  });
}

TEST_CASE("edges: a product with a number keeps the sign of 0, forward and backward", "[operators]") {
  everywhere([](DType dtype) {
    Tensor x = tensor<double>({-0.0, 0, 3}).to(dtype).set_requires_grad();
    const Tensor y = op::mul(x, 2);
    CHECK(std::signbit(y.values()[0]));
    CHECK(!std::signbit(y.values()[1]));
    y.backward(tensor<double>({-0.0, 0, 1}).to(dtype));
    CHECK(std::signbit(x.grad().values()[0]));
    CHECK(!std::signbit(x.grad().values()[1]));
  });
}

TEST_CASE("edges: a slice's gradient reaches its last element, for every step", "[operators]") {
  everywhere([](DType dtype) {
    for (const std::int64_t step : {1, 2, 3, 5}) {
      INFO(step);
      Tensor x = zeros({11}, dtype).set_requires_grad();
      const Tensor y = x.slice(0, 1, 11, step);
      y.backward(ones(y.shape(), dtype));
      Values expected(11, 0);
      for (std::int64_t i = 1; i < 11; i += step) expected[static_cast<std::size_t>(i)] = 1;
      CHECK(x.grad().values() == expected);
    }
  });
}

TEST_CASE("edges: local responses beyond the range are those of either layout", "[operators]") {
  everywhere([](DType dtype) {
    const double large = 1e25;  // beyond the root of float32's range
    const Tensor plain = full({2, 6, 3, 5}, large, dtype);
    const Tensor last = full({2, 3, 5, 6}, large, dtype).permute({0, 3, 1, 2});
    const auto run = [](const Tensor& x_in) {
      Tensor x = x_in.detach().set_requires_grad();
      const Tensor y = op::local_response_norm(x, {.size = 3, .alpha = 1, .k = 1});
      y.backward(ones(y.shape(), y.dtype()));
      return std::pair{y.values(), x.grad().values()};
    };
    const auto [one, one_grad] = run(plain);
    const auto [other, other_grad] = run(last);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK((std::isfinite(one[i]) && one[i] > 0));
      CHECK(other[i] == Approx(one[i]).epsilon(1e-5));
      CHECK(std::isfinite(one_grad[i]));
      CHECK(other_grad[i] == Approx(one_grad[i]).epsilon(1e-5));
    }
  });
}

TEST_CASE("edges: an update reads a gradient that lies apart", "[operators]") {
  everywhere([](DType dtype) {
    const Tensor parameter = zeros({2, 3}, dtype);
    const Tensor gradient = arange(0, 6, 1, dtype).reshape({3, 2}).transpose(0, 1);
    op::sgd({parameter}, {gradient}, {}, ones({1}, dtype), {});
    CHECK(parameter.values() == Values{0, -2, -4, -1, -3, -5});
    op::sgd({parameter}, {ones({1}, dtype).expand({2, 3})}, {}, ones({1}, dtype), {});
    CHECK(parameter.values() == Values{-1, -3, -5, -2, -4, -6});
  });
}

TEST_CASE("edges: a dimension of one element overlaps with nothing, whatever its stride", "[operators]") {
  const Tensor x = zeros({6});
  Tensor(x.shared_storage(), DType::float32, {1, 3}, {0, 2}, 0).fill_(1);
  CHECK(x.values() == Values{1, 0, 1, 0, 1, 0});
  CHECK_THROWS_AS(Tensor(x.shared_storage(), DType::float32, {2, 3}, {0, 2}, 0).fill_(1), Error);
}

TEST_CASE("edges: what is multiplied into one place does not reach the gradients of another", "[operators]") {
  for (const char* name : {"sequential", "vectorized", "debug"}) {
    INFO(name);
    const Device device(name);
    Tensor x = tensor<float>({2, 3, 5, 7}).set_requires_grad();
    Tensor source = tensor<float>({std::numeric_limits<float>::infinity(), 2, 3, 4}).set_requires_grad();
    // Negative indices count from the end.
    const Tensor index = tensor<std::int64_t>({0, 1, -3, 3});
    op::sum(op::scatter_reduce(x, 0, index, source, {.join = op::Scatter::mul})).backward();
    CHECK(x.grad().values() == Values{std::numeric_limits<double>::infinity(), 6, 1, 4});
    CHECK(source.grad().values() == Values{2, 9, 6, 7});
    CHECK_THROWS_AS(op::scatter_reduce(x, 0, tensor<std::int64_t>({0, 1, -5, 3}), source).values(), NumericError);
  }
}

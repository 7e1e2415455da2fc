#include "tern/nn/init.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/linear.hpp"

using namespace tern;
namespace init = tern::nn::init;

namespace {

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const Tensor& tensor) {
  Moments result;
  const auto values = tensor.values();
  for (const double value : values) {
    result.mean += value / static_cast<double>(values.size());
    result.largest = std::max(result.largest, std::abs(value));
  }
  for (const double value : values)
    result.deviation += (value - result.mean) * (value - result.mean) / static_cast<double>(values.size());
  result.deviation = std::sqrt(result.deviation);
  return result;
}

}  // namespace

TEST_CASE("init: gains and fans are torch's", "[nn]") {
  CHECK(init::gain(init::Nonlinearity::relu) == Approx(1.41421356));
  CHECK(init::gain(init::Nonlinearity::tanh) == Approx(1.66666667));
  CHECK(init::gain(init::Nonlinearity::leaky_relu, std::sqrt(5.0)) == Approx(0.57735027));
  CHECK(init::gain(init::Nonlinearity::sigmoid) == 1);
  CHECK(init::fan_in(zeros({6, 4, 3, 5})) == 60);
  CHECK(init::fan_out(zeros({6, 4, 3, 5})) == 90);
  CHECK_THROWS_AS(init::fan_in(zeros({6})), ShapeError);
  Generator generator(1);
  CHECK(init::kaiming_uniform_(zeros({6, 0}), generator).numel() == 0);
  CHECK(init::xavier_normal_(zeros({0, 0}), generator).numel() == 0);
}

TEST_CASE("init: the helpers give the distributions that they are named for", "[nn]") {
  Generator generator(7);
  const Shape shape{100, 8, 5, 5};  // fan in 200, fan out 2500
  const auto check = [&](const Tensor& tensor, double deviation, bool uniform) {
    const Moments found = moments(tensor);
    CHECK(std::abs(found.mean) < 0.03 * deviation);
    CHECK(found.deviation == Approx(deviation).epsilon(0.02));
    if (uniform) {
      CHECK(found.largest <= std::sqrt(3.0) * deviation);
    } else {
      CHECK(found.largest > 3 * deviation);
    }
  };
  check(init::kaiming_uniform_(Tensor(shape), generator, {.nonlinearity = init::Nonlinearity::relu}),
        std::sqrt(2.0 / 200), true);
  check(init::kaiming_normal_(Tensor(shape), generator,
                              {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu}),
        std::sqrt(2.0 / 2500), false);
  check(init::kaiming_normal_(Tensor(shape), generator, {.negative_slope = 1}), std::sqrt(1.0 / 200), false);
  check(init::xavier_uniform_(Tensor(shape), generator), std::sqrt(2.0 / 2700), true);
  check(init::xavier_normal_(Tensor(shape), generator, 3), 3 * std::sqrt(2.0 / 2700), false);
  CHECK(moments(init::constant_(Tensor(shape), 0.5)).mean == Approx(0.5));
  CHECK(generator.position() == 5);
}

TEST_CASE("init: a trained tensor is overwritten in place, without a record", "[nn]") {
  Generator generator(7);
  Tensor weight = zeros({3, 2});
  weight.set_requires_grad();
  const Tensor result = init::xavier_uniform_(weight, generator);
  CHECK(result.is(weight));
  CHECK(weight.is_leaf());
  CHECK(weight.values()[0] != 0);
  Generator again(7);
  CHECK(init::xavier_uniform_(zeros({3, 2}), again).values() == weight.values());
}

TEST_CASE("init: how layers begin", "[nn]") {
  Generator generator(7);
  const auto make = [&](nn::Start start) {
    return nn::Conv2d(8, 100, 5, {.groups = 2, .start = start}, generator);  // fan in 100
  };
  const nn::Conv2d torch = make(nn::Start::torch), kaiming = make(nn::Start::kaiming);
  CHECK(moments(torch.weight()).deviation == Approx(0.1 / std::sqrt(3.0)).epsilon(0.02));
  CHECK(moments(torch.bias()).largest <= 0.1f);
  CHECK(moments(torch.bias()).largest > 0.08);
  CHECK(moments(kaiming.weight()).deviation == Approx(std::sqrt(2.0 / 100)).epsilon(0.02));
  CHECK(moments(kaiming.bias()).largest == 0);
  const std::uint64_t before = generator.position();
  const nn::Linear none(300, 200, {.start = nn::Start::none}, generator);
  CHECK(generator.position() == before);
  CHECK(none.parameter_count() == 300 * 200 + 200);
  CHECK(none.weight().requires_grad());
}

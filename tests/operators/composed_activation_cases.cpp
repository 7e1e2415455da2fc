// Activations that are composed of other operators.

#include <algorithm>
#include <limits>
#include <numbers>

#include "operators/elementwise.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

double elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }
double relu6(double x) { return std::isnan(x) ? x : std::min(std::max(x, 0.0), 6.0); }
double softplus(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// Numbers near 0, all of one size: what loses digits there is off by far more than `ulps` of it. And the derivative at
// the kinks, where a central difference would see the mean of both sides.
Operator with_digits_near_zero(Operator op, std::function<Tensor(const Tensor&)> call,
                               std::function<double(double)> function) {
  // Scaled up by 2^20 behind the operator, exactly, the tolerance is one relative to the result.
  op.samples.push_back({.name = "digits near 0",
                        .arguments = {uniform({65}, -1, 1)},
                        .call =
                            [call](const std::vector<Tensor>& in) {
                              const Tensor wide = in[0].to(scalar_of(in[0].dtype()));
                              return std::vector{op::mul(call(op::mul(wide, 0x1p-20)), 0x1p20).to(in[0].dtype())};
                            },
                        .reference = each([function](double x) { return function(x * 0x1p-20) * 0x1p20; })});
  return op;
}

Operator prelu() {
  Operator op{.name = "prelu", .ulps = 3};
  const auto add = [&](std::string name, Argument x, Argument weight, bool gradient, bool large = false) {
    const double each_weight =
        std::max(1.0, static_cast<double>(element_count(x.shape)) / static_cast<double>(element_count(weight.shape)));
    op.samples.push_back({.name = std::move(name),
                          .arguments = {std::move(x), std::move(weight)},
                          .call = [](const std::vector<Tensor>& in) { return std::vector{op::prelu(in[0], in[1])}; },
                          .reference =
                              [](const std::vector<Array>& in) {
                                Array out(in[0].shape);
                                std::int64_t i = 0;
                                for_each_position(out.shape, [&](const Shape& position) {
                                  const double value = in[0][i];
                                  const double slope = in[1][in[1].size() == 1 ? 0 : position[1]];
                                  out[i++] = value > 0 ? value : slope * value;
                                });
                                return std::vector{out};
                              },
                          .gradient = gradient,
                          .gradient_terms = each_weight,
                          .large = large});
  };
  for (const Shape& shape :
       {Shape{}, Shape{17}, Shape{7, 11}, Shape{2, 3, 5}, Shape{2, 3, 4, 5}, Shape{0, 3, 2}, Shape{3, 1}}) {
    add(message(shape, " one slope"), uniform(shape), uniform({1}, 0, 0.5), true);
    if (shape.rank() >= 2) add(message(shape, " of channels"), uniform(shape), uniform({shape[1]}, -0.5, 0.5), true);
  }
  add("special values", listed({14, 3}, special_values()), listed({3}, {0.25, 0, -1}), false);
  add("large", uniform({3, 33, 31, 37}), uniform({33}), true, true);
  op.refuses("another number of channels", Kind::shape, {"[4]", "[2,3,5]"}, [] {
    op::prelu(ones({2, 3, 5}), ones({4}));
  });
  op.refuses("channels without a dimension", Kind::shape, {"[3]"}, [] { op::prelu(ones({3}), ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] { op::prelu(ones({3}), ones({1}, DType::float64)); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::prelu(ones({3}, DType::int32), ones({1}, DType::int32)); });
  return op;
}

}  // namespace

std::vector<Operator> composed_activation_cases() {
  std::vector<Operator> all;
  for (const double alpha : {1.0, 0.5}) {
    const auto elu_of = [alpha](const Tensor& x) { return op::elu(x, alpha); };
    const auto celu_of = [alpha](const Tensor& x) { return op::celu(x, alpha); };
    const auto elu_by = [alpha](double x) { return elu(x, alpha); };
    const auto celu_by = [alpha](double x) { return x > 0 ? x : alpha * std::expm1(x / alpha); };
    all.push_back(with_digits_near_zero(elementwise(alpha == 1 ? "elu" : "elu/half", elu_of, elu_by), elu_of, elu_by));
    all.push_back(
        with_digits_near_zero(elementwise(alpha == 1 ? "celu" : "celu/half", celu_of, celu_by), celu_of, celu_by));
  }
  for (const double alpha : {0.0, -1.0, infinity, std::nan("")})
    all.back().refuses(message("alpha ", alpha), Kind::numeric, {"alpha"}, [alpha] { op::celu(ones({2}), alpha); });
  const auto selu = [](double x) { return 1.0507009873554805 * elu(x, 1.6732632423543772); };
  all.push_back(with_digits_near_zero(elementwise("selu", op::selu, selu), op::selu, selu));
  all.push_back(elementwise("relu6", op::relu6, relu6));
  all.push_back(elementwise("hardsigmoid", op::hardsigmoid, [](double x) { return relu6(x + 3) / 6; }));
  all.push_back(elementwise("hardswish", op::hardswish, [](double x) { return x * relu6(x + 3) / 6; }));
  all.push_back(elementwise("silu", op::silu, [](double x) { return x * sigmoid(x); }));
  all.push_back(elementwise("mish", op::mish, [](double x) { return x * std::tanh(softplus(x)); }));
  all.push_back(elementwise("gelu_tanh", op::gelu_tanh, gelu_tanh));
  all.push_back(elementwise("logsigmoid", op::logsigmoid, [](double x) { return -softplus(-x); }));
  all.push_back(prelu());
  return all;
}

}  // namespace tern::testing

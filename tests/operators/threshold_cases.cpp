// Activations with a threshold, and gates.

#include <algorithm>

#include "operators/elementwise.hpp"
#include "tern/operators/thresholds.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

double shrink(double x, double lambda, double bias) {
  if (std::isnan(x)) return x;
  return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
}

// A derivative at kinks, where central differences see the mean of both sides.
Sample at_kinks(std::vector<double> elements, std::function<Tensor(const Tensor&)> call, std::vector<double> expected) {
  const Shape shape{static_cast<std::int64_t>(elements.size())};
  return {.name = "the derivative at its kinks",
          .arguments = {constant(listed(shape, std::move(elements)))},
          .call =
              [call](const std::vector<Tensor>& in) {
                Tensor x = in[0].clone().set_requires_grad();
                op::sum(call(x)).backward();
                return std::vector{x.grad()};
              },
          .reference = [shape, expected](const std::vector<Array>&) { return std::vector{Array(shape, expected)}; },
          .gradient = false};
}

Operator glu() {
  Operator op{.name = "glu"};
  struct Use {
    Shape x;
    int dim;
  };
  for (const Use& use : {Use{{8}, 0}, Use{{3, 10}, 1}, Use{{4, 3}, 0}, Use{{2, 6, 5}, 1}, Use{{2, 3, 4}, -1},
                         Use{{0, 4}, 1}, Use{{3, 0}, 1}})
    op.samples.push_back({.name = message(use.x, " along ", use.dim),
                          .arguments = {uniform(use.x, -3, 3)},
                          .call = [use](const std::vector<Tensor>& in) { return std::vector{op::glu(in[0], use.dim)}; },
                          .reference =
                              [use](const std::vector<Array>& in) {
                                const int place = use.dim < 0 ? use.dim + use.x.rank() : use.dim;
                                Shape shape = use.x;
                                shape[place] /= 2;
                                Array out(shape);
                                for_each_position(shape, [&](const Shape& at) {
                                  Shape gate = at;
                                  gate[place] += shape[place];
                                  out.at(at) = in[0].at(at) / (1 + std::exp(-in[0].at(gate)));
                                });
                                return std::vector{out};
                              },
                          .terms = 2});
  op.refuses("an odd size", Kind::shape, {"[2,3]"}, [] { op::glu(ones({2, 3})); });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::glu(ones({2, 4}), 2); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::glu(ones({2, 4}, DType::int32)); });
  return op;
}

}  // namespace

std::vector<Operator> threshold_cases() {
  std::vector<Operator> all;
  all.push_back(elementwise("softsign", op::softsign, [](double x) { return x / (1 + std::abs(x)); }));
  const auto threshold = [](const Tensor& x) { return op::threshold(x, 0.5, -2); };
  all.push_back(elementwise("threshold", threshold, [](double x) { return x <= 0.5 ? -2 : x; }));
  all.back().samples.push_back(at_kinks({0.25, 0.5, 0.75}, threshold, {0, 0, 1}));
  const auto hardtanh = [](const Tensor& x) { return op::hardtanh(x, -1, 2); };
  all.push_back(
      elementwise("hardtanh", hardtanh, [](double x) { return std::isnan(x) ? x : std::min(std::max(x, -1.0), 2.0); }));
  all.back().samples.push_back(at_kinks({-2, -1, 0, 2, 3}, hardtanh, {0, 0, 1, 0, 0}));
  all.back().refuses("bounds exchanged", Kind::numeric, {"2", "1"}, [] { op::hardtanh(ones({2}), 2, 1); });
  all.push_back(elementwise(
      "shrink", [](const Tensor& x) { return op::shrink(x, 1.5, 0.25); },
      [](double x) { return shrink(x, 1.5, 0.25); }));
  const auto hardshrink = [](const Tensor& x) { return op::hardshrink(x); };
  all.push_back(elementwise("hardshrink", hardshrink, [](double x) { return shrink(x, 0.5, 0); }));
  all.back().samples.push_back(at_kinks({-1, -0.5, 0, 0.5, 1}, hardshrink, {1, 0, 0, 0, 1}));
  const auto softshrink = [](const Tensor& x) { return op::softshrink(x, 1); };
  all.push_back(elementwise("softshrink", softshrink, [](double x) { return shrink(x, 1, 1); }));
  all.back().samples.push_back(at_kinks({-2, -1, 0, 1, 2}, softshrink, {1, 0, 0, 0, 1}));
  for (std::size_t i = all.size() - 3; i < all.size(); ++i)
    all[i].refuses("lambda below 0", Kind::numeric, {"lambda -1"}, [i, first = all.size() - 3] {
      const Tensor x = ones({2});
      i == first ? op::shrink(x, -1) : i == first + 1 ? op::hardshrink(x, -1) : op::softshrink(x, -1);
    });
  all.push_back(elementwise("tanhshrink", op::tanhshrink, [](double x) { return x - std::tanh(x); }));
  all.push_back(glu());
  return all;
}

}  // namespace tern::testing

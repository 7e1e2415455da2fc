// Functions that are composed of others: logarithms and powers of 2 and 10, inverse and hyperbolic trigonometry, lerp,
// nan_to_num, clamp between tensors, softplus with a slope.

#include <algorithm>
#include <limits>

#include "operators/elementwise.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

Operator lerp(const char* name, bool by_tensor) {
  Operator op{.name = name};
  struct Shapes {
    Shape a, b, weight;
  };
  const auto add = [&](std::string label, Argument a, Argument b, Argument weight, double number, bool large = false) {
    std::vector<Argument> arguments{std::move(a), std::move(b)};
    if (by_tensor) arguments.push_back(std::move(weight));
    op.samples.push_back({.name = std::move(label),
                          .arguments = arguments,
                          .call =
                              [by_tensor, number](const std::vector<Tensor>& in) {
                                return std::vector{by_tensor ? op::lerp(in[0], in[1], in[2])
                                                             : op::lerp(in[0], in[1], number)};
                              },
                          .reference =
                              [by_tensor, number](const std::vector<Array>& in) {
                                Shape shape = broadcast("reference", in[0].shape, in[1].shape);
                                if (by_tensor) shape = broadcast("reference", shape, in[2].shape);
                                Array out(shape);
                                for_each_position(shape, [&](const Shape& at) {
                                  const double from = broadcast_at(in[0], at), to = broadcast_at(in[1], at);
                                  const double share = by_tensor ? broadcast_at(in[2], at) : number;
                                  out.at(at) = from + share * (to - from);
                                });
                                return std::vector{out};
                              },
                          .gradient_terms = 64,
                          .magnitude = 4,
                          .large = large,
                          .large_arguments = by_tensor ? 0ul : 100ul});
  };
  for (const Shapes& shapes : {Shapes{{}, {}, {}}, Shapes{{17}, {17}, {17}}, Shapes{{7, 11}, {11}, {7, 1}},
                               Shapes{{3, 1}, {1, 5}, {}}, Shapes{{2, 3, 5}, {}, {5}}, Shapes{{3, 0}, {3, 1}, {}}})
    for (const double number : {0.25, 0.75}) {
      if (by_tensor && number > 0.5) continue;
      add(message(shapes.a, ' ', shapes.b, ' ', number), uniform(shapes.a), uniform(shapes.b),
          uniform(shapes.weight, 0, 1), number);
    }
  add("large", uniform({100003}), uniform({100003}), uniform({100003}, 0, 1), 0.375, true);
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] { op::lerp(ones({2}), ones({2}, DType::float64), 0.5); });
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"}, [] { op::lerp(ones({2}), ones({3}), 0.5); });
  op.refuses("integers", Kind::dtype, {"int32"},
             [] { op::lerp(ones({2}, DType::int32), ones({2}, DType::int32), 0.5); });
  if (by_tensor)
    op.refuses("a weight that does not broadcast", Kind::shape, {"[2]", "[3]"},
               [] { op::lerp(ones({2}), ones({2}), ones({3})); });
  return op;
}

Operator nan_to_num() {
  Operator op = elementwise(
      "nan_to_num", [](const Tensor& x) { return op::nan_to_num(x, 0.5, 7, -7); },
      [](double x) {
        return std::isnan(x) ? 0.5 : x == infinity ? 7 : x == -infinity ? -7 : x;
      });
  for (Sample& sample : op.samples) sample.exact = true;
  std::erase_if(op.invalid, [](const Invalid& use) { return use.name == "bools"; });
  return op;
}

Operator clamp_between() {
  Operator op{.name = "clamp/tensors"};
  struct Shapes {
    Shape x, low, high;
  };
  const auto add = [&](std::string label, Argument x, Argument low, Argument high, bool has_low, bool has_high,
                       bool gradient) {
    op.samples.push_back({.name = std::move(label),
                          .arguments = {std::move(x), std::move(low), std::move(high)},
                          .call =
                              [=](const std::vector<Tensor>& in) {
                                const Tensor none, zero = op::mul(op::add(op::sum(in[1]), op::sum(in[2])), 0);
                                const Tensor out = op::clamp(in[0], has_low ? in[1] : none, has_high ? in[2] : none);
                                // Bounds that are not used take a gradient of 0.
                                return std::vector{has_low && has_high ? out : op::add(out, zero)};
                              },
                          .reference =
                              [=](const std::vector<Array>& in) {
                                Shape shape = in[0].shape;
                                if (has_low) shape = broadcast("reference", shape, in[1].shape);
                                if (has_high) shape = broadcast("reference", shape, in[2].shape);
                                Array out(shape);
                                for_each_position(shape, [&](const Shape& at) {
                                  double value = broadcast_at(in[0], at);
                                  const auto bound = [&](const Array& edge, bool above) {
                                    const double number = broadcast_at(edge, at);
                                    if (std::isnan(value)) return;
                                    if (std::isnan(number) || (above ? value > number : value < number)) value = number;
                                  };
                                  if (has_low) bound(in[1], false);
                                  if (has_high) bound(in[2], true);
                                  out.at(at) = value;
                                });
                                return std::vector{out};
                              },
                          .gradient = gradient,
                          .gradient_terms = 64});
  };
  for (const Shapes& shapes : {Shapes{{}, {}, {}}, Shapes{{17}, {17}, {17}}, Shapes{{7, 11}, {11}, {7, 1}},
                               Shapes{{3, 1}, {1, 5}, {}}, Shapes{{3, 0}, {3, 1}, {}}})
    for (const auto& [low, high] : {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}})
      add(message(shapes.x, ' ', shapes.low, ' ', shapes.high, low ? " above" : "", high ? " below" : ""),
          uniform(shapes.x, -2, 2), uniform(shapes.low, -1.5, 0.5), uniform(shapes.high, -0.5, 1.5), low, high, true);
  add("special values", listed({14, 1, 1}, special_values()), listed({14, 1}, special_values()),
      listed({4}, {1, std::nan(""), -1, infinity}), true, true, false);
  add("integers", integers({5, 7}), integers({7}, -4, 0), integers({5, 1}, -1, 3), true, true, false);
  op.samples.back().dtypes = {DType::int32, DType::int64};
  op.samples.back().exact = true;
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] { op::clamp(ones({2}), Tensor(), ones({2}, DType::float64)); });
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"},
             [] { op::clamp(ones({2}), ones({3}), Tensor()); });
  op.refuses("no bounds", Kind::any, {"bound"}, [] { op::clamp(ones({2}), Tensor(), Tensor()); });
  return op;
}

Operator softplus(const char* name, double beta, double threshold) {
  return elementwise(
      name, [=](const Tensor& x) { return op::softplus(x, beta, threshold); },
      [=](double x) {
        if (std::isnan(x) || beta * x > threshold) return x;
        return (std::max(beta * x, 0.0) + std::log1p(std::exp(-std::abs(beta * x)))) / beta;
      });
}

}  // namespace

std::vector<Operator> further_function_cases() {
  std::vector<Operator> all;
  const Elementwise positive{.low = 0.3, .high = 3, .far = 0}, inside{.low = -0.95, .high = 0.95, .far = 0, .ulps = 8};
  all.push_back(elementwise(
      "log2", op::log2, [](double x) { return std::log2(x); }, positive));
  all.push_back(elementwise(
      "log10", op::log10, [](double x) { return std::log10(x); }, positive));
  all.push_back(elementwise("exp2", op::exp2, [](double x) { return std::exp2(x); }));
  all.push_back(elementwise(
      "asin", op::asin, [](double x) { return std::asin(x); }, inside));
  all.push_back(elementwise(
      "acos", op::acos, [](double x) { return std::acos(x); }, inside));
  all.push_back(elementwise("atan", op::atan, [](double x) { return std::atan(x); }));
  all.push_back(elementwise("sinh", op::sinh, [](double x) { return std::sinh(x); }, {.far = 80, .ulps = 8}));
  all.push_back(elementwise("cosh", op::cosh, [](double x) { return std::cosh(x); }, {.far = 80, .ulps = 8}));
  all.push_back(elementwise("asinh", op::asinh, [](double x) { return std::asinh(x); }, {.ulps = 8}));
  all.push_back(elementwise("acosh", op::acosh, [](double x) { return std::acosh(x); },
                            {.low = 1.1, .high = 4, .far = 0, .ulps = 8}));
  all.push_back(elementwise(
      "atanh", op::atanh, [](double x) { return std::atanh(x); }, inside));
  all.push_back(lerp("lerp", false));
  all.push_back(lerp("lerp/tensor", true));
  all.push_back(nan_to_num());
  all.push_back(clamp_between());
  all.push_back(softplus("softplus/slope", 2.5, 20));
  all.back().refuses("no slope", Kind::numeric, {"beta 0"}, [] { op::softplus(ones({2}), 0); });
  for (Sample& sample : softplus("", -0.5, 1).samples) {
    sample.name += " beta -0.5 threshold 1";
    all.back().samples.push_back(std::move(sample));
  }
  return all;
}

}  // namespace tern::testing

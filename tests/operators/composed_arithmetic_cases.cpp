// Arithmetic, comparisons and logic that are composed of other operators.

#include <algorithm>
#include <limits>

#include "operators/elementwise.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

// A comparison: a bool for each element.
Operator test_of(const char* name, std::function<Tensor(const Tensor&)> call, std::function<bool(double)> function) {
  Operator op = elementwise(name, call, [function](double x) { return function(x) ? 1.0 : 0.0; },
                            {.low = -1, .high = 2, .far = 0, .gradient = false});
  for (Sample& sample : op.samples) {
    if (sample.arguments[0].fill == Argument::Fill::uniform && !sample.arguments[0].expanded_from)
      sample.arguments[0] = integers(sample.arguments[0].shape, 0, 2);
    sample.reference = [inner = sample.reference](const std::vector<Array>& in) {
      std::vector<Array> out = inner(in);
      out[0].dtype = DType::boolean;
      return out;
    };
    sample.exact = true;
  }
  // A bool has a place beside the numbers 0 and 1.
  if (op.name.ends_with("/number")) std::erase_if(op.invalid, [](const Invalid& use) { return use.name == "bools"; });
  return op;
}

// Each element is near the other one, or not: pairs of special values, and neighbours.
Operator isclose(const char* name, bool everywhere) {
  Operator op{.name = name};
  const auto add = [&](std::string label, Argument a, Argument b, double rtol, double atol, bool equal_nan) {
    op.samples.push_back(
        {.name = std::move(label),
         .arguments = {std::move(a), std::move(b)},
         .call =
             [=](const std::vector<Tensor>& in) {
               return everywhere ? std::vector{scalar(op::allclose(in[0], in[1], rtol, atol, equal_nan))}
                                 : std::vector{op::isclose(in[0], in[1], rtol, atol, equal_nan)};
             },
         .reference =
             [=](const std::vector<Array>& in) {
               const auto close = [=](double left, double right) {
                 if (std::isnan(left) && std::isnan(right)) return equal_nan ? 1.0 : 0.0;
                 const double error = std::abs(left - right);
                 return left == right || (std::isfinite(error) && error <= atol + rtol * std::abs(right)) ? 1.0 : 0.0;
               };
               std::vector<Array> out = each_pair(close, DType::boolean)(in);
               if (!everywhere) return out;
               Array all(Shape{}, 1, DType::boolean);
               for (const double value : out[0].values) all[0] = std::min(all[0], value);
               return std::vector{all};
             },
         .gradient = false,
         .exact = true});
  };
  for (const bool equal_nan : {false, true})
    add(message("special values", equal_nan ? ", NaN equals NaN" : ""), listed({14, 1}, special_values()),
        listed({14}, special_values()), 0.5, 0.25, equal_nan);
  add("tolerances by default", listed({6}, {1, 1, 0, 0, -2, 1e5}),
      listed({6}, {1 + 0x1p-18, 1 + 0x1p-14, 0x1p-30, 0x1p-20, 2, 1e5 + 0.5}), 1e-5, 1e-8, false);
  add("all near", listed({3, 5}, {1, 2, 4}), listed({5}, {1}), 3, 0.125, false);
  add("itself", listed({2, 3}, {1, -infinity, 4}), listed({2, 3}, {1, -infinity, 4}), 0, 0, false);
  add("nothing", uniform({3, 0}), uniform({0}), 1e-5, 1e-8, false);
  const auto call = [everywhere](const Tensor& a, const Tensor& b, double rtol) {
    everywhere ? static_cast<void>(op::allclose(a, b, rtol)) : static_cast<void>(op::isclose(a, b, rtol));
  };
  op.refuses(
      "a negative tolerance", Kind::numeric, {"-1"}, [call] { call(ones({2}), ones({2}), -1); }, "isclose");
  op.refuses(
      "two dtypes", Kind::dtype, {"float64"}, [call] { call(ones({2}), ones({2}, DType::float64), 0); }, "isclose");
  op.refuses(
      "shapes that do not broadcast", Kind::shape, {"[2]", "[3]"}, [call] { call(ones({2}), ones({3}), 0); },
      "isclose");
  return op;
}

Operator masked_fill() {
  Operator op{.name = "masked_fill"};
  struct Shapes {
    Shape x, mask;
  };
  const auto add = [&](const char* label, Argument x, const Shape& mask, double value, bool gradient) {
    op.samples.push_back(
        {.name = message(x.shape, " by ", mask, " with ", value, label),
         .arguments = {std::move(x), booleans(mask)},
         .call = [value](const std::vector<Tensor>& in) { return std::vector{op::masked_fill(in[0], in[1], value)}; },
         .reference = each_pair([value](double other, double masked) { return masked != 0 ? value : other; }),
         .gradient = gradient,
         .exact = true,
         .gradient_terms = 8});
  };
  for (const Shapes& shapes : {Shapes{{}, {}}, Shapes{{17}, {17}}, Shapes{{7, 11}, {11}}, Shapes{{7, 11}, {7, 1}},
                               Shapes{{5}, {3, 5}}, Shapes{{3, 0}, {3, 1}}})
    add("", uniform(shapes.x), shapes.mask, -2.5, true);
  add(" special values", listed({14, 4}, special_values()), {14, 4}, -infinity, false);
  op.refuses("a mask of numbers", Kind::dtype, {"float32", "bool"}, [] { op::masked_fill(ones({2}), ones({2}), 0); });
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"},
             [] { op::masked_fill(ones({2}), ones({3}, DType::boolean), 0); });
  op.refuses("half an integer", Kind::dtype, {"0.5", "int64"},
             [] { op::masked_fill(ones({2}, DType::int64), ones({2}, DType::boolean), 0.5); });
  return op;
}

double maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }
double minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); }

Operator sign() {
  Operator op = elementwise("sign", op::sign, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
  for (Sample& sample : op.samples) sample.exact = true;
  return op;
}

Operator power_of_number() {
  const Elementwise near{.low = -2, .high = 2, .far = 0, .ulps = 8};
  const auto with = [](double base) { return [base](const Tensor& x) { return op::pow(base, x); }; };
  const auto by = [](double base) { return [base](double x) { return std::pow(base, x); }; };
  Operator op = elementwise("pow/of number", with(2), by(2), near);
  for (const double base : {0.125, 10.0})
    for (Sample sample : elementwise("", with(base), by(base), near).samples) {
      sample.name += message(" base ", base);
      op.samples.push_back(std::move(sample));
    }
  // exp(x log(base)) is off by as many units as its argument is large: 88 at the end of float32's range, and `ulps` of
  // them are allowed for the root of the terms.
  for (Sample& sample : op.samples)
    if (sample.name.starts_with("special values")) sample.terms = 128;
  op.samples.push_back({.name = "far from 0",
                        .arguments = {uniform({67}, -30, 30)},
                        .call = [with](const std::vector<Tensor>& in) { return std::vector{with(4)(in[0])}; },
                        .reference = each(by(4)),
                        .terms = 30 * std::log(4)});
  for (const double base : {0.0, -2.0, std::nan("")})
    op.refuses(message("base ", base), Kind::numeric, {"base"}, [base] { op::pow(base, ones({2})); });
  return op;
}

}  // namespace

std::vector<Operator> composed_arithmetic_cases() {
  std::vector<Operator> all;
  const auto number = [&](const char* name, Tensor (*call)(const Tensor&, double), bool (*function)(double, double)) {
    all.push_back(test_of(
        name, [call](const Tensor& x) { return call(x, 1); }, [function](double x) { return function(x, 1); }));
  };
  number("equal/number", op::equal, [](double a, double b) { return a == b; });
  number("not_equal/number", op::not_equal, [](double a, double b) { return a != b; });
  number("less/number", op::less, [](double a, double b) { return a < b; });
  number("less_equal/number", op::less_equal, [](double a, double b) { return a <= b; });
  number("greater/number", op::greater, [](double a, double b) { return a > b; });
  number("greater_equal/number", op::greater_equal, [](double a, double b) { return a >= b; });
  all.push_back(test_of("isnan", op::isnan, [](double x) { return std::isnan(x); }));
  all.push_back(test_of("isinf", op::isinf, [](double x) { return std::isinf(x); }));
  all.push_back(test_of("isfinite", op::isfinite, [](double x) { return std::isfinite(x); }));
  all.push_back(isclose("isclose", false));
  all.push_back(isclose("allclose", true));
  all.push_back(masked_fill());
  all.push_back(elementwise(
      "maximum/number", [](const Tensor& x) { return op::maximum(x, -0.5); },
      [](double x) { return maximum(x, -0.5); }));
  all.push_back(elementwise(
      "minimum/number", [](const Tensor& x) { return op::minimum(x, 1.25); },
      [](double x) { return minimum(x, 1.25); }));
  all.push_back(power_of_number());
  all.push_back(elementwise("square", op::square, [](double x) { return x * x; }));
  all.push_back(
      elementwise("reciprocal", op::reciprocal, [](double x) { return 1 / x; }, {.low = 0.3, .high = 3, .far = 0}));
  all.push_back(
      elementwise("rsqrt", op::rsqrt, [](double x) { return 1 / std::sqrt(x); }, {.low = 0.3, .high = 3, .far = 0}));
  all.push_back(sign());
  return all;
}

}  // namespace tern::testing

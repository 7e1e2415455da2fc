// Functions of one and two numbers: to whole numbers, trigonometric ones, near 0, powers, what division leaves.

#include <limits>

#include "operators/elementwise.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Operator exactly(Operator op) {
  for (Sample& sample : op.samples) sample.exact = true;
  return op;
}
Operator in_steps(Operator op) {
  for (Sample& sample : op.samples) sample.smooth = false;
  return op;
}

Operator whole_number(const char* name, Tensor (*call)(const Tensor&), double (*function)(double)) {
  Operator op = in_steps(exactly(elementwise(name, call, function)));
  op.samples.push_back({.name = "halves and ends",
                        .arguments = {listed({16}, {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0x1p23, 0x1p23 + 1, -0x1p23,
                                                    0x1p22 + 0.5, 0x1p31, -0x1p40, 0.99, -0.01, 7, -0.0})},
                        .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; },
                        .reference = each(function),
                        .gradient = false,
                        .exact = true});
  return op;
}

using Two = Tensor (*)(const Tensor&, const Tensor&);

Sample of_two(std::string name, Argument a, Argument b, Two call, double (*function)(double, double)) {
  return {.name = std::move(name),
          .arguments = {std::move(a), std::move(b)},
          .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
          .reference = each_pair(function)};
}

struct Pairs {
  double low, high, other_low, other_high;
  double ulps;
};

// Broadcasts of numbers between the bounds, and pairs of special values.
Operator of_pairs(const char* name, Two call, double (*function)(double, double), const Pairs& bounds) {
  Operator op{.name = name, .ulps = bounds.ulps};
  struct Shapes {
    Shape a, b;
  };
  for (const Shapes& shapes : {Shapes{{}, {}}, Shapes{{17}, {17}}, Shapes{{7, 11}, {11}}, Shapes{{3, 1}, {1, 5}},
                               Shapes{{2, 3, 5}, {}}, Shapes{{3, 0}, {3, 1}}}) {
    op.samples.push_back(of_two(message(shapes.a, " ", shapes.b), uniform(shapes.a, bounds.low, bounds.high),
                                uniform(shapes.b, bounds.other_low, bounds.other_high), call, function));
    op.samples.back().gradient_terms = 16;
  }
  op.samples.push_back(of_two("large", uniform({100003}, bounds.low, bounds.high),
                              uniform({100003}, bounds.other_low, bounds.other_high), call, function));
  op.samples.back().large = true;
  op.samples.push_back(
      of_two("special values", listed({14, 1}, special_values()), listed({14}, special_values()), call, function));
  op.samples.back().gradient = false;
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"}, [call] { call(ones({2}), ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [call] { call(ones({2}), ones({2}, DType::float64)); });
  op.refuses("bools", Kind::dtype, {"bool"}, [call] { call(ones({2}, DType::boolean), ones({2}, DType::boolean)); });
  return op;
}

double remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Operator power() {
  Operator op =
      of_pairs("pow/tensors", op::pow, [](double a, double b) { return std::pow(a, b); }, {0.25, 3, -3, 3, 8});
  op.samples.push_back(of_two("of negative numbers", uniform({5, 7}, -2, -0.5), constant(integers({7}, -3, 3)), op::pow,
                              [](double a, double b) { return std::pow(a, b); }));
  op.samples.back().gradient_terms = 8;
  op.samples.push_back(of_two("of 0", constant(listed({6}, {0})), listed({6}, {0.5, 1, 2, 3, 0.25, 8}), op::pow,
                              [](double a, double b) { return std::pow(a, b); }));
  return op;
}

Operator by_number(const char* name, Tensor (*call)(const Tensor&, double), double (*function)(double, double),
                   double number) {
  return in_steps(elementwise(
      name, [call, number](const Tensor& x) { return call(x, number); },
      [function, number](double x) { return function(x, number); }, {.far = 30, .ulps = 4}));
}

// where with a number on either side.
Operator where_number(const char* name, bool before) {
  Operator op{.name = name};
  for (const Shape& shape : {Shape{}, Shape{17}, Shape{7, 11}, Shape{3, 0}})
    op.samples.push_back(
        {.name = message(shape),
         .arguments = {booleans(shape), uniform(shape)},
         .call =
             [before](const std::vector<Tensor>& in) {
               return std::vector{before ? op::where(in[0], -1.5, in[1]) : op::where(in[0], in[1], -1.5)};
             },
         .reference = each_pair([before](double condition, double x) { return (condition != 0) == before ? -1.5 : x; }),
         .exact = true});
  op.refuses("a condition of numbers", Kind::dtype, {"bool"}, [] { op::where(ones({2}), ones({2}), 1.0); });
  op.refuses("half an integer", Kind::dtype, {"1.5", "int64"}, [before] {
    const Tensor condition = ones({2}, DType::boolean), x = ones({2}, DType::int64);
    before ? op::where(condition, 1.5, x) : op::where(condition, x, 1.5);
  });
  return op;
}

}  // namespace

std::vector<Operator> function_cases() {
  std::vector<Operator> all;
  all.push_back(whole_number("floor", op::floor, [](double x) { return std::floor(x); }));
  all.push_back(whole_number("ceil", op::ceil, [](double x) { return std::ceil(x); }));
  all.push_back(whole_number("round", op::round, [](double x) { return std::nearbyint(x); }));
  all.push_back(whole_number("trunc", op::trunc, [](double x) { return std::trunc(x); }));
  all.push_back(elementwise("sin", op::sin, [](double x) { return std::sin(x); }));
  all.push_back(elementwise("cos", op::cos, [](double x) { return std::cos(x); }));
  all.push_back(
      elementwise("tan", op::tan, [](double x) { return std::tan(x); }, {.low = -1.5, .high = 1.5, .far = 0}));
  all.push_back(elementwise("erf", op::erf, [](double x) { return std::erf(x); }));
  all.push_back(elementwise("log1p", op::log1p, [](double x) { return std::log1p(x); }, {.low = -0.75, .far = 0}));
  all.push_back(elementwise("expm1", op::expm1, [](double x) { return std::expm1(x); }, {.far = 80}));
  all.push_back(of_pairs("atan2", op::atan2, [](double a, double b) { return std::atan2(a, b); }, {-3, 3, -3, 3, 8}));
  all.push_back(power());
  all.push_back(
      exactly(of_pairs("fmod", op::fmod, [](double a, double b) { return std::fmod(a, b); }, {-30, 30, 0.75, 7, 4})));
  all.push_back(of_pairs("remainder", op::remainder, remainder, {-30, 30, -7, -0.75, 4}));
  all.push_back(by_number(
      "fmod/number", op::fmod, [](double a, double b) { return std::fmod(a, b); }, 2.5));
  all.push_back(by_number("remainder/number", op::remainder, remainder, 2.5));
  all.push_back(where_number("where/number before", true));
  all.push_back(where_number("where/number behind", false));
  return all;
}

}  // namespace tern::testing

// Elementwise arithmetic: broadcasting, special values, ties.

#include <algorithm>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using Kind = Invalid::Kind;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Shapes {
  Shape a, b;
};

// Sizes 0 and 1 in each place, primes, just over a vector and over a block, and each way to broadcast.
const std::vector<Shapes>& pairs() {
  static const std::vector<Shapes> all{{{}, {}},
                                       {{0}, {0}},
                                       {{1}, {1}},
                                       {{9}, {9}},
                                       {{17}, {17}},
                                       {{33}, {33}},
                                       {{4097}, {4097}},
                                       {{7, 11}, {7, 11}},
                                       {{3, 1}, {1, 5}},
                                       {{2, 2}, {2, 2}},
                                       {{3, 1}, {3, 200}},
                                       {{2, 3, 5}, {5}},
                                       {{2, 3, 5}, {3, 1}},
                                       {{5, 1, 3}, {1, 7, 1}},
                                       {{}, {3, 4}},
                                       {{1}, {7}},
                                       {{2, 0, 3}, {1, 3}},
                                       {{0, 3}, {1, 1}},
                                       {{13, 1, 17}, {13, 19, 17}},
                                       {{4, 3, 49}, {4, 3, 1}},  // a number for each row, and a row for all
                                       {{5, 1, 8}, {5, 6, 8}},
                                       {{6, 1}, {3, 6, 11}},
                                       {{2, 1, 3, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 3, 1, 2}}};
  return all;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{}, {0}, {1}, {9}, {17}, {33}, {4097}, {7, 11}, {3, 0, 2}, {2, 3, 5, 1}};
  return all;
}

Operator binary(const char* name, Binary call, std::function<double(double, double)> function, double low = -1,
                double high = 1) {
  Operator op{.name = name, .ulps = 2};
  const Call run = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; };
  for (const Shapes& pair : pairs())
    op.samples.push_back({.name = message(pair.a, " ", pair.b),
                          .arguments = {uniform(pair.a), uniform(pair.b, low, high)},
                          .call = run,
                          .reference = each_pair(function),
                          .gradient_terms = 64});
  op.samples.push_back({.name = "expanded views",
                        .arguments = {expanded({3, 1, 5}, {3, 4, 5}), uniform({4, 5}, low, high)},
                        .call = run,
                        .reference = each_pair(function),
                        .gradient_terms = 12});
  op.samples.push_back({.name = "special values",
                        .arguments = {listed({14, 1}, special_values()), listed({1, 14}, special_values())},
                        .call = run,
                        .reference = each_pair(function),
                        .gradient = false});
  op.samples.push_back({.name = "large",
                        .arguments = {uniform({300007}), uniform({300007}, low, high)},
                        .call = run,
                        .reference = each_pair(function),
                        .large = true});
  op.samples.push_back({.name = "large broadcast",
                        .arguments = {uniform({601, 499}), uniform({499}, low, high)},
                        .call = run,
                        .reference = each_pair(function),
                        .gradient_terms = 601,
                        .large = true});
  op.samples.push_back({.name = "large, a number for each row",
                        .arguments = {uniform({7, 601, 1}), uniform({7, 601, 49}, low, high)},
                        .call = run,
                        .reference = each_pair(function),
                        .gradient_terms = 49,
                        .large = true});
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2,3]", "[4]"}, [call] { call(ones({2, 3}), ones({4})); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [call] { call(ones({2}), ones({2}, DType::float64)); });
  op.refuses("an integer", Kind::dtype, {"float32", "int32", "to("},
             [call] { call(ones({2}), ones({2}, DType::int32)); });
  return op;
}

Operator exact_binary(const char* name, Binary call, std::function<double(double, double)> function) {
  Operator op = binary(name, call, function);
  for (const Shapes& pair : {Shapes{{9, 31}, {31}}, Shapes{{129}, {129}}})
    op.samples.push_back({.name = message("integers ", pair.a, " ", pair.b),
                          .arguments = {integers(pair.a), integers(pair.b)},
                          .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
                          .reference = each_pair(function),
                          .gradient = false,
                          .exact = true});
  return op;
}

// Ties share the gradient half and half, which is what a central difference sees.
Operator select(const char* name, Binary call, std::function<double(double, double)> function) {
  Operator op = exact_binary(name, call, function);
  op.samples.push_back({.name = "ties",
                        .arguments = {integers({5, 8}, 0, 2), integers({8}, 0, 2)},
                        .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
                        .reference = each_pair(function),
                        .gradient_terms = 5});
  return op;
}

Operator same_twice(Operator op, Binary call, std::function<double(double, double)> function) {
  op.samples.push_back({.name = "one tensor twice",
                        .arguments = {uniform({6, 7}, 0.5, 2)},
                        .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[0])}; },
                        .reference = each([function](double x) { return function(x, x); }),
                        .gradient_terms = 2});
  return op;
}

// The sum of several tensors of one shape.
Operator sum_of_several() {
  Operator op{.name = "add_all"};
  const auto sample = [](int count, const Shape& shape, bool large) {
    return Sample{.name = message(count, " of ", shape),
                  .arguments = std::vector<Argument>(static_cast<std::size_t>(count), uniform(shape)),
                  .call = [](const std::vector<Tensor>& in) { return std::vector{op::add_all(in)}; },
                  .reference =
                      [](const std::vector<Array>& in) {
                        Array out = in[0];
                        for (std::size_t i = 1; i < in.size(); ++i)
                          for (std::size_t k = 0; k < out.values.size(); ++k) out.values[k] += in[i].values[k];
                        return std::vector{out};
                      },
                  .terms = static_cast<double>(count),
                  .large = large};
  };
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
    for (const Shape& shape : {Shape{7}, Shape{3, 4, 5, 6}, Shape{0, 3}})
      op.samples.push_back(sample(count, shape, false));
  op.samples.push_back(sample(4, {100003}, true));
  op.refuses("nothing", Kind::shape, {"no tensors"}, [] { op::add_all({}); });
  op.refuses("two shapes", Kind::shape, {"[2]", "[3]"}, [] { op::add_all({ones({2}), ones({3})}); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [] {
    op::add_all({ones({2}), ones({2}, DType::float64)});
  });
  return op;
}

// An operator with a number on one side.
Operator with_number(const char* name, std::function<Tensor(const Tensor&, double)> call,
                     std::function<double(double, double)> function) {
  Operator op{.name = name, .ulps = 2};
  for (const double number : {0.75, -3.0, 0.0})
    for (const Shape& shape : shapes())
      op.samples.push_back(
          {.name = message(shape, " with ", number),
           .arguments = {uniform(shape, 0.5, 2)},
           .call = [call, number](const std::vector<Tensor>& in) { return std::vector{call(in[0], number)}; },
           .reference = each([function, number](double x) { return function(x, number); }),
           .gradient = number != 0});
  op.samples.push_back({.name = "special values",
                        .arguments = {listed({14}, special_values())},
                        .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], 2.0)}; },
                        .reference = each([function](double x) { return function(x, 2.0); }),
                        .gradient = false});
  op.refuses("half an integer", Kind::dtype, {"0.5", "int64"}, [call] { call(ones({2}, DType::int64), 0.5); });
  return op;
}

Operator comparison(const char* name, Binary call, std::function<bool(double, double)> function) {
  Operator op{.name = name};
  const auto reference =
      each_pair([function](double a, double b) { return function(a, b) ? 1.0 : 0.0; }, DType::boolean);
  const Call run = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; };
  for (const Shapes& pair : pairs())
    op.samples.push_back({.name = message(pair.a, " ", pair.b),
                          .arguments = {integers(pair.a, 0, 2), integers(pair.b, 0, 2)},
                          .call = run,
                          .reference = reference,
                          .gradient = false,
                          .exact = true});
  op.samples.push_back({.name = "special values",
                        .arguments = {listed({14, 1}, special_values()), listed({14}, special_values())},
                        .call = run,
                        .reference = reference,
                        .gradient = false,
                        .exact = true});
  op.samples.push_back({.name = "large",
                        .arguments = {integers({300007}, 0, 2), integers({300007}, 0, 2)},
                        .call = run,
                        .reference = reference,
                        .gradient = false,
                        .exact = true,
                        .large = true});
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2,3]", "[3,2]"}, [call] {
    call(ones({2, 3}), ones({3, 2}));
  });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [call] { call(ones({2}), ones({2}, DType::float64)); });
  return op;
}

Operator unary(const char* name, std::function<Tensor(const Tensor&)> call, std::function<double(double)> function,
               double low = -2, double high = 2) {
  Operator op{.name = name};
  const Call run = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; };
  for (const Shape& shape : shapes())
    op.samples.push_back(
        {.name = message(shape), .arguments = {uniform(shape, low, high)}, .call = run, .reference = each(function)});
  op.samples.push_back({.name = "expanded view",
                        .arguments = {[&] {
                          Argument argument = expanded({3, 1}, {3, 7});
                          argument.low = low;
                          argument.high = high;
                          return argument;
                        }()},
                        .call = run,
                        .reference = each(function)});
  op.samples.push_back({.name = "special values",
                        .arguments = {listed({28}, special_values())},
                        .call = run,
                        .reference = each(function),
                        .gradient = false});
  op.samples.push_back({.name = "large",
                        .arguments = {uniform({300007}, low, high)},
                        .call = run,
                        .reference = each(function),
                        .large = true});
  op.refuses("bools", Kind::dtype, {"bool"}, [call] { call(ones({3}, DType::boolean)); });
  return op;
}

Operator power() {
  Operator op{.name = "pow", .ulps = 8};
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, 0.0, 1.0, 2.7, -0.3})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{3, 11}, Shape{1031}})
      op.samples.push_back(
          {.name = message(shape, " to the ", exponent),
           .arguments = {uniform(shape, 0.3, 2)},
           .call = [exponent](const std::vector<Tensor>& in) { return std::vector{op::pow(in[0], exponent)}; },
           .reference = each([exponent](double x) { return std::pow(x, exponent); })});
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, 0.0, 1.5})
    op.samples.push_back(
        {.name = message("special values to the ", exponent),
         .arguments = {listed({14}, special_values())},
         .call = [exponent](const std::vector<Tensor>& in) { return std::vector{op::pow(in[0], exponent)}; },
         .reference = each([exponent](double x) { return std::pow(x, exponent); }),
         .gradient = false});
  op.samples.push_back({.name = "negative base squared",
                        .arguments = {uniform({31}, -2, 2)},
                        .call = [](const std::vector<Tensor>& in) { return std::vector{op::pow(in[0], 2)}; },
                        .reference = each([](double x) { return x * x; })});
  op.samples.push_back({.name = "large",
                        .arguments = {uniform({100003}, 0.3, 2)},
                        .call = [](const std::vector<Tensor>& in) { return std::vector{op::pow(in[0], 2.7)}; },
                        .reference = each([](double x) { return std::pow(x, 2.7); }),
                        .large = true});
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::pow(ones({3}, DType::int32), 2); });
  return op;
}

Operator where() {
  Operator op{.name = "where"};
  const Call run = [](const std::vector<Tensor>& in) { return std::vector{op::where(in[0], in[1], in[2])}; };
  const Reference reference = [](const std::vector<Array>& in) {
    Array result(broadcast("where", broadcast("where", in[0].shape, in[1].shape), in[2].shape));
    std::int64_t i = 0;
    for_each_position(result.shape, [&](const Shape& position) {
      result[i++] = broadcast_at(in[0], position) != 0 ? broadcast_at(in[1], position) : broadcast_at(in[2], position);
    });
    return std::vector{result};
  };
  struct Three {
    Shape condition, a, b;
  };
  for (const Three& three : {Three{{}, {}, {}}, Three{{0}, {0}, {0}}, Three{{17}, {17}, {17}},
                             Three{{4097}, {4097}, {4097}}, Three{{3, 1}, {1, 5}, {3, 5}}, Three{{5}, {2, 3, 5}, {}},
                             Three{{2, 1, 5}, {3, 1}, {5}}, Three{{7, 11}, {7, 1}, {11}}})
    op.samples.push_back({.name = message(three.condition, " ", three.a, " ", three.b),
                          .arguments = {booleans(three.condition), uniform(three.a), uniform(three.b)},
                          .call = run,
                          .reference = reference,
                          .gradient_terms = 16});
  op.samples.push_back({.name = "large",
                        .arguments = {booleans({300007}), uniform({300007}), uniform({300007})},
                        .call = run,
                        .reference = reference,
                        .large = true});
  op.samples.push_back(
      {.name = "NaN on the other side",
       .arguments = {listed({6}, {1, 0, 1}), listed({6}, {1, not_a_number, 2}), listed({6}, {not_a_number, 3, 4})},
       .call = run,
       .reference = reference,
       .gradient = false});
  op.samples.back().arguments[0].dtype = DType::boolean;
  op.refuses("a condition that is not bool", Kind::dtype, {"float32", "bool"},
             [] { op::where(ones({2}), ones({2}), ones({2})); });
  op.refuses("shapes that do not broadcast", Kind::shape, {"[3]"},
             [] { op::where(ones({2}, DType::boolean), ones({3}), ones({2})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"},
             [] { op::where(ones({2}, DType::boolean), ones({2}), ones({2}, DType::float64)); });
  return op;
}

Operator mul_add() {
  Operator op{.name = "mul_add", .ulps = 2};
  const Call run = [](const std::vector<Tensor>& in) { return std::vector{op::mul_add(in[0], in[1], in[2])}; };
  const Reference reference = [](const std::vector<Array>& in) {
    Array result(broadcast("mul_add", broadcast("mul_add", in[0].shape, in[1].shape), in[2].shape));
    std::int64_t i = 0;
    for_each_position(result.shape, [&](const Shape& position) {
      result[i++] = broadcast_at(in[0], position) * broadcast_at(in[1], position) + broadcast_at(in[2], position);
    });
    return std::vector{result};
  };
  struct Three {
    Shape a, b, c;
  };
  // Positive, so that no digits cancel. The first ones are a scale for each column, of rows of whole packs and others.
  for (const Three& three :
       {Three{{48}, {7, 48}, {7, 48}}, Three{{37}, {9, 37}, {9, 37}}, Three{{9, 37}, {37}, {9, 37}}, Three{{}, {}, {}},
        Three{{0}, {0}, {0}}, Three{{17}, {17}, {17}}, Three{{4097}, {4097}, {4097}}, Three{{3, 1}, {1, 5}, {3, 5}},
        Three{{5}, {2, 3, 5}, {}}, Three{{2, 1, 5}, {3, 1}, {5}}, Three{{4, 19}, {4, 1}, {19}},
        Three{{1}, {3, 1, 9}, {3, 5, 9}}, Three{{3, 1, 1}, {2, 3, 4, 4}, {2, 3, 4, 4}}})
    op.samples.push_back({.name = message(three.a, " ", three.b, " ", three.c),
                          .arguments = {uniform(three.a, 0.5, 2), uniform(three.b, 0.5, 2), uniform(three.c, 0.5, 2)},
                          .call = run,
                          .reference = reference,
                          .gradient_terms = 64});
  op.samples.push_back({.name = "integers",
                        .arguments = {integers({31}), integers({9, 31}), integers({9, 31})},
                        .call = run,
                        .reference = reference,
                        .gradient = false,
                        .exact = true});
  op.samples.push_back({.name = "large",
                        .arguments = {uniform({731}, 0.5, 2), uniform({411, 731}, 0.5, 2), uniform({411, 731}, 0.5, 2)},
                        .call = run,
                        .reference = reference,
                        .gradient_terms = 411,
                        .large = true});
  op.refuses("shapes that do not broadcast", Kind::shape, {"[3]"},
             [] { op::mul_add(ones({2}), ones({2}), ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"},
             [] { op::mul_add(ones({2}), ones({2}), ones({2}, DType::float64)); });
  return op;
}

double maximum_of(double a, double b) { return std::isnan(a) || std::isnan(b) ? not_a_number : std::max(a, b); }
double minimum_of(double a, double b) { return std::isnan(a) || std::isnan(b) ? not_a_number : std::min(a, b); }

}  // namespace

std::vector<Operator> arithmetic_cases() {
  const auto add = [](double a, double b) { return a + b; };
  const auto sub = [](double a, double b) { return a - b; };
  const auto mul = [](double a, double b) { return a * b; };
  const auto div = [](double a, double b) { return a / b; };
  std::vector<Operator> all;
  all.push_back(same_twice(exact_binary("add", op::add, add), op::add, add));
  all.push_back(same_twice(exact_binary("sub", op::sub, sub), op::sub, sub));
  all.push_back(same_twice(exact_binary("mul", op::mul, mul), op::mul, mul));
  all.push_back(same_twice(binary("div", op::div, div, 0.5, 2), op::div, div));
  all.push_back(sum_of_several());
  all.push_back(mul_add());
  all.push_back(select("maximum", op::maximum, maximum_of));
  all.push_back(select("minimum", op::minimum, minimum_of));
  all.push_back(with_number(
      "add/number", [](const Tensor& x, double y) { return op::add(x, y); }, add));
  all.push_back(with_number(
      "sub/number", [](const Tensor& x, double y) { return op::sub(x, y); }, sub));
  all.push_back(with_number(
      "mul/number", [](const Tensor& x, double y) { return op::mul(x, y); }, mul));
  all.push_back(with_number(
      "div/number", [](const Tensor& x, double y) { return op::div(x, y); }, div));
  all.push_back(with_number(
      "sub/from number", [](const Tensor& x, double y) { return op::sub(y, x); },
      [](double x, double y) { return y - x; }));
  all.push_back(with_number(
      "div/of number", [](const Tensor& x, double y) { return op::div(y, x); },
      [](double x, double y) { return y / x; }));
  all.push_back(comparison("equal", op::equal, [](double a, double b) { return a == b; }));
  all.push_back(comparison("not_equal", op::not_equal, [](double a, double b) { return a != b; }));
  all.push_back(comparison("less", op::less, [](double a, double b) { return a < b; }));
  all.push_back(comparison("less_equal", op::less_equal, [](double a, double b) { return a <= b; }));
  all.push_back(comparison("greater", op::greater, [](double a, double b) { return a > b; }));
  all.push_back(comparison("greater_equal", op::greater_equal, [](double a, double b) { return a >= b; }));
  all.push_back(where());
  all.push_back(unary("neg", op::neg, [](double x) { return -x; }));
  all.push_back(unary("exp", op::exp, [](double x) { return std::exp(x); }));
  all.push_back(unary(
      "log", op::log, [](double x) { return std::log(x); }, 0.3, 3));
  all.push_back(unary(
      "sqrt", op::sqrt, [](double x) { return std::sqrt(x); }, 0.3, 3));
  all.push_back(unary("abs", op::abs, [](double x) { return std::abs(x); }));
  all.push_back(power());
  all.push_back(unary(
      "clamp", [](const Tensor& x) { return op::clamp(x, -0.5, 1.25); },
      [](double x) { return std::isnan(x) ? x : std::min(std::max(x, -0.5), 1.25); }));
  return all;
}

}  // namespace tern::testing

// Integers and bools: arithmetic, logic, comparisons and choices, against whole numbers, which doubles hold exactly.
// Sums and extremes are in integer_reduction_cases.cpp, what wraps around and what needs all 64 bits in
// integer_test.cpp.

#include <algorithm>
#include <cmath>

#include "operators/integers.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using Two = Tensor (*)(const Tensor&, const Tensor&);
using One = Tensor (*)(const Tensor&);
using Function = double (*)(double, double);

struct Shapes {
  Shape a, b;
};

const std::vector<Shapes>& pairs() {
  static const std::vector<Shapes> all{{{}, {}},
                                       {{0}, {0}},
                                       {{17}, {17}},
                                       {{4097}, {4097}},
                                       {{7, 11}, {11}},
                                       {{3, 1}, {1, 5}},
                                       {{2, 3, 5}, {}},
                                       {{2, 0, 3}, {1, 3}},
                                       {{3, 1}, {3, 200}},
                                       {{5, 1, 3}, {1, 7, 1}},
                                       {{}, {3, 4}},
                                       {{0, 3}, {1, 1}},
                                       {{13, 1, 17}, {1, 19, 1}}};
  return all;
}

Sample of_two(const std::string& name, Argument a, Argument b, Two call, Function function, std::optional<DType> result,
              const std::vector<DType>& dtypes) {
  return {.name = name,
          .arguments = {std::move(a), std::move(b)},
          .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
          .reference = each_pair(function, result),
          .dtypes = dtypes,
          .gradient = false,
          .exact = true};
}

Operator binary(const char* name, Two call, Function function, const std::vector<Numbers>& all_numbers,
                std::optional<DType> result = {}) {
  Operator op{.name = name};
  for (const Numbers& numbers : all_numbers) {
    const auto add = [&](const std::string& label, const Shapes& shapes) {
      op.samples.push_back(of_two(message(label, " of ", numbers.dtypes[0], " from ", numbers.a_low),
                                  integers(shapes.a, numbers.a_low, numbers.a_high),
                                  integers(shapes.b, numbers.b_low, numbers.b_high), call, function, result,
                                  numbers.dtypes));
    };
    for (const Shapes& shapes : pairs()) add(message(shapes.a, " ", shapes.b), shapes);
    add("large", {{100003}, {100003}});
    op.samples.back().large = true;
    op.samples.back().dtypes.resize(1);
  }
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"},
             [call] { call(ones({2}, DType::int32), ones({3}, DType::int32)); });
  op.refuses("two dtypes", Kind::dtype, {"int32", "int64", "to("},
             [call] { call(ones({2}, DType::int32), ones({2}, DType::int64)); });
  return op;
}

Operator without_bools(Operator op, Two call) {
  op.refuses("bools", Kind::dtype, {"bool"}, [call] { call(ones({2}, DType::boolean), ones({2}, DType::boolean)); });
  return op;
}

// Divisors are no 0.
Operator division(const char* name, Two call, Function function) {
  Operator op = without_bools(
      binary(name, call, function, {{signed_dtypes, -50, 50, 1, 9}, {{DType::uint8}, 0, 200, 1, 9}}), call);
  op.samples.push_back(of_two("of signs", integers({7, 40}, -50, 50), listed({7, 1}, {-1, -2, -3, 7, -7, 50, -51}),
                              call, function, {}, signed_dtypes));
  for (const DType dtype : number_dtypes)
    op.refuses(
        message("by 0, ", dtype), Kind::numeric, {"0"},
        [call, dtype] {
          call(ones({3}, dtype), tensor<float>({1, 0, 2}).to(dtype));
        },
        std::string_view(name).starts_with("div") ? "div" : "fmod");
  return op;
}

Operator logic(const char* name, Two call, Function function) {
  Operator op = binary(name, call, function, {{integer_dtypes, 0, 2, 0, 2}}, DType::boolean);
  op.invalid.pop_back();  // any two dtypes
  op.samples.push_back(
      of_two("floating", integers({7, 11}, -1, 1), integers({11}, -1, 1), call, function, DType::boolean, all_dtypes));
  return op;
}

Operator comparison(const char* name, Two call, Function function) {
  return binary(
      name, call, function,
      {{signed_dtypes, -2, 2, -2, 2}, {{DType::uint8}, 0, 2, 0, 2}, of_bool, {{DType::uint8}, 254, 255, 1, 255}},
      DType::boolean);
}

Operator unary(const char* name, One call, double (*function)(double), const std::vector<Numbers>& all_numbers) {
  Operator op{.name = name};
  for (const Numbers& numbers : all_numbers)
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{17}, Shape{7, 11}, Shape{3, 0, 2}, Shape{4097}, Shape{100003}}) {
      op.samples.push_back({.name = message(shape, " of ", numbers.dtypes[0]),
                            .arguments = {integers(shape, numbers.a_low, numbers.a_high)},
                            .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; },
                            .reference = each(function),
                            .dtypes = numbers.dtypes,
                            .gradient = false,
                            .exact = true,
                            .large = shape.rank() == 1 && shape[0] > 100000});
    }
  return op;
}

Operator where() {
  Operator op{.name = "where/integers"};
  for (const Shapes& shapes : pairs())
    op.samples.push_back(
        {.name = message(shapes.a, " ", shapes.b),
         .arguments = {booleans(shapes.b), integers(shapes.a, 0, 90), integers(shapes.b, 0, 90)},
         .call = [](const std::vector<Tensor>& in) { return std::vector{op::where(in[0], in[1], in[2])}; },
         .reference =
             [](const std::vector<Array>& in) {
               Array result(broadcast("where", in[0].shape, in[1].shape));
               std::int64_t i = 0;
               for_each_position(result.shape, [&](const Shape& position) {
                 result[i++] = broadcast_at(in[broadcast_at(in[0], position) != 0 ? 1 : 2], position);
               });
               return std::vector{result};
             },
         .dtypes = integer_dtypes,
         .gradient = false,
         .exact = true});
  return op;
}

// With a number on the side that `call` says.
Operator with_number(const char* name, std::function<Tensor(const Tensor&)> call, double (*function)(double),
                     std::optional<DType> result = {}) {
  Operator op{.name = name};
  for (const Shape& shape : {Shape{}, Shape{17}, Shape{7, 11}, Shape{0, 2}})
    op.samples.push_back({.name = message(shape),
                          .arguments = {integers(shape, 3, 80)},
                          .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; },
                          .reference =
                              [function, result](const std::vector<Array>& in) {
                                std::vector<Array> out = each(function)(in);
                                out[0].dtype = result;
                                return out;
                              },
                          .dtypes = number_dtypes,
                          .gradient = false,
                          .exact = true});
  return op;
}

void append_numbers(std::vector<Operator>& all) {
  all.push_back(with_number(
      "add/integers with number", [](const Tensor& x) { return x + 3; }, [](double x) { return x + 3; }));
  all.push_back(with_number(
      "sub/integers with number", [](const Tensor& x) { return x - 3; }, [](double x) { return x - 3; }));
  all.push_back(with_number(
      "sub/number with integers", [](const Tensor& x) { return 100 - x; }, [](double x) { return 100 - x; }));
  all.push_back(with_number(
      "mul/integers with number", [](const Tensor& x) { return x * 3; }, [](double x) { return x * 3; }));
  all.push_back(with_number(
      "div/integers with number", [](const Tensor& x) { return x / 7; }, [](double x) { return std::trunc(x / 7); }));
  all.push_back(with_number(
      "div/number with integers", [](const Tensor& x) { return 100 / x; },
      [](double x) { return std::trunc(100 / x); }));
  all.push_back(with_number(
      "floor_divide/number", [](const Tensor& x) { return op::floor_divide(x, 7); },
      [](double x) { return std::floor(x / 7); }));
  all.push_back(with_number(
      "remainder/integers with number", [](const Tensor& x) { return op::remainder(x, 7); },
      [](double x) { return std::fmod(x, 7); }));
  all.push_back(with_number(
      "maximum/integers with number", [](const Tensor& x) { return op::maximum(x, 40); },
      [](double x) { return std::max(x, 40.0); }));
  all.push_back(with_number(
      "less/integers with number", [](const Tensor& x) { return x < 40; }, [](double x) { return x < 40 ? 1.0 : 0.0; },
      DType::boolean));
  all.push_back(with_number(
      "masked_fill/integers", [](const Tensor& x) { return op::masked_fill(x, x < 40, 7); },
      [](double x) { return x < 40 ? 7 : x; }));
}

double floored(double a, double b) { return std::floor(a / b); }
double rest_of(double a, double b) { return a - b * std::floor(a / b); }
long bits(double x) { return static_cast<long>(x); }

}  // namespace

std::vector<Operator> integer_cases() {
  std::vector<Operator> all;
  const std::vector<Numbers> numbers{of_signs, of_uint8, of_bool};
  all.push_back(binary(
      "add/integers", op::add, [](double a, double b) { return a + b; }, numbers));
  all.push_back(without_bools(
      binary("sub/integers", op::sub, [](double a, double b) { return a - b; }, {of_signs, of_uint8}), op::sub));
  all.push_back(binary(
      "mul/integers", op::mul, [](double a, double b) { return a * b; }, numbers));
  all.push_back(division("div/integers", op::div, [](double a, double b) { return std::trunc(a / b); }));
  all.push_back(division("fmod/integers", op::fmod, [](double a, double b) { return std::fmod(a, b); }));
  all.push_back(division("remainder/integers", op::remainder, rest_of));
  all.push_back(division("floor_divide", op::floor_divide, floored));
  all.back().samples.push_back(of_two("floating", integers({7, 40}, -50, 50),
                                      listed({7, 1}, {-1, -2, 3, 0.5, -0.25, 50, 7}), op::floor_divide, floored, {},
                                      compute_dtypes));
  all.push_back(binary(
      "maximum/integers", op::maximum, [](double a, double b) { return std::max(a, b); }, numbers));
  all.push_back(binary(
      "minimum/integers", op::minimum, [](double a, double b) { return std::min(a, b); }, numbers));
  all.push_back(binary(
      "bitwise_and", op::bitwise_and, [](double a, double b) { return static_cast<double>(bits(a) & bits(b)); },
      numbers));
  all.push_back(binary(
      "bitwise_or", op::bitwise_or, [](double a, double b) { return static_cast<double>(bits(a) | bits(b)); },
      numbers));
  all.push_back(binary(
      "bitwise_xor", op::bitwise_xor, [](double a, double b) { return static_cast<double>(bits(a) ^ bits(b)); },
      numbers));
  for (Operator& op : all)
    if (op.name.starts_with("bitwise"))
      op.refuses(
          "floats", Kind::dtype, {"float32", "integers"}, [] { op::bitwise_and(ones({2}), ones({2})); }, "bitwise_and");
  all.push_back(logic("logical_and", op::logical_and, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }));
  all.push_back(logic("logical_or", op::logical_or, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }));
  all.push_back(
      logic("logical_xor", op::logical_xor, [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }));
  all.push_back(comparison("equal/integers", op::equal, [](double a, double b) { return a == b ? 1.0 : 0.0; }));
  all.push_back(comparison("not_equal/integers", op::not_equal, [](double a, double b) { return a != b ? 1.0 : 0.0; }));
  all.push_back(comparison("less/integers", op::less, [](double a, double b) { return a < b ? 1.0 : 0.0; }));
  all.push_back(
      comparison("less_equal/integers", op::less_equal, [](double a, double b) { return a <= b ? 1.0 : 0.0; }));
  all.push_back(comparison("greater/integers", op::greater, [](double a, double b) { return a > b ? 1.0 : 0.0; }));
  all.push_back(
      comparison("greater_equal/integers", op::greater_equal, [](double a, double b) { return a >= b ? 1.0 : 0.0; }));
  all.push_back(where());
  all.push_back(unary("neg/integers", op::neg, [](double x) { return -x; }, {of_signs}));
  all.push_back(
      unary("abs/integers", op::abs, [](double x) { return std::abs(x); }, {of_signs, {{DType::uint8}, 0, 255, 0, 0}}));
  all.push_back(unary("sign/integers", op::sign, [](double x) { return x > 0   ? 1.0
                                                                       : x < 0 ? -1.0
                                                                               : 0.0; },
                      {{signed_dtypes, -2, 2, 0, 0}, {{DType::uint8}, 0, 255, 0, 0}}));
  all.push_back(unary("bitwise_not", op::bitwise_not, [](double x) { return -1 - x; }, {of_signs}));
  for (const Numbers& more : {Numbers{{DType::uint8}, 0, 255, 0, 0}, of_bool}) {
    Operator wider = more.dtypes[0] == DType::uint8
                         ? unary("", op::bitwise_not, [](double x) { return 255 - x; }, {more})
                         : unary("", op::bitwise_not, [](double x) { return 1 - x; }, {more});
    for (Sample& sample : wider.samples) all.back().samples.push_back(std::move(sample));
  }
  all.push_back(
      unary("logical_not", op::logical_not, [](double x) { return x == 0 ? 1.0 : 0.0; }, {{all_dtypes, 0, 2, 0, 0}}));
  for (Sample& sample : all.back().samples)
    sample.reference = [inner = sample.reference](const std::vector<Array>& in) {
      std::vector<Array> out = inner(in);
      out[0].dtype = DType::boolean;
      return out;
    };
  append_numbers(all);
  return all;
}

}  // namespace tern::testing

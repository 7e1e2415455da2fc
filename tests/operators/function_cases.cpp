// Functions that are exact near 0, and choices between a tensor and a number.

#include "operators/elementwise.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

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
  op.invalid = {{"a condition of numbers", Kind::dtype, {"bool"}, [] { op::where(ones({2}), ones({2}), 1.0); }},
                {"integers", Kind::dtype, {"int64"}, [before] {
                   const Tensor condition = ones({2}, DType::boolean), x = ones({2}, DType::int64);
                   before ? op::where(condition, 1.0, x) : op::where(condition, x, 1.0);
                 }}};
  return op;
}

}  // namespace

std::vector<Operator> function_cases() {
  std::vector<Operator> all;
  all.push_back(elementwise("log1p", op::log1p, [](double x) { return std::log1p(x); }, {.low = -0.75, .far = 0}));
  all.push_back(elementwise("expm1", op::expm1, [](double x) { return std::expm1(x); }, {.far = 80}));
  all.push_back(where_number("where/number before", true));
  all.push_back(where_number("where/number behind", false));
  return all;
}

}  // namespace tern::testing

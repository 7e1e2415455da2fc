// Shifts, against whole numbers.

#include "operators/integers.hpp"
#include "tern/operators/bits.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

int bits_of(DType dtype) { return static_cast<int>(size_of(dtype)) * 8; }

double left(double a, double count, DType dtype) {
  if (count < 0 || count >= bits_of(dtype)) return 0;
  const std::uint64_t bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(a)) << static_cast<int>(count);
  if (dtype == DType::uint8) return static_cast<double>(static_cast<std::uint8_t>(bits));
  return dtype == DType::int32 ? static_cast<double>(static_cast<std::int32_t>(bits))
                               : static_cast<double>(static_cast<std::int64_t>(bits));
}

double right(double a, double count, DType dtype) {
  if (count < 0 || count >= bits_of(dtype)) return a < 0 ? -1 : 0;
  return static_cast<double>(static_cast<std::int64_t>(a) >> static_cast<int>(count));
}

Operator shift(const char* name, Tensor (*call)(const Tensor&, const Tensor&),
               double (*function)(double, double, DType)) {
  Operator op{.name = name};
  const auto add = [&](const std::string& label, Argument a, Argument count, DType dtype) {
    op.samples.push_back(
        {.name = message(label, " of ", dtype),
         .arguments = {std::move(a), std::move(count)},
         .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
         .reference = each_pair([function, dtype](double x, double y) { return function(x, y, dtype); }),
         .dtypes = {dtype},
         .gradient = false,
         .exact = true});
  };
  for (const DType dtype : number_dtypes) {
    const double low = dtype == DType::uint8 ? 0 : -200, high = dtype == DType::uint8 ? 255 : 200;
    const double most = bits_of(dtype) - 1;
    for (const auto& [a, b] : {std::pair{Shape{17}, Shape{17}},
                               {Shape{}, Shape{}},
                               {Shape{0}, Shape{0}},
                               {Shape{7, 11}, Shape{11}},
                               {Shape{3, 1}, Shape{1, 5}},
                               {Shape{2, 3, 5}, Shape{}}})
      add(message(a, " by ", b), integers(a, low, high), integers(b, 0, std::min(most, 40.0)), dtype);
    add("every count", integers({9, 1}, low, high), listed({1, 8}, {0, 1, 2, 3, 5, 7, most, most - 1}), dtype);
    std::vector<double> outside{most + 1, most + 2, 200};
    if (dtype != DType::uint8) outside.insert(outside.end(), {-1, -7, 1000});
    add("counts outside", integers({9, 1}, low, high), listed({1, 6}, outside), dtype);
  }
  op.refuses("bools", Kind::dtype, {"bool"}, [call] { call(ones({2}, DType::boolean), ones({2}, DType::boolean)); });
  op.refuses("floats", Kind::dtype, {"float32"}, [call] { call(ones({2}), ones({2})); });
  op.refuses("two dtypes", Kind::dtype, {"int64"}, [call] { call(ones({2}, DType::int32), ones({2}, DType::int64)); });
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2]", "[3]"},
             [call] { call(ones({2}, DType::int32), ones({3}, DType::int32)); });
  return op;
}

}  // namespace

std::vector<Operator> bit_cases() {
  return {shift("bitwise_left_shift", op::bitwise_left_shift, left),
          shift("bitwise_right_shift", op::bitwise_right_shift, right)};
}

}  // namespace tern::testing

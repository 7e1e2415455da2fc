// Integers, and bool as 0 and 1; the arithmetic is core/integer.hpp's.

#include "tern/core/integer.hpp"

#include "argsort.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Axis;
using kernels::Broadcast;

template <class Function, class T, class Out>
void binary(Context&, Out* out, const T* a, const T* b, const Broadcast& shape) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    out[i] = Function{}(a[offset(shape.rank, index, shape.stride[0])], b[offset(shape.rank, index, shape.stride[1])]);
  });
}

template <template <class> class Fold, class T>
void reduce(Context&, typename Fold<T>::Result* out, const T* in, const Axis& axis) {
  using Rule = Fold<T>;
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    auto state = Rule::first;
    for (std::int64_t j = 0; j < axis.length; ++j) state = Rule::join(state, Rule::of(in[start + j * axis.inner]));
    out[line] = static_cast<typename Rule::Result>(state);
  });
}

template <template <class> class Fold, class T>
void extreme(Context&, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    std::int64_t winner = 0;
    for (std::int64_t j = 1; j < axis.length; ++j)
      if (Fold<T>::better(in[start + j * axis.inner], in[start + winner * axis.inner])) winner = j;
    if (out != nullptr) out[line] = in[start + winner * axis.inner];
    if (index != nullptr) index[line] = winner;
  });
}

}  // namespace

template <class T>
kernels::Operators<T> integer_operators() {
  return {.arithmetic = {.add = binary<integer::Add, T, T>,
                         .sub = binary<integer::Sub, T, T>,
                         .mul = binary<integer::Mul, T, T>,
                         .div = binary<integer::Quotient, T, T>,
                         .fmod = binary<integer::Rest, T, T>,
                         .maximum = binary<integer::Larger, T, T>,
                         .minimum = binary<integer::Smaller, T, T>,
                         .bitwise_and = binary<integer::And, T, T>,
                         .bitwise_or = binary<integer::Or, T, T>,
                         .bitwise_xor = binary<integer::Xor, T, T>,
                         .equal = binary<integer::Equal, T, bool>,
                         .not_equal = binary<integer::NotEqual, T, bool>,
                         .less = binary<integer::Less, T, bool>,
                         .less_equal = binary<integer::LessEqual, T, bool>,
                         .greater = binary<integer::Greater, T, bool>,
                         .greater_equal = binary<integer::GreaterEqual, T, bool>,
                         .where = where<T>,
                         .neg = unary<integer::Neg{}, T>,
                         .abs = unary<integer::Abs{}, T>,
                         .sign = unary<integer::Sign{}, T>,
                         .bitwise_not = unary<integer::Not{}, T>},
          .reduction = {.sum = reduce<integer::SumOf, T>,
                        .prod = reduce<integer::ProductOf, T>,
                        .max = extreme<integer::LargestOf, T>,
                        .min = extreme<integer::SmallestOf, T>,
                        .any = reduce<integer::AnyOf, T>,
                        .all = reduce<integer::AllOf, T>},
          .shape = {.argsort = argsort<T>}};
}
template kernels::Operators<std::int32_t> integer_operators<std::int32_t>();
template kernels::Operators<std::int64_t> integer_operators<std::int64_t>();
template kernels::Operators<std::uint8_t> integer_operators<std::uint8_t>();
template kernels::Operators<bool> integer_operators<bool>();

}  // namespace tern::sequential

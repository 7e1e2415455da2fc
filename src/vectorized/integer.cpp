// Integers, and bool as 0 and 1; the arithmetic is core/integer.hpp's, in plain loops that the compiler vectorizes,
// once per instruction set. They wrap around, so the order of a sum does not matter.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "tern/core/integer.hpp"
#include "vectorized/argsort.hpp"
#include "vectorized/broadcast.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Axis;
using kernels::Broadcast;

// Rough costs of one element in nanoseconds.
constexpr double streamed = 0.3, divided = 2, reduced = 0.15;

// ---- loops over contiguous arrays ----------------------------------------------------------------------------------

template <class Function, class T, class Out>
HWY_NOINLINE void loop_of_two(Out* out, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = Function{}(a[i], b[i]);
}

template <class T>
HWY_NOINLINE void choose(T* out, const T* a, const T* b, const bool* condition, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = condition[i] ? a[i] : b[i];
}

template <class Function, class T>
HWY_NOINLINE void loop_of_one(T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = Function{}(in[i]);
}

// ---- reductions ----------------------------------------------------------------------------------------------------

constexpr std::int64_t rows_at_once = 1 << 14, columns_at_once = 64;

template <class Rule, class In, class Of>
HWY_NOINLINE typename Rule::State fold_row(const In* in, std::int64_t n, Of of) {
  typename Rule::State state = Rule::first;
  for (std::int64_t i = 0; i < n; ++i) state = Rule::join(state, of(in[i]));
  return state;
}

/// Up to columns_at_once columns of rows that are `inner` apart.
template <class Rule, class In, class Of>
HWY_NOINLINE void fold_columns(typename Rule::State* out, const In* in, std::int64_t rows, std::int64_t inner,
                               std::int64_t columns, Of of) {
  typename Rule::State state[columns_at_once];
  std::fill_n(state, columns, Rule::first);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < columns; ++c) state[c] = Rule::join(state[c], of(in[row * inner + c]));
  std::copy_n(state, columns, out);
}

/// Calls visit(outer, column, columns) for groups of adjacent columns, which are [item] of all groups.
struct Columns {
  std::int64_t outer, first, count;
  Columns(const Axis& axis, std::int64_t item) {
    const std::int64_t groups = group_count(axis);
    outer = item / groups;
    first = item % groups * columns_at_once;
    count = std::min(columns_at_once, axis.inner - first);
  }
  static std::int64_t group_count(const Axis& axis) { return (axis.inner + columns_at_once - 1) / columns_at_once; }
};

template <class Rule, class In, class Of>
void fold(Context& context, typename Rule::State* out, const In* in, const Axis& axis, Of of) {
  const double cost = reduced * static_cast<double>(axis.length);
  if (axis.inner == 1)
    return parallel_for(context, axis.outer, cost, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        out[row] = fold_row<Rule>(in + row * axis.length, axis.length, of);
    });
  parallel_for(context, axis.outer * Columns::group_count(axis), cost * static_cast<double>(columns_at_once),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t item = begin; item < end; ++item) {
                   const Columns own(axis, item);
                   fold_columns<Rule>(out + own.outer * axis.inner + own.first,
                                      in + own.outer * axis.length * axis.inner + own.first, axis.length, axis.inner,
                                      own.count, of);
                 }
               });
}

/// A long axis is cut into blocks, whose states are combined in turn.
template <class Rule, class T>
void fold_blocks(Context& context, typename Rule::State* out, const T* in, const Axis& axis) {
  using State = typename Rule::State;
  const auto of = [](T x) { return Rule::of(x); };
  const auto same = [](State x) { return x; };
  const std::int64_t blocks = axis.length / rows_at_once, rest = axis.length % rows_at_once;
  if (blocks < 2 || axis.outer != 1) return fold<Rule>(context, out, in, axis, of);
  const std::int64_t results = axis.inner, parts = blocks + (rest == 0 ? 0 : 1);
  const Scratch scratch(context, static_cast<std::size_t>(parts * results) * sizeof(State));
  State* const partial = scratch.as<State>();
  fold<Rule>(context, partial, in, {blocks, rows_at_once, axis.inner}, of);
  if (rest != 0)
    fold<Rule>(context, partial + blocks * results, in + blocks * rows_at_once * axis.inner, {1, rest, axis.inner}, of);
  fold<Rule>(context, out, partial, {1, parts, axis.inner}, same);
}

/// Where the extremes found so far are first.
template <class T>
void find_first(Context& context, std::int64_t* index, const T* found, const T* in, const Axis& axis) {
  parallel_for(context, axis.outer * axis.inner, reduced * static_cast<double>(axis.length),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t line = begin; line < end; ++line) {
                   const T* const first = in + line / axis.inner * axis.length * axis.inner + line % axis.inner;
                   std::int64_t at = 0;
                   while (first[at * axis.inner] != found[line]) ++at;
                   index[line] = at;
                 }
               });
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class Function, class T, class Out>
void binary(Context& context, Out* out, const T* a, const T* b, const Broadcast& shape) {
  broadcast(context, streamed, shape, Loop<Out, T, T>{loop_of_two<Function, T, Out>, out}, a, b);
}

template <class Function, class T>
void division(Context& context, T* out, const T* a, const T* b, const Broadcast& shape) {
  broadcast(context, divided, shape, Loop<T, T, T>{loop_of_two<Function, T, T>, out}, a, b);
}

template <class T>
void where(Context& context, T* out, const T* a, const T* b, const bool* condition, const Broadcast& shape) {
  broadcast(context, streamed, shape, Loop<T, T, T, bool>{choose<T>, out}, a, b, condition);
}

template <class Function, class T>
void unary(Context& context, T* out, const T* in, std::int64_t n) {
  parallel_for(context, n, streamed, [=](std::int64_t begin, std::int64_t end) {
    loop_of_one<Function>(out + begin, in + begin, end - begin);
  });
}

template <template <class> class Rule, class T>
void reduce(Context& context, typename Rule<T>::Result* out, const T* in, const Axis& axis) {
  using State = typename Rule<T>::State;
  const std::int64_t results = axis.outer * axis.inner;
  const Scratch scratch(context, static_cast<std::size_t>(results) * sizeof(State));
  fold_blocks<Rule<T>>(context, scratch.as<State>(), in, axis);
  std::transform(scratch.as<State>(), scratch.as<State>() + results, out,
                 [](State state) { return static_cast<typename Rule<T>::Result>(state); });
}

template <template <class> class Rule, class T>
void extreme(Context& context, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  const Scratch scratch(context, out != nullptr ? 0 : static_cast<std::size_t>(axis.outer * axis.inner) * sizeof(T));
  T* const found = out != nullptr ? out : scratch.as<T>();
  fold_blocks<Rule<T>>(context, found, in, axis);
  if (index != nullptr) find_first(context, index, found, in, axis);
}

template <class T>
kernels::Operators<T> table() {
  return {.arithmetic = {.add = binary<integer::Add, T, T>,
                         .sub = binary<integer::Sub, T, T>,
                         .mul = binary<integer::Mul, T, T>,
                         .div = division<integer::Quotient, T>,
                         .fmod = division<integer::Rest, T>,
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
                         .neg = unary<integer::Neg, T>,
                         .abs = unary<integer::Abs, T>,
                         .sign = unary<integer::Sign, T>,
                         .bitwise_not = unary<integer::Not, T>},
          .reduction = {.sum = reduce<integer::SumOf, T>,
                        .prod = reduce<integer::ProductOf, T>,
                        .max = extreme<integer::LargestOf, T>,
                        .min = extreme<integer::SmallestOf, T>,
                        .any = reduce<integer::AnyOf, T>,
                        .all = reduce<integer::AllOf, T>},
          .shape = {.argsort = argsort<T>}};
}

}  // namespace

kernels::Operators<std::int32_t> integers_of_32_bits() { return table<std::int32_t>(); }
kernels::Operators<std::int64_t> integers_of_64_bits() { return table<std::int64_t>(); }
kernels::Operators<std::uint8_t> integers_of_8_bits() { return table<std::uint8_t>(); }
kernels::Operators<bool> booleans() { return table<bool>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

HWY_EXPORT(integers_of_32_bits);
HWY_EXPORT(integers_of_64_bits);
HWY_EXPORT(integers_of_8_bits);
HWY_EXPORT(booleans);

template <>
kernels::Operators<std::int32_t> integer_operators<std::int32_t>() {
  return HWY_DYNAMIC_DISPATCH(integers_of_32_bits)();
}
template <>
kernels::Operators<std::int64_t> integer_operators<std::int64_t>() {
  return HWY_DYNAMIC_DISPATCH(integers_of_64_bits)();
}
template <>
kernels::Operators<std::uint8_t> integer_operators<std::uint8_t>() {
  return HWY_DYNAMIC_DISPATCH(integers_of_8_bits)();
}
template <>
kernels::Operators<bool> integer_operators<bool>() {
  return HWY_DYNAMIC_DISPATCH(booleans)();
}

}  // namespace tern::vectorized
#endif

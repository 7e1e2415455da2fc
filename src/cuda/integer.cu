// Integers, and bool as 0 and 1; the arithmetic is core/integer.hpp's. They wrap around, so a sum has the same bits in
// any order.

#include "cuda/argsort.cuh"
#include "cuda/broadcast_maps.cuh"
#include "cuda/cuda.hpp"
#include "cuda/reduce.cuh"
#include "tern/core/integer.hpp"

namespace tern::cuda {
namespace {

using kernels::Axis;

/// A quotient or a remainder, which reports a divisor of 0.
template <class Function>
struct Reporting {
  FaultCell* cell;
  template <class T>
  __device__ T operator()(T a, T b) const {
    if (b == T(0)) report(cell, Fault::divisor, 0, 0);
    return Function{}(a, b);
  }
};

template <class T, class Rule>
struct FoldReducer {
  using State = typename Rule::State;
  typename Rule::Result* out;
  __device__ State init() const { return Rule::first; }
  __device__ void add(State& state, T value, std::int64_t) const { state = Rule::join(state, Rule::of(value)); }
  __device__ State operator()(State a, State b) const { return Rule::join(a, b); }
  __device__ void store(std::int64_t output, State state) const {
    out[output] = static_cast<typename Rule::Result>(state);
  }
};

/// The rule decides between any two elements, so the order of combining does not matter.
template <class T, class Rule>
struct FirstReducer {
  struct State {
    std::int64_t value, index;  ///< index -1: nothing yet
  };
  T* out;
  std::int64_t* indices;
  __device__ State init() const { return {0, -1}; }
  __device__ State operator()(const State& a, const State& b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    if (a.value == b.value) return a.index < b.index ? a : b;
    return Rule::better(b.value, a.value) ? b : a;
  }
  /// The same for increasing indices.
  __device__ void add(State& state, T value, std::int64_t index) const {
    const auto wide = static_cast<std::int64_t>(value);
    if (state.index < 0 || Rule::better(wide, state.value)) state = {wide, index};
  }
  __device__ void store(std::int64_t output, const State& state) const {
    if (out != nullptr) out[output] = static_cast<T>(state.value);
    if (indices != nullptr) indices[output] = state.index;
  }
};

template <class Function, class T>
void division(Context& context, T* out, const T* a, const T* b, const Broadcast& sizes) {
  binary(context, out, a, b, sizes, Reporting<Function>{fault_cell(context)});
}

template <class Function, class T>
void unary(Context& context, T* out, const T* in, std::int64_t n) {
  map(context, n, Function{}, out, in);
}

template <template <class> class Rule, class T>
void fold(Context& context, typename Rule<T>::Result* out, const T* in, const Axis& axis) {
  reduce<T>(context, axis, FoldReducer<T, Rule<T>>{out}, Elements<T>{in});
}

template <template <class> class Rule, class T>
void extreme(Context& context, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  reduce<T>(context, axis, FirstReducer<T, Rule<std::int64_t>>{out, index}, Elements<T>{in});
}

}  // namespace

template <class T>
kernels::Operators<T> integer_operators() {
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
          .reduction = {.sum = fold<integer::SumOf, T>,
                        .prod = fold<integer::ProductOf, T>,
                        .max = extreme<integer::LargestOf, T>,
                        .min = extreme<integer::SmallestOf, T>,
                        .any = fold<integer::AnyOf, T>,
                        .all = fold<integer::AllOf, T>},
          .shape = {.argsort = argsort<T>}};
}
template kernels::Operators<std::int32_t> integer_operators<std::int32_t>();
template kernels::Operators<std::int64_t> integer_operators<std::int64_t>();
template kernels::Operators<std::uint8_t> integer_operators<std::uint8_t>();
template kernels::Operators<bool> integer_operators<bool>();

}  // namespace tern::cuda

#pragma once

#include "tern/kernels/activation.hpp"
#include "tern/kernels/arithmetic.hpp"
#include "tern/kernels/attention.hpp"
#include "tern/kernels/conv.hpp"
#include "tern/kernels/dot.hpp"
#include "tern/kernels/integer.hpp"
#include "tern/kernels/loss.hpp"
#include "tern/kernels/movement.hpp"
#include "tern/kernels/normalization.hpp"
#include "tern/kernels/pooling.hpp"
#include "tern/kernels/reduction.hpp"
#include "tern/kernels/shape.hpp"
#include "tern/kernels/update.hpp"

namespace tern::kernels {

/// Whether operators compute in T, with all families of slots.
template <class T>
inline constexpr bool computes = facts_of(dtype_of<T>).kind == Kind::floating;

/// Whether operators take T with the slots of an integer dtype. int8 only stores.
template <class T>
inline constexpr bool computes_integers = !computes<T> && !std::is_same_v<T, std::int8_t>;

/// Calls `visit.template operator()<T>()` with each type that operators compute in.
template <class Visit>
constexpr void for_each_compute_type(const Visit& visit) {
  for_each_element_type([&]<class T>() {
    if constexpr (computes<T>) visit.template operator()<T>();
  });
}

/// Calls it with the type of `dtype` alone; false where operators do not compute in that.
template <class Visit>
constexpr bool with_compute_type(DType dtype, const Visit& visit) {
  return with_type_of(dtype, [&]<class T>(T) {
    if constexpr (computes<T>) visit.template operator()<T>();
    return computes<T>;
  });
}

/// Calls `visit.template operator()<T>()` with each integer type that operators take, bool among them.
template <class Visit>
constexpr void for_each_integer_type(const Visit& visit) {
  for_each_element_type([&]<class T>() {
    if constexpr (computes_integers<T>) visit.template operator()<T>();
  });
}

/// Calls it with the type of `dtype` alone; false where operators do not take that as an integer.
template <class Visit>
constexpr bool with_integer_type(DType dtype, const Visit& visit) {
  return with_type_of(dtype, [&]<class T>(T) {
    if constexpr (computes_integers<T>) visit.template operator()<T>();
    return computes_integers<T>;
  });
}

/// The dispatch table of one dtype: one member per family.
template <class T>
struct Operators {
  Arithmetic<T> arithmetic;
  Dot<T> dot;
  Conv<T> conv;
  Activations<T> activation;
  Pooling<T> pooling;
  Reduction<T> reduction;
  Loss<T> loss;
  Normalization<T> normalization;
  Attention<T> attention;
  Shape<T> shape;
  Update<T> update;
  /// Whether Conv, Pooling and Normalization take channels-last arrays; others are converted by the caller.
  bool channels_last = false;

  using Members = MemberList<&Operators::arithmetic, &Operators::dot, &Operators::conv, &Operators::activation,
                             &Operators::pooling, &Operators::reduction, &Operators::loss, &Operators::normalization,
                             &Operators::attention, &Operators::shape, &Operators::update, &Operators::channels_last>;
};

/// That of an integer dtype has fewer families, with fewer slots: an operator takes integers where there is its slot.
template <class T>
requires std::is_integral_v<T>
struct Operators<T> {
  IntegerArithmetic<T> arithmetic;
  IntegerReduction<T> reduction;
  IntegerShape<T> shape;

  using Members = MemberList<&Operators::arithmetic, &Operators::reduction, &Operators::shape>;
};

}  // namespace tern::kernels

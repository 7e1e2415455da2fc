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

/// Whether operators accept T through the integer slots. int8 is storage only.
template <class T>
inline constexpr bool computes_integers = !computes<T> && !std::is_same_v<T, std::int8_t>;

/// Calls `visit.template operator()<T>()` for each type that operators compute in.
template <class Visit>
constexpr void for_each_compute_type(const Visit& visit) {
  for_each_element_type([&]<class T>() {
    if constexpr (computes<T>) visit.template operator()<T>();
  });
}

/// The same for the type of `dtype` only; false if operators do not compute in it.
template <class Visit>
constexpr bool with_compute_type(DType dtype, const Visit& visit) {
  return with_type_of(dtype, [&]<class T>(T) {
    if constexpr (computes<T>) visit.template operator()<T>();
    return computes<T>;
  });
}

/// Calls `visit.template operator()<T>()` for each integer type that operators accept, including bool.
template <class Visit>
constexpr void for_each_integer_type(const Visit& visit) {
  for_each_element_type([&]<class T>() {
    if constexpr (computes_integers<T>) visit.template operator()<T>();
  });
}

/// The same for the type of `dtype` only; false if operators do not accept it as an integer.
template <class Visit>
constexpr bool with_integer_type(DType dtype, const Visit& visit) {
  return with_type_of(dtype, [&]<class T>(T) {
    if constexpr (computes_integers<T>) visit.template operator()<T>();
    return computes_integers<T>;
  });
}

/// The dispatch table for one dtype: one member per family.
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
  /// Whether Conv, Pooling and Normalization accept channels-last arrays. If not, the caller converts them.
  bool channels_last = false;
  /// Whether linear_backward and conv2d_backward can write the gradients of weight and bias as Scalar<T>, so that
  /// gradients of float32 parameters are not rounded to 16 bits. register_mode makes it false in a copy of a registered
  /// table in which one of the two was replaced.
  bool wide_parameters = false;

  using Members =
      MemberList<&Operators::arithmetic, &Operators::dot, &Operators::conv, &Operators::activation, &Operators::pooling,
                 &Operators::reduction, &Operators::loss, &Operators::normalization, &Operators::attention,
                 &Operators::shape, &Operators::update, &Operators::channels_last, &Operators::wide_parameters>;
};

/// The table of an integer dtype has fewer families and slots. An operator accepts integers if its slot exists.
template <class T>
requires std::is_integral_v<T>
struct Operators<T> {
  IntegerArithmetic<T> arithmetic;
  IntegerReduction<T> reduction;
  IntegerShape<T> shape;

  using Members = MemberList<&Operators::arithmetic, &Operators::reduction, &Operators::shape>;
};

}  // namespace tern::kernels

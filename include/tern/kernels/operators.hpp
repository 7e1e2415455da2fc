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

/// Calls `visit.template operator()<T>()` with the type of each dtype that operators compute in.
template <class Visit>
constexpr void for_each_compute_type(const Visit& visit) {
  visit.template operator()<float>();
  visit.template operator()<double>();
  visit.template operator()<BFloat16>();
  visit.template operator()<Float16>();
}

/// Calls it with the type of `dtype` alone; false where operators do not compute in that.
template <class Visit>
constexpr bool with_compute_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::float32:
      visit.template operator()<float>();
      return true;
    case DType::float64:
      visit.template operator()<double>();
      return true;
    case DType::bfloat16:
      visit.template operator()<BFloat16>();
      return true;
    case DType::float16:
      visit.template operator()<Float16>();
      return true;
    default:
      return false;
  }
}

/// Calls `visit.template operator()<T>()` with the type of each integer dtype, bool among them.
template <class Visit>
constexpr void for_each_integer_type(const Visit& visit) {
  visit.template operator()<std::int32_t>();
  visit.template operator()<std::int64_t>();
  visit.template operator()<std::uint8_t>();
  visit.template operator()<bool>();
}

/// Calls it with the type of `dtype` alone; false where that is no integer.
template <class Visit>
constexpr bool with_integer_type(DType dtype, const Visit& visit) {
  bool found = false;
  for_each_integer_type([&]<class T>() {
    if (dtype != dtype_of<T>) return;
    found = true;
    visit.template operator()<T>();
  });
  return found;
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

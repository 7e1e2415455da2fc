#pragma once

#include <compare>

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// Where the rows of each head lie, in elements. The elements of a row are adjacent.
struct HeadStrides {
  std::int64_t outer = 0, middle = 0, inner = 0, row = 0;
  auto operator<=>(const HeadStrides&) const = default;

  using Members = MemberList<&HeadStrides::outer, &HeadStrides::middle, &HeadStrides::inner, &HeadStrides::row>;
};

/// Per head: query is [queries, width], key [keys, width], value [keys, values], the result [queries, values]. With
/// `causal`, query i sees only the keys 0 ... i. No size is 0.
struct ScaledDotProduct {
  std::int64_t heads = 0, queries = 0, keys = 0, width = 0, values = 0;
  double scale = 1;
  bool causal = false;
  std::int64_t middle = 1, inner = 1;  ///< heads are [outer, middle, inner]
  HeadStrides query = {}, key = {}, value = {}, out = {};
  HeadStrides grad_query = {}, grad_key = {}, grad_value = {}, grad_out = {};
  auto operator<=>(const ScaledDotProduct&) const = default;

  using Members = MemberList<&ScaledDotProduct::heads, &ScaledDotProduct::queries, &ScaledDotProduct::keys,
                             &ScaledDotProduct::width, &ScaledDotProduct::values, &ScaledDotProduct::scale,
                             &ScaledDotProduct::causal, &ScaledDotProduct::middle, &ScaledDotProduct::inner,
                             &ScaledDotProduct::query, &ScaledDotProduct::key, &ScaledDotProduct::value,
                             &ScaledDotProduct::out, &ScaledDotProduct::grad_query, &ScaledDotProduct::grad_key,
                             &ScaledDotProduct::grad_value, &ScaledDotProduct::grad_out>;
};

/// Attention that stores no scores, after Dao and others, 2022.
template <class T>
struct Attention {
  /// Whether the mode runs these sizes in the two kernels below. Otherwise attention is composed of matrix products and
  /// a softmax.
  Kernel<bool(const Context&, const ScaledDotProduct&)> fuses;
  /// Whether they take all arrays but log_sum with the strides of the sizes; otherwise these are contiguous.
  Kernel<bool(const Context&)> takes_strides;
  /// out = softmax(scale query key^T) value over the keys that a query sees. `log_sum` [heads, queries] receives
  /// log(sum(exp(scale query key^T))), which backward needs; it may be null.
  Kernel<void(Context&, T* out, Scalar<T>* log_sum, const T* query, const T* key, const T* value,
              const ScaledDotProduct&)>
      attention;
  /// Each gradient may be null.
  Kernel<void(Context&, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query, const T* key,
              const T* value, const T* out, const Scalar<T>* log_sum, const ScaledDotProduct&)>
      attention_backward;

  using Members =
      MemberList<&Attention::fuses, &Attention::takes_strides, &Attention::attention, &Attention::attention_backward>;
};

}  // namespace tern::kernels

#pragma once

#include <compare>

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// Per head: query is [queries, width], key [keys, width], value [keys, values], the result [queries, values]. With
/// `causal`, query i sees only the keys 0 ... i. No size is 0.
struct ScaledDotProduct {
  std::int64_t heads = 0, queries = 0, keys = 0, width = 0, values = 0;
  double scale = 1;
  bool causal = false;
  auto operator<=>(const ScaledDotProduct&) const = default;

  using Members = MemberList<&ScaledDotProduct::heads, &ScaledDotProduct::queries, &ScaledDotProduct::keys,
                             &ScaledDotProduct::width, &ScaledDotProduct::values, &ScaledDotProduct::scale,
                             &ScaledDotProduct::causal>;
};

/// Attention that stores no scores, after Dao and others, 2022.
template <class T>
struct Attention {
  /// Whether the mode runs these sizes in the two kernels below. Otherwise attention is composed of matrix products and
  /// a softmax.
  Kernel<bool(const Context&, const ScaledDotProduct&)> fuses;
  /// out = softmax(scale query key^T) value over the keys that a query sees. `log_sum` [heads, queries] receives
  /// log(sum(exp(scale query key^T))), which backward needs; it may be null.
  Kernel<void(Context&, T* out, Scalar<T>* log_sum, const T* query, const T* key, const T* value,
              const ScaledDotProduct&)>
      attention;
  /// Each gradient may be null.
  Kernel<void(Context&, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query, const T* key,
              const T* value, const T* out, const Scalar<T>* log_sum, const ScaledDotProduct&)>
      attention_backward;

  using Members = MemberList<&Attention::fuses, &Attention::attention, &Attention::attention_backward>;
};

}  // namespace tern::kernels

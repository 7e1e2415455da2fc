#pragma once
// The loops of attention over one query's row, compiled per instruction set and chosen once at run time.

#include <cstdint>
#include <limits>

namespace tern::vectorized {

/// The largest score of a row so far, and the sum of exp(score - largest).
template <class T>
struct RunningSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), sum = 0;
};

template <class T>
struct AttentionRows {
  /// Turns the scores of n > 0 further keys into weights and adds their values to `result` [values]; the previous
  /// result is scaled, so that it is always the mean over the keys so far.
  void (*weigh)(T* scores, std::int64_t n, RunningSoftmax<T>& running, T* result, std::int64_t values);
  /// weights = exp(scores - log_sum), in place.
  void (*weigh_again)(T* scores, std::int64_t n, T log_sum);
  /// grads = weights * (grads - inner), in place.
  void (*differentiate)(T* grads, const T* weights, std::int64_t n, T inner);
  T (*inner)(const T* a, const T* b, std::int64_t n);
  /// out = in * factor; `out` may be `in`.
  void (*scale)(T* out, const T* in, T factor, std::int64_t n);
};

/// For the best instruction set of this processor.
template <class T>
const AttentionRows<T>& attention_rows();

}  // namespace tern::vectorized

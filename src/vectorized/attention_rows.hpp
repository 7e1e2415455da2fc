#pragma once
// The loops of attention over the rows of a tile of queries, compiled per instruction set and chosen once at run time.

#include <cstdint>
#include <limits>

#include "tern/kernels/attention.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized {

/// The rows of a head in an array, which may be null.
template <class T>
Pitched<T> rows_of(std::int64_t head, T* array, const kernels::HeadStrides& strides,
                   const kernels::ScaledDotProduct& sizes) {
  if (array == nullptr) return {};
  const std::int64_t rest = head / sizes.inner;
  return {array + rest / sizes.middle * strides.outer + rest % sizes.middle * strides.middle +
              head % sizes.inner * strides.inner,
          strides.row};
}

/// The largest score of a row so far, and the sum of exp(score - largest).
template <class T>
struct RunningSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), sum = 0;
};

/// Which of `count` keys each of `rows` queries sees: the first `seen`, and with `causal` one more from row to row.
/// The keys of a row lie `pitch` apart from those of the row before it, a multiple of a vector's elements, all of which
/// may be written.
struct ScoredRows {
  std::int64_t rows, pitch, count, seen;
  bool causal;
};

template <class T>
struct AttentionRows {
  /// Turns the scores of further keys into weights, 0 for those that a row does not see. The previous rows of `result`
  /// [rows, values], null for the first keys, are scaled: with these weights' values added they are always the mean
  /// over the keys so far.
  void (*weigh)(T* scores, const ScoredRows& of, RunningSoftmax<T>* running, Pitched<T> result, std::int64_t values);
  /// weights = exp(scores - log_sum of the row), in place; grads = weights * (grads - inner of the row), in place. Both
  /// 0 for keys that a row does not see.
  void (*differentiate)(T* weights, T* grads, const ScoredRows& of, const T* log_sum, const T* inner);
  /// out[i] = the sum of products of row i of a and of b, [rows, n] both.
  void (*inner)(T* out, Pitched<const T> a, Pitched<const T> b, std::int64_t rows, std::int64_t n);
  /// out = in * factor, [rows, n] both; `out` may be `in`.
  void (*scale)(Pitched<T> out, Pitched<const T> in, T factor, std::int64_t rows, std::int64_t n);
};

/// For the best instruction set of this processor.
template <class T>
const AttentionRows<T>& attention_rows();

}  // namespace tern::vectorized

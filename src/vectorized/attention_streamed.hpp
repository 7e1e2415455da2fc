#pragma once
// Attention of few queries: keys and values are read where they lie, once.

#include "tern/kernels/attention.hpp"

namespace tern::vectorized {

/// Whether packing the keys and values costs more than it gains.
bool streams(const kernels::ScaledDotProduct& sizes);

template <class T>
void streamed_attention(Context& context, T* out, T* log_sum, const T* query, const T* key, const T* value,
                        const kernels::ScaledDotProduct& sizes);

template <class T>
void streamed_attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out,
                                 const T* query, const T* key, const T* value, const T* out, const T* log_sum,
                                 const kernels::ScaledDotProduct& sizes);

}  // namespace tern::vectorized

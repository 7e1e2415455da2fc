#pragma once

#include <optional>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

struct AttentionOptions {
  Tensor mask = {};        ///< broadcasts to [..., L, S]: bool, true where a key counts; or numbers that are added
  bool is_causal = false;  ///< query i sees the keys 0 ... i; not together with a mask
  std::optional<double> scale = {};  ///< of the products; 1 / sqrt(E) when absent
};

/// softmax(scale * query key^T + mask) value over the keys: query [..., L, E], key [..., S, E], value [..., S, V],
/// result [..., L, V]; leading dimensions broadcast. A query for which no key counts gives 0. No keys, and shapes that
/// do not fit, are a ShapeError; a mask beside is_causal is an Error. (Vaswani and others, 2017.)
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace tern::operators

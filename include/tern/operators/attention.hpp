#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

struct AttentionOptions {
  Tensor mask = {};        ///< broadcasts to [..., L, S]: bool, true where a key counts; or numbers to add to the
                           ///< scores
  bool is_causal = false;  ///< query i attends to the keys 0 ... i; cannot be combined with a mask
  std::optional<double> scale = {};  ///< factor of the scores; 1 / sqrt(E) if absent

  using Members = MemberList<&AttentionOptions::is_causal, &AttentionOptions::scale>;
};

/// softmax(scale * query key^T + mask) value over the keys: query [..., L, E], key [..., S, E], value [..., S, V],
/// result [..., L, V]; leading dimensions broadcast. A query with no key to attend to gives 0. Throws ShapeError if
/// there are no keys or shapes do not match, Error for a mask together with is_causal. (Vaswani and others, 2017.)
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace tern::operators

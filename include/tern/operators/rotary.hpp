#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// What decoders of text add to scaled_dot_product_attention.

/// Rotates pairs of x [..., L, E] by angles whose cosines and sines are given as [..., L, R / 2], broadcast: (a, b)
/// becomes (a cos - b sin, a sin + b cos). The pairs are elements i and i + R / 2, or if `interleaved` 2 i and 2 i + 1;
/// elements from R on stay. As ONNX's RotaryEmbedding. (Su and others, 2021.)
Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool interleaved = false);

struct GroupedAttentionOptions {
  Tensor mask = {};  ///< broadcasts to [N, H, L, S]: bool, true where a key counts; or numbers to add to the scores;
                     ///< keys beyond its last dimension do not count
  bool is_causal = false;  ///< query i attends to the keys 0 ... past + i; with a mask, to those that both allow
  std::int64_t past = 0;   ///< keys ahead of the first query: those of a cache
  std::optional<double> scale = {};  ///< factor of the scores; 1 / sqrt(E) if absent
  double softcap = 0;                ///< above 0: scores become softcap * tanh(score / softcap), ahead of the mask

  using Members = MemberList<&GroupedAttentionOptions::is_causal, &GroupedAttentionOptions::past,
                             &GroupedAttentionOptions::scale, &GroupedAttentionOptions::softcap>;
};
/// Attention where H / K heads of queries share one of keys and values: query [N, H, L, E], key [N, K, S, E], value
/// [N, K, S, V], result [N, H, L, V], as ONNX's Attention; a cache is joined to key and value by `cat`. A query with no
/// key to attend to gives 0. Throws ShapeError if K does not divide H or shapes do not match. (Ainslie and others,
/// 2023.)
Tensor grouped_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const GroupedAttentionOptions& options = {});

}  // namespace tern::operators

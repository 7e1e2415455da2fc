#pragma once

#include "tern/nn/linear.hpp"
#include "tern/operators/attention.hpp"

namespace tern::nn {

using operators::AttentionOptions;

struct MultiheadAttentionOptions {
  bool bias = true;
  bool is_causal = false;  ///< position i attends to the positions 0 ... i
  DType dtype = DType::float32;
};

/// Multi-head attention: heads(x) = [x Wq, x Wk, x Wv], attention per head on its slice of the width, and the results
/// concatenated through out_proj. x is [N, L, width] or [L, width]. It equals torch.nn.MultiheadAttention with
/// batch_first and without dropout, with torch's names, shapes and initial values: in_proj_weight [3 width, width]
/// (Xavier uniform), in_proj_bias [3 width] (0), out_proj.weight [width, width], out_proj.bias [width] (0).
class MultiheadAttention : public Module {
 public:
  /// Throws ShapeError unless `heads` divides `width`.
  MultiheadAttention(std::int64_t width, std::int64_t heads, const MultiheadAttentionOptions& options = {},
                     Generator& generator = default_generator());

  /// Self-attention of x.
  Tensor forward(const Tensor& x) const override;
  /// Queries [N, L, width] attend to keys [N, S, width] and their values [N, S, width]. A mask broadcasts to [N, heads,
  /// L, S]. Only `options` applies: the module's is_causal is for forward.
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options = {}) const;
  std::string describe() const override;

 private:
  Tensor joined(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) const;
  Tensor part_of(const Tensor& x, std::int64_t part) const;
  void check(const char* which, const Tensor& x) const;

  std::int64_t width_, heads_;
  bool is_causal_;
  Parameter in_proj_weight_, in_proj_bias_;
  Linear out_proj_;
};

}  // namespace tern::nn

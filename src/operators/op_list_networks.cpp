#include "operators/op_function.hpp"
#include "operators/op_list.hpp"
#include "tern/operators/einsum.hpp"
#include "tern/operators/fourier.hpp"
#include "tern/operators/linalg.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/recurrent.hpp"
#include "tern/operators/rotary.hpp"
#include "tern/operators/sampling.hpp"
#include "tern/operators/sequences.hpp"
#include "tern/operators/volumes.hpp"

namespace tern::operators {

namespace {

// Options with tensors in them: those are inputs here.
Tensor attention_with(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                      const AttentionOptions& options) {
  AttentionOptions all = options;
  all.mask = mask;
  return scaled_dot_product_attention(query, key, value, all);
}
Tensor grouped_attention_with(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                              const GroupedAttentionOptions& options) {
  GroupedAttentionOptions all = options;
  all.mask = mask;
  return grouped_attention(query, key, value, all);
}
Tensor cross_entropy_with(const Tensor& logits, const Tensor& labels, const Tensor& weight,
                          const CrossEntropyOptions& options) {
  CrossEntropyOptions all = options;
  all.weight = weight;
  return cross_entropy(logits, labels, all);
}
Tensor nll_with(const Tensor& log_probabilities, const Tensor& labels, const Tensor& weight,
                const CrossEntropyOptions& options) {
  CrossEntropyOptions all = options;
  all.weight = weight;
  return nll(log_probabilities, labels, all);
}
Tensor binary_cross_entropy_with(const Tensor& probabilities, const Tensor& target, const Tensor& weight,
                                 const BinaryCrossEntropyOptions& options) {
  BinaryCrossEntropyOptions all = options;
  all.weight = weight;
  return binary_cross_entropy(probabilities, target, all);
}
/// x, weight and bias of each convolution; the last ones may be left out.
Tensor conv2d_cat_of(const std::vector<Tensor>& given, const std::vector<Conv2dOptions>& options) {
  expects(given.size() <= 3 * options.size(), "conv2d_cat: ", given.size(), " tensors for ", options.size(),
          " convolutions");
  std::vector<Tensor> tensors = given;
  tensors.resize(3 * options.size());
  std::vector<Conv2dCall> calls;
  for (std::size_t i = 0; i < options.size(); ++i)
    calls.push_back({tensors[3 * i], tensors[3 * i + 1], tensors[3 * i + 2], options[i]});
  return conv2d_cat(calls);
}

Tensor inverted_residual_of(const Tensor& x, const Tensor& expand, const Tensor& expand_bias, const Tensor& depthwise,
                            const Tensor& depthwise_bias, const Tensor& project, const Tensor& project_bias,
                            const Tensor& added, const InvertedResidualOptions& options) {
  return inverted_residual(x, {expand, expand_bias, depthwise, depthwise_bias, project, project_bias}, added, options);
}

using Pointwise = Tensor (*)(const Tensor&, const Tensor&, Reduce);

void append_quantized(OpList& ops) {
  append<"quantize">(ops, quantize, {"as"});
  append<"dequantize">(ops, dequantize, {"as"});
  append<"quantized_conv2d">(ops, quantized_conv2d, {"options"});
  append<"quantized_conv2d_cat">(ops, quantized_conv2d_cat, {"options"});
  append<"quantized_linear">(ops, quantized_linear, {"options"});
  append<"quantized_add">(ops, quantized_add, {"options"});
  append<"quantized_cat">(ops, quantized_cat, {"from", "result"});
  append<"quantized_max_pool2d">(ops, quantized_max_pool2d, {"kernel", "options"});
  append<"quantized_avg_pool2d">(ops, quantized_avg_pool2d, {"kernel", "options"});
  append<"quantized_adaptive_avg_pool2d">(ops, quantized_adaptive_avg_pool2d, {"output", "options"});
}

void append_losses(OpList& ops) {
  append<"cross_entropy">(ops, cross_entropy_with, {"options"}, always<Effect::reads>, Mixed::widens);
  append<"nll">(ops, nll_with, {"options"}, always<Effect::reads>, Mixed::widens);
  append<"binary_cross_entropy">(ops, binary_cross_entropy_with, {"options"}, Mixed::widens);
  append<"mse">(ops, mse, {"reduce"}, Mixed::widens);
  append<"mae">(ops, mae, {"reduce"}, Mixed::widens);
  append<"binary_cross_entropy_with_logits">(ops, static_cast<Pointwise>(binary_cross_entropy_with_logits), {"reduce"},
                                             Mixed::widens);
  append<"hinge">(ops, hinge, {"reduce"}, Mixed::widens);
  append<"huber">(ops, huber, {"delta", "reduce"}, Mixed::widens);
  append<"smooth_l1">(ops, smooth_l1, {"beta", "reduce"}, Mixed::widens);
  append<"kl_div">(ops, kl_div, {"log_target", "reduce"}, Mixed::widens);
  append<"cosine_similarity">(ops, cosine_similarity, {"dim", "epsilon"}, Mixed::widens);
  append<"sigmoid_focal_loss">(ops, sigmoid_focal_loss, {"alpha", "gamma", "reduce"}, Mixed::widens);
}

// Volumes and rows.
void append_volumes(OpList& ops) {
  append<"conv3d">(ops, conv3d, {"options"}, Mixed::narrows);
  append<"conv_transpose3d">(ops, conv_transpose3d, {"options"}, Mixed::narrows);
  append<"max_pool3d">(ops, max_pool3d, {"kernel", "options"});
  append<"max_pool3d_with_indices">(ops, max_pool3d_with_indices, {"kernel", "options"});
  append<"avg_pool3d">(ops, avg_pool3d, {"kernel", "options"});
  append<"adaptive_avg_pool3d">(ops, adaptive_avg_pool3d, {"output"});
  append<"conv_transpose1d">(ops, conv_transpose1d, {"options"}, Mixed::narrows);
  append<"max_pool1d">(ops, max_pool1d, {"kernel", "options"});
  append<"max_pool1d_with_indices">(ops, max_pool1d_with_indices, {"kernel", "options"});
  append<"avg_pool1d">(ops, avg_pool1d, {"kernel", "options"});
  append<"adaptive_avg_pool1d">(ops, adaptive_avg_pool1d, {"output"});
  append<"lp_pool2d">(ops, lp_pool2d, {"order", "kernel", "options"});
}

}  // namespace

void append_networks(OpList& ops) {
  append<"matmul">(ops, matmul, {"options"}, Mixed::narrows);
  append<"einsum">(ops, einsum, {"equation"}, Mixed::narrows);
  append<"linear">(ops, linear, {"activation"}, Mixed::narrows);
  append<"conv2d">(ops, conv2d, {"options"}, Mixed::narrows);
  append<"conv2d_add">(ops, conv2d_add, {"options"}, Mixed::narrows);
  append<"conv2d_max_pool2d">(ops, conv2d_max_pool2d, {"options"}, Mixed::narrows);
  append<"conv2d_cat">(ops, conv2d_cat_of, {"options"}, Mixed::narrows);
  append<"inverted_residual">(ops, inverted_residual_of, {"options"}, Mixed::narrows);
  append<"conv1d">(ops, conv1d, {"options"}, Mixed::narrows);
  append<"conv_transpose2d">(ops, conv_transpose2d, {"options"}, Mixed::narrows);
  append<"max_pool2d">(ops, max_pool2d, {"kernel", "options"});
  append<"max_pool2d_with_indices">(ops, max_pool2d_with_indices, {"kernel", "options"});
  append<"avg_pool2d">(ops, avg_pool2d, {"kernel", "options"});
  append<"adaptive_avg_pool2d">(ops, adaptive_avg_pool2d, {"output"});
  append<"local_response_norm">(ops, local_response_norm, {"options"});
  append<"batch_norm">(
      ops, batch_norm, {"options"},
      [](const Attributes& attributes) {
        return attributes.get<BatchNormOptions>().training ? Effect::changes : Effect::none;
      },
      Mixed::keeps);
  append<"layer_norm">(ops, layer_norm, {"normalized_shape", "epsilon"}, Mixed::keeps);
  append<"rms_norm">(ops, rms_norm, {"normalized_shape", "epsilon"}, Mixed::keeps);
  append<"group_norm">(ops, group_norm, {"groups", "epsilon"}, Mixed::keeps);
  append<"instance_norm">(ops, instance_norm, {"epsilon"}, Mixed::keeps);
  append<"scaled_dot_product_attention">(ops, attention_with, {"options"}, Mixed::narrows);
  append<"grouped_attention">(ops, grouped_attention_with, {"options"}, Mixed::narrows);
  append<"rotary_embedding">(ops, rotary_embedding, {"interleaved"});
  append<"resize">(ops, resize, {"output", "options"});
  append<"grid_sample">(ops, grid_sample, {"options"});
  append<"roi_align">(ops, roi_align, {"output", "options"}, always<Effect::reads>);
  append<"non_max_suppression">(ops, non_max_suppression, {"options"}, always<Effect::reads>);
  append<"dft">(ops, dft, {"dim", "options"}, Mixed::widens);
  append<"det">(ops, det, {}, always<Effect::reads>, Mixed::widens);
  append<"inverse">(ops, inverse, {}, always<Effect::reads>, Mixed::widens);
  append<"solve">(ops, solve, {}, always<Effect::reads>, Mixed::widens);
  append<"cholesky">(ops, cholesky, {}, always<Effect::reads>, Mixed::widens);
  append<"qr">(ops, qr, {}, always<Effect::reads>, Mixed::widens);
  append<"svd">(ops, svd, {}, always<Effect::reads>, Mixed::widens);
  append<"rnn">(ops, rnn, {"options"}, Mixed::narrows);
  append<"lstm">(ops, lstm, {"options"}, Mixed::narrows);
  append<"gru">(ops, gru, {"options"}, Mixed::narrows);
  append<"interpolate">(ops, interpolate, {"output", "options"});
  append<"interpolate_by">(ops, interpolate_by, {"scale", "options"});
  append_losses(ops);
  append_volumes(ops);
  append_quantized(ops);
}

}  // namespace tern::operators

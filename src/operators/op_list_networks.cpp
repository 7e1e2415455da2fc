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
  ops.push_back(make_op("quantize", quantize, {"as"}));
  ops.push_back(make_op("dequantize", dequantize, {"as"}));
  ops.push_back(make_op("quantized_conv2d", quantized_conv2d, {"options"}));
  ops.push_back(make_op("quantized_conv2d_cat", quantized_conv2d_cat, {"options"}));
  ops.push_back(make_op("quantized_linear", quantized_linear, {"options"}));
  ops.push_back(make_op("quantized_add", quantized_add, {"options"}));
  ops.push_back(make_op("quantized_cat", quantized_cat, {"from", "result"}));
  ops.push_back(make_op("quantized_max_pool2d", quantized_max_pool2d, {"kernel", "options"}));
  ops.push_back(make_op("quantized_avg_pool2d", quantized_avg_pool2d, {"kernel", "options"}));
  ops.push_back(make_op("quantized_adaptive_avg_pool2d", quantized_adaptive_avg_pool2d, {"output", "options"}));
}

void append_losses(OpList& ops) {
  ops.push_back(make_op("cross_entropy", cross_entropy_with, {"options"}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("nll", nll_with, {"options"}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("binary_cross_entropy", binary_cross_entropy_with, {"options"}, Mixed::widens));
  for (const auto& [name, function] : std::initializer_list<std::pair<const char*, Pointwise>>{
           {"mse", mse},
           {"mae", mae},
           {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
           {"hinge", hinge}})
    ops.push_back(make_op(name, function, {"reduce"}, Mixed::widens));
  ops.push_back(make_op("huber", huber, {"delta", "reduce"}, Mixed::widens));
  ops.push_back(make_op("smooth_l1", smooth_l1, {"beta", "reduce"}, Mixed::widens));
  ops.push_back(make_op("kl_div", kl_div, {"log_target", "reduce"}, Mixed::widens));
  ops.push_back(make_op("cosine_similarity", cosine_similarity, {"dim", "epsilon"}, Mixed::widens));
  ops.push_back(make_op("sigmoid_focal_loss", sigmoid_focal_loss, {"alpha", "gamma", "reduce"}, Mixed::widens));
}

// Volumes and rows.
void append_volumes(OpList& ops) {
  ops.push_back(make_op("conv3d", conv3d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv_transpose3d", conv_transpose3d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("max_pool3d", max_pool3d, {"kernel", "options"}));
  ops.push_back(make_op("max_pool3d_with_indices", max_pool3d_with_indices, {"kernel", "options"}));
  ops.push_back(make_op("avg_pool3d", avg_pool3d, {"kernel", "options"}));
  ops.push_back(make_op("adaptive_avg_pool3d", adaptive_avg_pool3d, {"output"}));
  ops.push_back(make_op("conv_transpose1d", conv_transpose1d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("max_pool1d", max_pool1d, {"kernel", "options"}));
  ops.push_back(make_op("max_pool1d_with_indices", max_pool1d_with_indices, {"kernel", "options"}));
  ops.push_back(make_op("avg_pool1d", avg_pool1d, {"kernel", "options"}));
  ops.push_back(make_op("adaptive_avg_pool1d", adaptive_avg_pool1d, {"output"}));
  ops.push_back(make_op("lp_pool2d", lp_pool2d, {"order", "kernel", "options"}));
}

}  // namespace

void append_networks(OpList& ops) {
  ops.push_back(make_op("matmul", matmul, {"options"}, Mixed::narrows));
  ops.push_back(make_op("einsum", einsum, {"equation"}, Mixed::narrows));
  ops.push_back(make_op("linear", linear, {"activation"}, Mixed::narrows));
  ops.push_back(make_op("conv2d", conv2d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv2d_add", conv2d_add, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv2d_max_pool2d", conv2d_max_pool2d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv2d_cat", conv2d_cat_of, {"options"}, Mixed::narrows));
  ops.push_back(make_op("inverted_residual", inverted_residual_of, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv1d", conv1d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("conv_transpose2d", conv_transpose2d, {"options"}, Mixed::narrows));
  ops.push_back(make_op("max_pool2d", max_pool2d, {"kernel", "options"}));
  ops.push_back(make_op("max_pool2d_with_indices", max_pool2d_with_indices, {"kernel", "options"}));
  ops.push_back(make_op("avg_pool2d", avg_pool2d, {"kernel", "options"}));
  ops.push_back(make_op("adaptive_avg_pool2d", adaptive_avg_pool2d, {"output"}));
  ops.push_back(make_op("local_response_norm", local_response_norm, {"options"}));
  ops.push_back(make_op(
      "batch_norm", batch_norm, {"options"},
      [](const Attributes& attributes) {
        return attributes.get<BatchNormOptions>().training ? Effect::changes : Effect::none;
      },
      Mixed::keeps));
  ops.push_back(make_op("layer_norm", layer_norm, {"normalized_shape", "epsilon"}, Mixed::keeps));
  ops.push_back(make_op("rms_norm", rms_norm, {"normalized_shape", "epsilon"}, Mixed::keeps));
  ops.push_back(make_op("group_norm", group_norm, {"groups", "epsilon"}, Mixed::keeps));
  ops.push_back(make_op("instance_norm", instance_norm, {"epsilon"}, Mixed::keeps));
  ops.push_back(make_op("scaled_dot_product_attention", attention_with, {"options"}, Mixed::narrows));
  ops.push_back(make_op("grouped_attention", grouped_attention_with, {"options"}, Mixed::narrows));
  ops.push_back(make_op("rotary_embedding", rotary_embedding, {"interleaved"}));
  ops.push_back(make_op("resize", resize, {"output", "options"}));
  ops.push_back(make_op("grid_sample", grid_sample, {"options"}));
  ops.push_back(make_op("roi_align", roi_align, {"output", "options"}, always<Effect::reads>));
  ops.push_back(make_op("non_max_suppression", non_max_suppression, {"options"}, always<Effect::reads>));
  ops.push_back(make_op("dft", dft, {"dim", "options"}, Mixed::widens));
  ops.push_back(make_op("det", det, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("inverse", inverse, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("solve", solve, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("cholesky", cholesky, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("qr", qr, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("svd", svd, {}, always<Effect::reads>, Mixed::widens));
  ops.push_back(make_op("rnn", rnn, {"options"}, Mixed::narrows));
  ops.push_back(make_op("lstm", lstm, {"options"}, Mixed::narrows));
  ops.push_back(make_op("gru", gru, {"options"}, Mixed::narrows));
  ops.push_back(make_op("interpolate", interpolate, {"output", "options"}));
  ops.push_back(make_op("interpolate_by", interpolate_by, {"scale", "options"}));
  append_losses(ops);
  append_volumes(ops);
  append_quantized(ops);
}

}  // namespace tern::operators

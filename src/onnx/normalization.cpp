#include <algorithm>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

Dims from_axis(int axis, int rank) {
  Dims dims;
  for (int d = axis; d < rank; ++d) dims.push_back(d);
  return dims;
}
/// Channels [C] for x [N, C, ...].
Tensor per_channel(const Tensor& channels, const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = -1;
  return op::reshape(channels, shape);
}
Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : op::cast(x, dtype); }

Results batch_norm(const Call& call) {
  call.ignore({"spatial", "consumed_inputs"});
  if (call.opset() < 7 && call.integer("is_test", 0) == 0) call.refuse("trains", "export the model for inference");
  const Tensor &x = call.input(0), &scale = call.input(1), &bias = call.input(2);
  const Tensor &mean = call.input(3), &variance = call.input(4);
  const double epsilon = call.number("epsilon", 1e-5f), momentum = call.number("momentum", 0.9f);
  if (call.opset() < 9 && call.integer("spatial", 1) == 0) call.refuse("is not spatial", "use operator set 9");
  if (call.integer("training_mode", 0) == 0 && !(call.opset() < 14 && call.wants(1))) {
    const bool plain = x.dtype() == scale.dtype() && scale.dtype() == mean.dtype() && x.rank() >= 2;
    if (plain) return {op::batch_norm(x, scale, bias, mean, variance, {.training = false, .epsilon = epsilon})};
    const Tensor factor = op::div(as(scale, mean.dtype()), op::sqrt(op::add(variance, epsilon)));
    const Tensor centred = op::sub(as(x, mean.dtype()), per_channel(mean, x));
    const Tensor result = op::add(op::mul(centred, per_channel(factor, x)), per_channel(as(bias, mean.dtype()), x));
    return {as(result, x.dtype())};
  }
  Dims others{0};
  for (int d = 2; d < x.rank(); ++d) others.push_back(d);
  const Tensor own_mean = op::mean(x, others), own_variance = op::var(x, others, 0);
  const Tensor centred = op::sub(x, per_channel(own_mean, x));
  const Tensor spread = op::rsqrt(op::add(own_variance, epsilon));
  const Tensor result = op::add(op::mul(centred, per_channel(op::mul(spread, scale), x)), per_channel(bias, x));
  const auto running = [&](const Tensor& before, const Tensor& own) {
    return op::add(op::mul(before, momentum), op::mul(own, 1 - momentum));
  };
  return {result, running(mean, own_mean), running(variance, own_variance)};
}

Results instance_norm(const Call& call) {
  const double epsilon = call.number("epsilon", 1e-5f);
  const Tensor &x = call.input(0), &scale = call.input(1), &bias = call.input(2);
  const bool single =
      x.rank() > 2 && std::all_of(x.shape().begin() + 2, x.shape().end(), [](auto n) { return n == 1; });
  if (!single) return {op::instance_norm(x, scale, bias, epsilon)};
  // One value less itself, which the operator refuses: in training it would learn nothing.
  const Tensor normal = op::mul(op::sub(x, x), per_channel(scale, x));
  return {op::add(normal, per_channel(bias, x))};
}

/// Mean and 1 / sqrt(variance + epsilon) are results as well.
Results layer_norm(const Call& call) {
  call.ignore({"stash_type"});
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const double epsilon = call.number("epsilon", 1e-5f);
  const Shape last(x.shape().begin() + axis, x.shape().end());
  const Tensor &scale = call.input(1), bias = call.optional(2);
  check_broadcasts(call, scale, x.shape());
  if (bias.defined()) check_broadcasts(call, bias, x.shape());
  const bool whole = scale.shape() == last && (!bias.defined() || bias.shape() == last);
  Results results;
  if (whole) {
    results.push_back(op::layer_norm(x, last, scale, bias, epsilon));
  } else {
    const Tensor normal = op::mul(op::layer_norm(x, last, {}, {}, epsilon), scale);
    results.push_back(bias.defined() ? op::add(normal, bias) : normal);
  }
  if (call.wants(1) || call.wants(2)) {
    const Tensor wide = as(x, DType::float32);
    results.push_back(op::mean(wide, from_axis(axis, x.rank()), true));
    results.push_back(op::rsqrt(op::add(op::var(wide, from_axis(axis, x.rank()), 0, true), epsilon)));
  }
  return results;
}

Results rms_norm(const Call& call) {
  call.ignore({"stash_type"});
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const Shape last(x.shape().begin() + axis, x.shape().end());
  const Tensor& scale = call.input(1);
  check_broadcasts(call, scale, x.shape());
  const double epsilon = call.number("epsilon", 1e-5f);
  if (scale.shape() == last) return {op::rms_norm(x, last, scale, epsilon)};
  return {op::mul(op::rms_norm(x, last, {}, epsilon), scale)};
}

/// Before operator set 21 scale and bias were those of groups.
Results group_norm(const Call& call) {
  call.ignore({"stash_type"});
  const Tensor &x = call.input(0), &scale = call.input(1), &bias = call.input(2);
  const std::int64_t groups = call.integer("num_groups");
  const double epsilon = call.number("epsilon", 1e-5f);
  if (call.opset() >= 21) return {op::group_norm(x, groups, scale, bias, epsilon)};
  if (groups < 1 || x.rank() < 2 || x.size(1) % groups != 0) call.refuse(message("has ", groups, " groups"));
  const std::int64_t each = x.size(1) / groups;
  const auto spread = [&](const Tensor& of_groups) {
    return op::reshape(op::expand(op::reshape(of_groups, {groups, 1}), {groups, each}), {-1});
  };
  return {op::group_norm(x, groups, spread(scale), spread(bias), epsilon)};
}

Results local_response_norm(const Call& call) {
  const std::int64_t size = call.integer("size");
  const op::LocalResponseNormOptions options{.size = size,
                                             .alpha = call.number("alpha", 1e-4f),
                                             .beta = call.number("beta", 0.75f),
                                             .k = call.number("bias", 1)};
  // Of an even number of channels ONNX has the odd one behind, the operator before.
  if (size % 2 != 0) return {op::local_response_norm(call.input(0), options)};
  return {op::flip(op::local_response_norm(op::flip(call.input(0), {1}), options), {1})};
}

Results lp_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const Tensor length = op::norm(x, static_cast<double>(call.integer("p", 2)), {axis}, true);
  return {op::where(op::equal(length, 0.0), 0.0, op::div(x, length))};
}

Results mean_variance_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const Dims axes = call.integers("axes", {0, 2, 3});
  const Tensor centred = op::sub(x, op::mean(x, axes, true));
  return {op::div(centred, op::add(op::sqrt(op::mean(op::mul(centred, centred), axes, true)), 1e-9))};
}

}  // namespace

void append_normalization(Table& table) {
  table["BatchNormalization"] = batch_norm;
  table["InstanceNormalization"] = instance_norm;
  table["LayerNormalization"] = layer_norm;
  table["RMSNormalization"] = rms_norm;
  table["GroupNormalization"] = group_norm;
  table["LRN"] = local_response_norm;
  table["LpNormalization"] = lp_normalization;
  table["MeanVarianceNormalization"] = mean_variance_normalization;
}

}  // namespace tern::onnx

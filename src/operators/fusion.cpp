#include "operators/fusion.hpp"

#include <algorithm>
#include <array>

#include "tern/operators/conv.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::operators {

namespace {

std::optional<Activation> activation_of(const Op& op) {
  if (op.name() == "relu") return Activation::relu;
  if (op.name() == "sigmoid") return Activation::sigmoid;
  if (op.name() == "tanh") return Activation::tanh;
  if (op.name() == "relu6") return Activation::relu6;
  if (op.name() == "gelu") return Activation::gelu;
  if (op.name() == "silu") return Activation::silu;
  if (op.name() == "hardswish") return Activation::hardswish;
  return {};
}

/// The attributes of the fused call; none where these two do not join.
using Join = std::optional<Attributes> (*)(const Attributes& first, const OpForm& next);

template <class Options>
std::optional<Attributes> with_activation(const Attributes& first, const OpForm& next) {
  Options options = first.get<Options>();
  if (options.activation != Activation::none) return {};
  options.activation = *activation_of(*next.op);
  return first.with(options);
}

std::optional<Attributes> linear_activated(const Attributes& first, const OpForm& next) {
  if (first.get<Activation>() != Activation::none) return {};
  return first.with(*activation_of(*next.op));
}

// For kernels that know relu and relu6 alone.
template <class Options>
std::optional<Attributes> clipped(const Attributes& first, const OpForm& next) {
  const Activation activation = *activation_of(*next.op);
  if (activation != Activation::relu && activation != Activation::relu6) return {};
  return with_activation<Options>(first, next);
}

std::optional<Attributes> conv_added(const Attributes& first, const OpForm&) {
  if (first.get<Conv2dOptions>().activation != Activation::none) return {};
  return first;
}

std::optional<Attributes> norm_added(const Attributes& first, const OpForm&) {
  if (first.get<BatchNormOptions>().activation != Activation::none) return {};
  return first;
}

std::optional<Attributes> product_added(const Attributes&, const OpForm& next) { return next.attributes; }

// Windows of 2 x 2 side by side.
std::optional<Attributes> pooled(const Attributes& first, const OpForm& next) {
  const Pair kernel = next.attributes.get<Pair>();
  const auto& options = next.attributes.get<MaxPool2dOptions>();
  const auto is = [](Pair pair, std::int64_t size) { return pair.h == size && pair.w == size; };
  const bool plain = is(kernel, 2) && is(options.stride.value_or(kernel), 2) && is(options.padding, 0) &&
                     is(options.dilation, 1) && is(options.end_padding.value_or(Pair{0}), 0) && !options.ceil_mode;
  if (!plain) return {};
  return first;
}

struct Pattern {
  std::string_view first;
  std::array<std::string_view, 7> next;
  std::string_view fused;
  std::size_t inputs;  // of the fused call, before those that `next` adds
  bool exact;
  Join join;
};

constexpr std::array<std::string_view, 7> every_activation{"relu", "sigmoid", "tanh",     "relu6",
                                                           "gelu", "silu",    "hardswish"};

const Pattern patterns[]{
    {"conv2d", every_activation, "conv2d", 3, true, with_activation<Conv2dOptions>},
    {"conv1d", every_activation, "conv1d", 3, true, with_activation<Conv1dOptions>},
    {"linear", every_activation, "linear", 3, true, linear_activated},
    {"batch_norm", every_activation, "batch_norm", 6, true, clipped<BatchNormOptions>},
    {"batch_norm", {"add"}, "batch_norm", 5, false, norm_added},
    {"conv2d", {"add"}, "conv2d_add", 3, true, conv_added},
    {"conv2d_add", every_activation, "conv2d_add", 4, true, clipped<Conv2dOptions>},
    {"mul", {"add"}, "mul_add", 2, true, product_added},
    {"conv2d", {"max_pool2d"}, "conv2d_max_pool2d", 3, true, pooled},
};

}  // namespace

bool fuses_behind(const OpForm& next) {
  const OpForm firsts[]{{&op("conv2d"), Attributes({Conv2dOptions{}})},
                        {&op("linear"), Attributes({Activation::none})},
                        {&op("batch_norm"), Attributes({BatchNormOptions{}})}};
  return std::ranges::any_of(firsts, [&](const OpForm& first) { return fused(first, next, 0).has_value(); });
}

bool fuses_second_input(const OpForm& next) { return next.op->name() == "add"; }

std::optional<Fused> fused(const OpForm& first, const OpForm& next, std::size_t position) {
  if (position > 0 && !fuses_second_input(next)) return {};
  for (const Pattern& pattern : patterns) {
    if (pattern.first != first.op->name() || std::ranges::find(pattern.next, next.op->name()) == pattern.next.end())
      continue;
    if (std::optional<Attributes> attributes = pattern.join(first.attributes, next))
      return Fused{{&op(pattern.fused), std::move(*attributes)}, pattern.inputs, pattern.exact};
  }
  return {};
}

}  // namespace tern::operators

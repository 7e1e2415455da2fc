// The block of MobileNetV2, with and without its first convolution, biases and shortcut.

#include "support/activated.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::InvertedResidualOptions;

/// A convolution whose kernel is 1x1, or has one channel for each output.
Array convolved(const Array& x, const Array& weight, const Array* bias, Pair stride, Pair padding, bool depthwise,
                Activation activation) {
  const std::int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), O = weight.size(0);
  const std::int64_t KH = weight.size(2), KW = weight.size(3), all = depthwise ? 1 : C;
  const std::int64_t OH = (H + 2 * padding.h - KH) / stride.h + 1, OW = (W + 2 * padding.w - KW) / stride.w + 1;
  Array y({N, O, OH, OW});
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t ow = i % OW, oh = i / OW % OH, o = i / OW / OH % O, n = i / OW / OH / O;
    double sum = bias == nullptr ? 0 : (*bias)[o];
    for (std::int64_t k = 0; k < all * KH * KW; ++k) {
      const std::int64_t c = depthwise ? o : k / (KH * KW), h = oh * stride.h - padding.h + k / KW % KH;
      const std::int64_t w = ow * stride.w - padding.w + k % KW;
      if (h >= 0 && h < H && w >= 0 && w < W) sum += x[((n * C + c) * H + h) * W + w] * weight[o * all * KH * KW + k];
    }
    y[i] = activated(activation, sum);
  }
  return y;
}

struct Use {
  const char* name;
  Shape x;
  std::int64_t middle, outputs, kernel = 3;
  InvertedResidualOptions options = {};
  bool expands = true, bias = true, added = false;
};

/// The inputs in the order of the weights' members; those that are left out are not among the arguments.
struct Inputs {
  const Use& use;
  template <class Each, class Pick>
  Each at(const std::vector<Each>& in, std::size_t place, const Pick& none) const {
    const bool here[]{true, use.expands, use.expands && use.bias, true, use.bias, true, use.bias, use.added};
    std::size_t index = 0;
    for (std::size_t i = 0; i < place; ++i) index += here[i];
    return here[place] ? in[index] : none;
  }
};

Sample sample(const Use& use) {
  const std::int64_t C = use.x[1];
  std::vector<Argument> arguments{uniform(use.x)};
  if (use.expands) arguments.push_back(uniform({use.middle, C, 1, 1}));
  if (use.expands && use.bias) arguments.push_back(uniform({use.middle}));
  arguments.push_back(uniform({use.middle, 1, use.kernel, use.kernel}));
  if (use.bias) arguments.push_back(uniform({use.middle}));
  arguments.push_back(uniform({use.outputs, use.middle, 1, 1}));
  if (use.bias) arguments.push_back(uniform({use.outputs}));
  const auto reference = [use](const std::vector<Array>& in) {
    const Inputs inputs{use};
    const Array none;
    const auto convolve = [&](const Array& x, std::size_t weight, bool depthwise, Activation activation) {
      const Array kernel = inputs.at(in, weight, none), bias = inputs.at(in, weight + 1, none);
      return convolved(x, kernel, use.bias ? &bias : nullptr, depthwise ? use.options.stride : 1,
                       depthwise ? use.options.padding : 0, depthwise, activation);
    };
    Array y = in[0];
    if (use.expands) y = convolve(y, 1, false, use.options.expand);
    y = convolve(y, 3, true, use.options.depthwise);
    y = convolve(y, 5, false, use.added ? Activation::none : use.options.project);
    if (use.added)
      for (std::int64_t i = 0; i < y.size(); ++i) y[i] = activated(use.options.project, y[i] + in.back()[i]);
    return std::vector{y};
  };
  if (use.added) {
    const auto out = [&](std::int64_t size, std::int64_t stride, std::int64_t padding) {
      return (size + 2 * padding - use.kernel) / stride + 1;
    };
    const auto& options = use.options;
    arguments.push_back(uniform({use.x[0], use.outputs, out(use.x[2], options.stride.h, options.padding.h),
                                 out(use.x[3], options.stride.w, options.padding.w)}));
  }
  const double terms = static_cast<double>(C * use.middle * use.kernel * use.kernel);
  return {.name = message(use.name, " ", use.x),
          .arguments = arguments,
          .call =
              [use](const std::vector<Tensor>& in) {
                const Inputs inputs{use};
                const auto at = [&](std::size_t place) { return inputs.at(in, place, Tensor{}); };
                return std::vector{
                    op::inverted_residual(in[0], {at(1), at(2), at(3), at(4), at(5), at(6)}, at(7), use.options)};
              },
          .reference = reference,
          // Rounding decides on which side of a bound a sum is, and with it the gradient.
          .gradient = use.options.expand == Activation::none || !use.expands,
          .terms = terms,
          .gradient_terms = terms * static_cast<double>(use.x[0] * use.x[2] * use.x[3]),
          .roundings = 6,
          .large_arguments = 0};  // products of three of them leave the range
}

}  // namespace

std::vector<Operator> residual_cases() {
  Operator op{.name = "inverted_residual"};
  using enum Activation;
  const InvertedResidualOptions smooth{.expand = none, .depthwise = silu};
  const Use uses[]{
      {"plain", {2, 8, 7, 6}, 16, 8},
      {"smooth", {2, 3, 7, 6}, 6, 5, 3, smooth},
      {"no bias", {2, 8, 7, 6}, 24, 12, 3, {}, true, false},
      {"shortcut", {2, 8, 9, 7}, 40, 8, 3, {}, true, true, true},
      {"shortcut, relu", {2, 8, 9, 7}, 40, 8, 3, {.project = relu}, true, false, true},
      {"stride 2", {1, 12, 11, 9}, 33, 17, 3, {.stride = 2}},
      {"without an expansion", {2, 24, 8, 5}, 24, 16, 3, {.depthwise = none}, false},
      {"without an expansion, silu", {1, 16, 6, 19}, 16, 24, 3, {.depthwise = silu, .project = silu}, false, false},
      {"5x5, hardswish", {1, 16, 13, 8}, 48, 24, 5, {.padding = 2, .expand = hardswish, .depthwise = hardswish}},
      {"no padding, height unlike width", {2, 8, 12, 15}, 16, 8, 3, {.stride = {1, 2}, .padding = 0}},
      {"padded beyond the image", {1, 8, 2, 3}, 16, 8, 5, {.padding = 4}},
      {"kernel of 9", {1, 8, 12, 11}, 16, 8, 9, {.padding = 4}},
      {"few rows", {1, 24, 7, 7}, 200, 72, 5, {.padding = 2, .expand = relu}, true, true, true},
      {"few rows, stride 2", {1, 16, 7, 8}, 130, 48, 3, {.stride = 2, .expand = hardswish, .depthwise = hardswish}},
      {"many rows", {1, 8, 67, 20}, 96, 16, 3, {.stride = 2}},
      {"no images", {0, 8, 5, 5}, 16, 8}};
  for (const Use& use : uses) op.samples.push_back(sample(use));
  op.refuses(
      "another middle", Kind::shape, {"6 groups", "8 input"},
      [] {
        op::inverted_residual(
            ones({1, 4, 5, 5}),
            {.expand = ones({8, 4, 1, 1}), .depthwise = ones({6, 1, 3, 3}), .project = ones({4, 8, 1, 1})});
      },
      "conv2d");
  op.refuses(
      "a shortcut of another shape", Kind::shape, {"[1,4,5,5]", "[1,8,5,5]"},
      [] {
        op::inverted_residual(ones({1, 8, 5, 5}), {.depthwise = ones({8, 1, 3, 3}), .project = ones({4, 8, 1, 1})},
                              ones({1, 8, 5, 5}));
      },
      "conv2d_add");
  return {op};
}

}  // namespace tern::testing

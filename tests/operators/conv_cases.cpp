// Convolution: stride, padding, dilation, groups, one dimension unlike the other, and each activation.

#include <algorithm>
#include <array>

#include "support/activated.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::Conv2dOptions;

std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                     std::int64_t dilation) {
  return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

Array convolution(const std::vector<Array>& in, const Conv2dOptions& options) {
  const Array &x = in[0], &weight = in[1];
  const std::int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  const std::int64_t O = weight.size(0), per_group = weight.size(1), KH = weight.size(2), KW = weight.size(3);
  const Pair end = options.end_padding.value_or(options.padding);
  const std::int64_t OH =
      windows(H + end.h - options.padding.h, KH, options.stride.h, options.padding.h, options.dilation.h);
  const std::int64_t OW =
      windows(W + end.w - options.padding.w, KW, options.stride.w, options.padding.w, options.dilation.w);
  Array y({N, O, OH, OW});
  std::int64_t next = 0;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t o = 0; o < O; ++o)
      for (std::int64_t oh = 0; oh < OH; ++oh)
        for (std::int64_t ow = 0; ow < OW; ++ow) {
          double sum = in.size() > 2 ? in[2][o] : 0;
          const std::int64_t first = o / (O / options.groups) * per_group;
          for (std::int64_t c = 0; c < per_group; ++c)
            for (std::int64_t kh = 0; kh < KH; ++kh)
              for (std::int64_t kw = 0; kw < KW; ++kw) {
                const std::int64_t h = oh * options.stride.h - options.padding.h + kh * options.dilation.h;
                const std::int64_t w = ow * options.stride.w - options.padding.w + kw * options.dilation.w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                sum += x[((n * C + first + c) * H + h) * W + w] * weight[((o * per_group + c) * KH + kh) * KW + kw];
              }
          y[next++] = activated(options.activation, sum);
        }
  return y;
}

std::vector<double> thresholds_of(Activation activation) {
  if (activation == Activation::relu6) return {6};
  if (activation == Activation::hardswish) return {-3, 3};
  return {};
}

struct Use {
  const char* name;
  Shape x, weight;
  Conv2dOptions options = {};
  bool bias = true;
};

Sample sample(const Use& use, bool exact = false, bool large = false) {
  const double most = use.options.activation == Activation::relu6 ? 6 : 1;  // so that sums leave its range
  std::vector<Argument> arguments{exact ? integers(use.x, -4, 4) : uniform(use.x, -most, most),
                                  exact ? integers(use.weight, -4, 4) : uniform(use.weight)};
  if (use.bias) arguments.push_back(exact ? integers({use.weight[0]}) : uniform({use.weight[0]}));
  const auto terms = most * static_cast<double>(use.weight[1] * use.weight[2] * use.weight[3]);
  const auto positions = static_cast<double>(use.x[0] * use.x[2] * use.x[3]);
  return {.name = message(use.name, " ", use.x, " * ", use.weight, exact ? " integers" : ""),
          .arguments = arguments,
          .call =
              [options = use.options](const std::vector<Tensor>& in) {
                return std::vector{op::conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor{}, options)};
              },
          .reference =
              [options = use.options](const std::vector<Array>& in) { return std::vector{convolution(in, options)}; },
          .gradient = !exact,
          .exact = exact,
          .terms = std::max(1.0, terms),
          .gradient_terms = std::max({1.0, terms, positions, static_cast<double>(use.weight[0]) * terms}),
          .large = large,
          .roundings = kernels::by_output(use.options.activation) ? 1 : 2,  // 16 bits: then the activation's own
          .thresholds = thresholds_of(use.options.activation),
          .before =
              [options = use.options](const std::vector<Array>& in) {
                Conv2dOptions sums = options;
                sums.activation = Activation::none;
                return std::vector{convolution(in, sums)};
              }};
}

// Convolutions side by side over one x, joined: a 3x3, a 1x1 with relu and a 5x5 without a bias.
Operator joined() {
  Operator op{.name = "conv2d_cat"};
  const Conv2dOptions options[]{{.padding = 1, .activation = Activation::relu},
                                {.activation = Activation::relu},
                                {.padding = {1, 3}, .end_padding = Pair(3, 1)}};
  const auto calls = [options](const std::vector<Tensor>& in) {
    return op::conv2d_cat(
        {{in[0], in[1], in[2], options[0]}, {in[0], in[3], in[4], options[1]}, {in[0], in[5], {}, options[2]}});
  };
  for (const auto& [C, first, second, third] :
       {std::array<std::int64_t, 4>{3, 2, 5, 1}, {8, 16, 8, 24}, {16, 8, 12, 8}, {24, 16, 24, 8}})
    op.samples.push_back(
        {.name = message(C, " to ", first, ", ", second, " and ", third, " channels"),
         .arguments = {uniform({2, C, 5, 7}), uniform({first, C, 3, 3}), uniform({first}), uniform({second, C, 1, 1}),
                       uniform({second}), uniform({third, C, 5, 5})},
         .call = [calls](const std::vector<Tensor>& in) { return std::vector{calls(in)}; },
         .reference =
             [options](const std::vector<Array>& in) {
               const Array parts[]{convolution({in[0], in[1], in[2]}, options[0]),
                                   convolution({in[0], in[3], in[4]}, options[1]),
                                   convolution({in[0], in[5]}, options[2])};
               const std::int64_t N = in[0].size(0), area = in[0].size(2) * in[0].size(3);
               Array out({N, parts[0].size(1) + parts[1].size(1) + parts[2].size(1), in[0].size(2), in[0].size(3)});
               std::int64_t next = 0;
               for (std::int64_t n = 0; n < N; ++n)
                 for (const Array& part : parts)
                   for (std::int64_t i = 0; i < part.size(1) * area; ++i)
                     out[next++] = part[n * part.size(1) * area + i];
               return std::vector{out};
             },
         .terms = static_cast<double>(25 * C),
         .gradient_terms = static_cast<double>(25 * (C + first + second + third))});
  op.refuses("nothing", Kind::shape, {"no convolutions"}, [] { op::conv2d_cat({}); });
  op.refuses("outputs of two sizes", Kind::shape, {"5x5", "3x3"}, [] {
    op::conv2d_cat({{ones({1, 1, 5, 5}), ones({1, 1, 1, 1})}, {ones({1, 1, 5, 5}), ones({1, 1, 3, 3})}});
  });
  return op;
}

/// A convolution, what is added, and the activation.
Operator with_shortcut() {
  Operator op{.name = "conv2d_add"};
  const Use uses[]{{"plain", {2, 3, 7, 6}, {4, 3, 3, 3}},
                   {"relu", {2, 3, 7, 6}, {4, 3, 3, 3}, {.padding = 1, .activation = Activation::relu}},
                   {"sigmoid", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::sigmoid}},
                   {"stride 2", {1, 4, 9, 8}, {6, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
                   {"1x1", {2, 40, 9, 7}, {24, 40, 1, 1}},
                   {"1x1, relu6", {2, 24, 9, 7}, {20, 24, 1, 1}, {.activation = Activation::relu6}},
                   {"wide", {2, 16, 9, 7}, {24, 16, 3, 3}, {.padding = 1, .activation = Activation::relu}},
                   {"winograd", {2, 16, 19, 21}, {17, 16, 3, 3}, {.padding = 1, .activation = Activation::relu}},
                   {"depthwise", {2, 20, 9, 11}, {20, 1, 3, 3}, {.padding = 1, .groups = 20}},
                   {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}}};
  for (const Use& use : uses)
    for (const bool bias : {true, false}) {
      Use own = use;
      own.bias = bias;
      Conv2dOptions plain = use.options;
      plain.activation = Activation::none;
      Sample made = sample(own);
      if (!bias) made.name += " without a bias";
      Array x(use.x), weight(use.weight);
      const Array y = convolution({x, weight}, plain);
      made.arguments.push_back(uniform(y.shape));
      made.call = [options = use.options](const std::vector<Tensor>& in) {
        return std::vector{op::conv2d_add(in[0], in[1], in.size() > 3 ? in[2] : Tensor{}, in.back(), options)};
      };
      made.reference = [plain, activation = use.options.activation](const std::vector<Array>& in) {
        Array sum = convolution({in.begin(), in.end() - 1}, plain);
        for (std::int64_t i = 0; i < sum.size(); ++i) sum[i] = activated(activation, sum[i] + in.back()[i]);
        return std::vector{sum};
      };
      made.roundings = 2;  // the sum is another operator where it has a gradient, and in 16 bits
      // Rounding decides on which side of a bound a sum is, and with it the gradient.
      made.gradient = use.options.activation == Activation::none || use.options.activation == Activation::sigmoid;
      op.samples.push_back(made);
    }
  op.refuses("a sum of another shape", Kind::shape, {"[1,2,5,5]", "[1,2,3,3]"}, [] {
    op::conv2d_add(ones({1, 1, 5, 5}), ones({2, 1, 3, 3}), {}, ones({1, 2, 5, 5}));
  });
  op.refuses("a sum of another dtype", Kind::dtype, {"float64", "float32"}, [] {
    op::conv2d_add(ones({1, 1, 3, 3}), ones({2, 1, 3, 3}), {}, ones({1, 2, 1, 1}, DType::float64));
  });
  return op;
}

/// The largest of each 2 x 2: the first one, but the first NaN over everything.
Array pooled(const Array& y) {
  const std::int64_t H = y.size(2), W = y.size(3), planes = y.size(0) * y.size(1);
  Array out({y.size(0), y.size(1), H / 2, W / 2});
  std::int64_t next = 0;
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t h = 0; h < H / 2; ++h)
      for (std::int64_t w = 0; w < W / 2; ++w) {
        double best = y[(plane * H + 2 * h) * W + 2 * w];
        for (int i = 1; i < 4; ++i) {
          const double value = y[(plane * H + 2 * h + i / 2) * W + 2 * w + i % 2];
          if (!std::isnan(best) && (value > best || std::isnan(value))) best = value;
        }
        out[next++] = best;
      }
  return out;
}

// Planes and windows that the kernels of cuda take, and some that they do not. Which output won, and has the gradient,
// hangs on the last bit: gradients are those of small integers, whose sums every type holds exactly.
Operator max_pooled() {
  Operator op{.name = "conv2d_max_pool2d"};
  const auto add = [&](const Use& use, bool exact, bool large = false) {
    Sample made = sample(use, exact, large);
    made.call = [options = use.options](const std::vector<Tensor>& in) {
      return std::vector{op::conv2d_max_pool2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor{}, options)};
    };
    made.reference = [options = use.options](const std::vector<Array>& in) {
      return std::vector{pooled(convolution(in, options))};
    };
    made.gradient = true, made.smooth = false, made.compares = true;
    if (exact) {
      made.arguments[0] = integers(use.x, -1, 1);
      made.arguments[1] = integers(use.weight, -2, 2);
    }
    op.samples.push_back(made);
  };
  const Use uses[]{{"plain", {2, 3, 8, 6}, {4, 3, 3, 3}},
                   {"no bias", {2, 3, 8, 6}, {5, 3, 3, 3}, {}, false},
                   {"relu", {2, 3, 8, 6}, {4, 3, 3, 3}, {.activation = Activation::relu}},
                   {"sigmoid", {2, 2, 6, 10}, {3, 2, 3, 3}, {.padding = 1, .activation = Activation::sigmoid}},
                   {"tanh", {3, 2, 6, 6}, {3, 2, 3, 3}, {.padding = {1, 0}, .activation = Activation::tanh}, false},
                   {"odd height and width", {2, 2, 9, 7}, {3, 2, 3, 3}},
                   {"one window", {3, 2, 4, 4}, {3, 2, 3, 3}},
                   {"windows in fours, padded", {3, 5, 8, 8}, {9, 5, 3, 3}, {.padding = 1}},
                   {"padded 5x5", {2, 5, 10, 12}, {9, 5, 5, 5}, {.padding = 2}},
                   {"windows across images", {7, 3, 8, 8}, {10, 3, 3, 3}},
                   {"stride 2", {2, 2, 9, 9}, {3, 2, 3, 3}, {.stride = 2}},
                   {"two groups", {2, 4, 6, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
                   {"1x1", {2, 5, 4, 6}, {7, 5, 1, 1}},
                   {"eights of channels", {2, 8, 8, 6}, {16, 8, 3, 3}, {.padding = 1, .activation = Activation::relu}},
                   {"padded unequally", {1, 3, 6, 7}, {2, 3, 3, 3}, {.padding = {2, 0}, .end_padding = Pair(1, 3)}},
                   {"LeNet's first", {2, 1, 28, 28}, {20, 1, 5, 5}},
                   {"LeNet's second", {2, 20, 12, 12}, {50, 20, 5, 5}, {.activation = Activation::relu}},
                   {"no images", {0, 2, 6, 6}, {3, 2, 3, 3}},
                   {"no output channels", {2, 2, 6, 6}, {0, 2, 3, 3}}};
  for (const Use& use : uses) {
    add(use, false);
    if (use.options.activation == Activation::none || use.options.activation == Activation::relu) add(use, true);
  }
  const Use large[]{{"large", {19, 6, 14, 14}, {16, 6, 5, 5}, {.activation = Activation::relu}},
                    {"large 3x3", {33, 10, 16, 16}, {20, 10, 3, 3}, {.padding = 1}}};
  for (const Use& use : large)
    for (const bool exact : {false, true}) add(use, exact, true);
  op.refuses(
      "channels differ", Kind::shape, {"3 channels"},
      [] {
        op::conv2d_max_pool2d(ones({2, 3, 8, 8}), ones({6, 1, 3, 3}));
      },
      "conv2d");
  op.refuses(
      "one row of outputs", Kind::shape, {"2", "1"},
      [] {
        op::conv2d_max_pool2d(ones({1, 1, 3, 8}), ones({1, 1, 3, 3}));
      },
      "max_pool2d");
  return op;
}

}  // namespace

std::vector<Operator> conv_cases() {
  Operator op{.name = "conv2d"};
  const Use uses[]{
      {"one", {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"plain", {2, 3, 7, 6}, {4, 3, 3, 3}},
      {"no bias", {2, 3, 7, 6}, {4, 3, 3, 3}, {}, false},
      {"relu", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::relu}},
      {"sigmoid", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::sigmoid}},
      {"tanh", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::tanh}, false},
      {"relu6", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::relu6}},
      {"gelu", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::gelu}},
      {"silu", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::silu}},
      {"hardswish", {2, 3, 7, 6}, {4, 3, 3, 3}, {.activation = Activation::hardswish}, false},
      {"1x1", {2, 5, 4, 3}, {7, 5, 1, 1}},
      {"1x1 stride 2", {2, 5, 5, 7}, {3, 5, 1, 1}, {.stride = 2}},
      {"padded", {2, 2, 5, 5}, {3, 2, 3, 3}, {.padding = 1}},
      {"padded beyond the kernel", {1, 2, 2, 3}, {2, 2, 2, 2}, {.padding = 3}},
      {"stride 2", {2, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2}},
      {"stride 2, padded", {2, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
      {"stride beyond the kernel", {1, 2, 11, 10}, {2, 2, 2, 2}, {.stride = 4}},
      {"dilated", {2, 2, 9, 9}, {3, 2, 3, 3}, {.dilation = 2}},
      {"dilated, padded, stride 2", {1, 2, 11, 9}, {2, 2, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2}},
      {"height unlike width", {2, 2, 9, 13}, {3, 2, 2, 5}, {.stride = {1, 3}, .padding = {1, 2}, .dilation = {3, 1}}},
      {"two groups", {2, 4, 5, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {"depthwise", {2, 5, 6, 5}, {5, 1, 3, 3}, {.padding = 1, .groups = 5}},
      {"depthwise, two each", {1, 3, 6, 5}, {6, 1, 3, 3}, {.stride = 2, .groups = 3, .activation = Activation::relu}},
      {"depthwise, eights of channels",
       {2, 16, 9, 7},
       {16, 1, 3, 3},
       {.padding = 1, .groups = 16, .activation = Activation::relu}},
      {"depthwise, a prime of channels", {1, 19, 8, 11}, {19, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 19}},
      {"depthwise, no padding", {2, 10, 7, 8}, {10, 1, 3, 3}, {.groups = 10}},
      {"depthwise 5x5, stride 2", {2, 24, 11, 8}, {24, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 24}, false},
      {"depthwise 7x7", {1, 8, 10, 9}, {8, 1, 7, 7}, {.padding = 3, .groups = 8, .activation = Activation::sigmoid}},
      {"depthwise 7x7, stride 2, no padding", {1, 9, 17, 15}, {9, 1, 7, 7}, {.stride = 2, .groups = 9}},
      {"depthwise, height unlike width",
       {2, 12, 9, 14},
       {12, 1, 3, 5},
       {.stride = {2, 1}, .padding = {0, 3}, .dilation = {2, 1}, .groups = 12, .activation = Activation::relu}},
      {"depthwise, dilated, stride 3",
       {1, 8, 13, 12},
       {8, 1, 3, 3},
       {.stride = 3, .padding = 2, .dilation = 2, .groups = 8}},
      {"depthwise, padded beyond the kernel", {1, 8, 4, 3}, {8, 1, 2, 3}, {.padding = 4, .groups = 8}},
      {"depthwise, stride beyond the kernel", {1, 8, 11, 13}, {8, 1, 2, 2}, {.stride = {3, 4}, .groups = 8}},
      {"depthwise 1x1", {2, 8, 3, 5}, {8, 1, 1, 1}, {.groups = 8}},
      {"depthwise row", {3, 16, 1, 21}, {16, 1, 1, 4}, {.padding = {0, 2}, .groups = 16}},
      {"depthwise, kernel beyond 9", {1, 8, 9, 12}, {8, 1, 3, 11}, {.padding = {1, 5}, .groups = 8}},
      {"depthwise 9x9", {1, 19, 10, 31}, {19, 1, 9, 9}, {.padding = 4, .groups = 19, .activation = Activation::relu}},
      {"depthwise 5x5, dilated", {1, 17, 9, 33}, {17, 1, 5, 5}, {.padding = {4, 3}, .dilation = 2, .groups = 17}},
      {"depthwise 3x3, dilation 3", {2, 33, 7, 16}, {33, 1, 3, 3}, {.padding = 4, .dilation = 3, .groups = 33}},
      {"depthwise 3x3, few channels", {3, 24, 5, 10}, {24, 1, 3, 3}, {.padding = 1, .groups = 24}},
      {"depthwise 3x3, two channels",
       {1, 2, 4, 21},
       {2, 1, 3, 3},
       {.padding = {1, 0}, .groups = 2, .activation = Activation::relu}},
      {"depthwise 3x3, few channels, dilated",
       {2, 8, 6, 13},
       {8, 1, 3, 3},
       {.padding = {1, 3}, .dilation = {1, 2}, .groups = 8}},
      {"kernel as large as the image", {3, 2, 5, 4}, {7, 2, 5, 4}},
      {"row kernel", {1, 2, 3, 17}, {2, 2, 1, 5}},
      {"column kernel", {1, 2, 17, 3}, {2, 2, 5, 1}},
      {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}},
      {"no output channels", {2, 2, 5, 5}, {0, 2, 3, 3}},
      {"no input channels", {2, 0, 5, 5}, {3, 0, 3, 3}},
      {"wide", {1, 1, 3, 67}, {9, 1, 3, 3}, {.padding = 1}},
      {"17 channels", {1, 17, 6, 6}, {33, 17, 3, 3}, {.padding = 1}},
      {"LeNet's first", {2, 1, 28, 28}, {20, 1, 5, 5}},
      {"LeNet's second", {1, 20, 12, 12}, {50, 20, 5, 5}, {.activation = Activation::relu}},
      {"AlexNet's first, small", {1, 3, 35, 35}, {8, 3, 11, 11}, {.stride = 4, .padding = 2}},
      {"patches", {2, 3, 33, 40}, {16, 3, 8, 8}, {.stride = 8}},
      {"ViT's first, small", {1, 3, 48, 32}, {24, 3, 16, 16}, {.stride = 16}},
      {"GoogLeNet's first, small", {2, 3, 17, 15}, {8, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {"eights of channels", {2, 8, 9, 7}, {16, 8, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"eights of channels, 1x1", {2, 16, 5, 6}, {24, 16, 1, 1}, {.activation = Activation::relu}},
      {"eights of channels, 5x5", {2, 16, 6, 7}, {8, 16, 5, 5}, {.padding = 2}, false},
      {"eights of channels, stride 2", {2, 8, 9, 8}, {8, 8, 3, 3}, {.stride = 2, .padding = 1}},
      {"eights of channels, dilated", {1, 8, 9, 9}, {8, 8, 3, 3}, {.padding = 2, .dilation = 2}},
      {"two groups of eights", {2, 16, 7, 6}, {32, 8, 5, 5}, {.padding = 2, .groups = 2}},
      {"eight groups of eights", {1, 64, 5, 4}, {64, 8, 3, 3}, {.padding = 1, .groups = 8}},
      {"three channels to eight", {2, 3, 8, 9}, {8, 3, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"padded at the end", {2, 2, 6, 8}, {3, 2, 3, 3}, {.stride = 2, .end_padding = Pair(1)}},
      {"padded unequally",
       {1, 3, 6, 7},
       {2, 3, 4, 5},
       {.padding = {2, 0}, .end_padding = Pair(1, 3), .activation = Activation::relu}},
      {"groups of three, of which few are left", {2, 33, 6, 19}, {33, 3, 3, 3}, {.padding = 1, .groups = 11}},
      {"groups of four to two, stride 2",
       {1, 28, 9, 33},
       {14, 4, 5, 5},
       {.stride = 2, .padding = 2, .groups = 7, .activation = Activation::relu6}},
      {"groups of two to five, dilated", {1, 18, 9, 31}, {45, 2, 3, 7}, {.padding = 4, .dilation = 3, .groups = 9}},
      {"groups of seven, dilation as the stride",
       {2, 21, 13, 18},
       {21, 7, 3, 3},
       {.stride = 2, .padding = 2, .dilation = 2, .groups = 3},
       false},
      {"groups of five, stride 2, dilation 3",
       {1, 20, 17, 29},
       {20, 5, 3, 3},
       {.stride = 2, .padding = 3, .dilation = 3, .groups = 4}},
      {"depthwise 7x7, dilation as the stride",
       {1, 18, 15, 34},
       {18, 1, 7, 7},
       {.stride = 2, .padding = 6, .dilation = 2, .groups = 18}},
      {"depthwise 7x7, stride 2", {2, 35, 12, 33}, {35, 1, 7, 7}, {.stride = 2, .padding = 3, .groups = 35}},
      {"taps inside in part, strided groups", {3, 20, 9, 8}, {30, 10, 5, 5}, {.stride = 2, .padding = 3, .groups = 2}},
      {"taps inside in part, many images",
       {37, 24, 4, 3},
       {5, 24, 3, 3},
       {.padding = 1, .activation = Activation::relu}},
      {"taps that no output sees", {2, 17, 5, 6}, {20, 17, 3, 3}, {.padding = 6, .dilation = 6}},
      {"one output of many channels", {2, 161, 6, 5}, {1, 161, 3, 3}, {.stride = 2, .padding = 1}},
      {"padded at the start, eights of channels",
       {2, 8, 6, 5},
       {16, 8, 2, 4},
       {.padding = {1, 2}, .end_padding = Pair(0, 1)}}};
  for (const Use& use : uses) op.samples.push_back(sample(use));
  for (const Use& use : {uses[1], uses[12], uses[18], uses[20], uses[21], uses[31]})
    op.samples.push_back(sample(use, true));
  op.samples.push_back(
      sample({"large", {16, 3, 19, 21}, {31, 3, 5, 5}, {.padding = 2, .activation = Activation::relu}}, false, true));
  op.samples.push_back(
      sample({"large grouped", {8, 8, 17, 17}, {16, 4, 3, 3}, {.padding = 1, .groups = 2}}, false, true));
  op.samples.push_back(sample(
      {"large depthwise", {3, 72, 19, 17}, {72, 1, 3, 3}, {.padding = 1, .groups = 72, .activation = Activation::relu}},
      false, true));
  op.samples.push_back(
      sample({"large depthwise, stride 2", {2, 97, 22, 23}, {97, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 97}},
             false, true));
  op.samples.push_back(
      sample({"more weights than a cache", {1, 40, 4, 5}, {1030, 40, 3, 3}, {.padding = 1}}, false, true));
  // Enough channels and positions for transformed tiles, with a last tile that hangs over the edge. A stride makes
  // squares of pixels of it.
  const Use tiled[]{
      {"winograd", {2, 16, 19, 21}, {17, 16, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"winograd, no padding", {3, 13, 18, 22}, {12, 13, 3, 3}, {}, false},
      {"winograd, more padding",
       {2, 12, 23, 17},
       {40, 12, 3, 3},
       {.padding = {2, 0}, .activation = Activation::sigmoid}},
      {"winograd, two groups", {1, 32, 26, 25}, {40, 16, 3, 3}, {.padding = 1, .groups = 2}},
      {"winograd of 4x4 kernels", {2, 12, 22, 25}, {20, 12, 4, 4}, {.padding = {1, 2}}},
      {"winograd of 5x5 kernels", {1, 16, 27, 29}, {24, 16, 5, 5}, {.padding = 2, .activation = Activation::relu}},
      {"winograd of 5x5 kernels, two groups", {2, 24, 15, 13}, {32, 12, 5, 5}, {.padding = 4, .groups = 2}},
      {"winograd, dilated",
       {1, 16, 21, 26},
       {24, 16, 3, 3},
       {.padding = 2, .dilation = 2, .activation = Activation::relu}},
      {"winograd, dilations unlike", {2, 12, 25, 19}, {17, 12, 3, 3}, {.padding = {4, 3}, .dilation = {4, 3}}},
      {"winograd, dilated beyond the image", {3, 16, 5, 18}, {16, 16, 3, 3}, {.padding = 6, .dilation = 6}},
      {"winograd of 5x5 kernels, dilated", {1, 16, 30, 27}, {24, 16, 5, 5}, {.padding = {2, 4}, .dilation = 2}},
      {"winograd of many small images", {19, 16, 7, 7}, {48, 16, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"winograd of squares, AlexNet's first",
       {1, 3, 115, 99},
       {40, 3, 11, 11},
       {.stride = 4, .activation = Activation::relu}},
      {"winograd of squares, GoogLeNet's first", {2, 3, 45, 59}, {64, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {"winograd of squares, odd sizes", {2, 5, 77, 67}, {40, 5, 8, 8}, {.stride = 3, .padding = {2, 4}}, false},
      {"winograd of squares, height unlike width", {1, 4, 75, 62}, {48, 4, 7, 8}, {.stride = 2, .padding = {9, 3}}},
      {"winograd of squares, 9x9 kernels",
       {1, 8, 47, 50},
       {64, 8, 9, 9},
       {.stride = 2, .activation = Activation::relu}},
      {"winograd of squares, 5x5 kernels", {2, 8, 49, 54}, {64, 8, 5, 5}, {.stride = 2, .padding = 1}}};
  for (const Use& use : tiled) op.samples.push_back(sample(use, false, true));
  // Channels enough for lanes, in vectors that they do not fill.
  const Use wide[]{
      {"wide 1x1", {2, 40, 9, 7}, {24, 40, 1, 1}, {.activation = Activation::relu}},
      {"wide 1x1, two groups", {3, 16, 5, 5}, {48, 8, 1, 1}, {.groups = 2}},
      {"wide 1x1, padded", {2, 24, 4, 5}, {8, 24, 1, 1}, {.padding = 1, .activation = Activation::tanh}},
      {"wide, stride 2", {2, 12, 11, 9}, {16, 12, 3, 3}, {.stride = 2, .padding = 1, .activation = Activation::relu}},
      {"odd channels in two groups", {2, 38, 9, 7}, {30, 19, 3, 3}, {.padding = 1, .groups = 2}},
      {"odd channels, stride 2",
       {2, 37, 9, 8},
       {19, 37, 3, 3},
       {.stride = 2, .padding = 1, .activation = Activation::relu}},
      {"depthwise in phases",
       {2, 24, 15, 14},
       {24, 1, 3, 3},
       {.padding = 2, .dilation = 2, .groups = 24, .activation = Activation::relu}},
      {"depthwise in phases, stride 2",
       {1, 20, 16, 13},
       {20, 1, 3, 3},
       {.stride = 2, .padding = 1, .dilation = 2, .groups = 20}},
      {"depthwise in three phases", {1, 8, 17, 19}, {8, 1, 5, 5}, {.padding = {4, 6}, .dilation = 3, .groups = 8}},
      {"wide, stride beyond the kernel", {1, 24, 13, 11}, {8, 24, 1, 1}, {.stride = 3}},
      {"wide, dilated", {1, 8, 11, 13}, {24, 8, 3, 3}, {.padding = 2, .dilation = 2, .activation = Activation::relu}},
      {"wide, padded beyond the kernel", {1, 8, 5, 4}, {8, 8, 2, 3}, {.padding = 3, .activation = Activation::relu}},
      {"wide, two groups, stride 2", {2, 16, 9, 9}, {16, 8, 3, 5}, {.stride = {2, 1}, .padding = {1, 2}, .groups = 2}},
      {"many channels", {1, 208, 4, 4}, {40, 208, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"many channels, 1x1", {1, 528, 3, 3}, {72, 528, 1, 1}, {}, false},
      {"wide, relu6", {2, 16, 9, 7}, {24, 16, 3, 3}, {.padding = 1, .activation = Activation::relu6}},
      {"wide 1x1, relu6", {2, 40, 9, 7}, {24, 40, 1, 1}, {.activation = Activation::relu6}},
      {"wide 1x1, hardswish", {2, 40, 9, 7}, {20, 40, 1, 1}, {.activation = Activation::hardswish}},
      {"winograd, silu", {2, 16, 19, 21}, {17, 16, 3, 3}, {.padding = 1, .activation = Activation::silu}},
      {"winograd, relu6", {2, 16, 19, 21}, {17, 16, 3, 3}, {.padding = 1, .activation = Activation::relu6}},
      {"first layer", {2, 3, 21, 23}, {16, 3, 7, 7}, {.stride = 2, .padding = 3, .activation = Activation::relu}},
      {"few outputs, 5x5, stride 2",
       {2, 72, 9, 10},
       {4, 72, 5, 5},
       {.stride = 2, .padding = 2, .activation = Activation::tanh}},
      {"few inputs, 7x7, dilated", {1, 4, 19, 17}, {72, 4, 7, 7}, {.padding = 6, .dilation = 2}, false},
      {"few inputs, stride 3 beyond the padding", {1, 8, 16, 11}, {40, 8, 2, 4}, {.stride = {3, 2}, .padding = {0, 3}}},
      {"odd channels, 7x7", {1, 43, 6, 7}, {21, 43, 7, 7}, {.padding = 3, .activation = Activation::relu}},
      {"odd channels in two groups, 5x5", {1, 38, 6, 7}, {30, 19, 5, 5}, {.padding = 2, .groups = 2}}};
  for (const Use& use : wide) op.samples.push_back(sample(use, false, true));
  // One plane beside many, and planes multiplied as they lie.
  const Use planar[]{
      {"one input channel", {3, 1, 11, 13}, {37, 1, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"one input channel, 7x7, stride 2", {1, 1, 37, 41}, {70, 1, 7, 7}, {.stride = 2, .padding = 3}},
      {"one input channel, 5x5, dilated",
       {2, 1, 19, 35},
       {41, 1, 5, 5},
       {.padding = {4, 3}, .dilation = 2, .activation = Activation::tanh}},
      {"one input channel, 1x1", {32, 1, 5, 7}, {40, 1, 1, 1}, {.activation = Activation::relu6}},
      {"one input channel, 1x1, stride 2", {2, 1, 9, 8}, {45, 1, 1, 1}, {.stride = 2}, false},
      {"one input channel, padded at the end",
       {2, 1, 36, 35},
       {34, 1, 3, 3},
       {.stride = 2, .padding = {0, 1}, .end_padding = Pair(1, 2)}},
      {"one output", {2, 37, 9, 14}, {1, 37, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"one output, 1x1", {32, 150, 5, 7}, {1, 150, 1, 1}, {.activation = Activation::sigmoid}},
      {"one output, 1x1, stride 2", {1, 21, 33, 34}, {1, 21, 1, 1}, {.stride = 2}, false},
      {"one output, 5x5, stride 2", {1, 9, 40, 37}, {1, 9, 5, 5}, {.stride = 2, .padding = 2}},
      {"one output, 7x7, padded beyond the kernel", {2, 11, 6, 35}, {1, 11, 7, 7}, {.padding = {8, 3}}},
      {"one output, dilation 3",
       {1, 12, 21, 50},
       {1, 12, 3, 3},
       {.padding = {3, 4}, .dilation = 3, .activation = Activation::relu}},
      {"one output, stride 2, dilation 2", {2, 10, 35, 33}, {1, 10, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2}},
      {"one channel", {2, 1, 70, 67}, {1, 1, 3, 3}, {.padding = 1, .activation = Activation::relu}},
      {"one channel of many images", {33, 1, 7, 5}, {1, 1, 5, 5}, {.padding = 2}},
      {"odd channels, 1x1", {3, 37, 12, 11}, {131, 37, 1, 1}, {.activation = Activation::relu}},
      {"odd outputs, 1x1, odd planes", {2, 24, 7, 9}, {45, 24, 1, 1}, {.activation = Activation::tanh}},
      {"odd channels, 1x1, many images", {33, 9, 6, 4}, {13, 9, 1, 1}, {}, false},
      {"one channel, 7x7, stride 2", {1, 1, 45, 34}, {1, 1, 7, 7}, {.stride = 2, .padding = 3}, false}};
  for (const Use& use : planar) op.samples.push_back(sample(use, false, true));
  // A kernel for each channel, and groups of few channels.
  const Use narrow[]{
      {"depthwise 3x3", {2, 20, 9, 11}, {20, 1, 3, 3}, {.padding = 1, .groups = 20, .activation = Activation::relu}},
      {"depthwise 3x3, relu6",
       {2, 20, 9, 11},
       {20, 1, 3, 3},
       {.padding = 1, .groups = 20, .activation = Activation::relu6}},
      {"depthwise 3x3, silu",
       {2, 20, 9, 11},
       {20, 1, 3, 3},
       {.padding = 1, .groups = 20, .activation = Activation::silu}},
      {"depthwise 3x3, stride 2", {3, 8, 9, 8}, {8, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 8}},
      {"depthwise 3x3, no padding", {1, 136, 6, 5}, {136, 1, 3, 3}, {.groups = 136}, false},
      {"depthwise 5x5", {1, 12, 10, 7}, {12, 1, 5, 5}, {.padding = {2, 1}, .groups = 12}},
      {"depthwise 5x5, stride 2", {2, 7, 11, 13}, {7, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 7}},
      {"depthwise 7x7", {1, 8, 9, 17}, {8, 1, 7, 7}, {.padding = 3, .groups = 8, .activation = Activation::tanh}},
      {"depthwise 7x7, stride 2, padded beyond the kernel",
       {1, 4, 7, 5},
       {4, 1, 7, 7},
       {.stride = 2, .padding = 8, .groups = 4}},
      {"depthwise, dilated", {1, 8, 13, 11}, {8, 1, 3, 3}, {.padding = 2, .dilation = 2, .groups = 8}},
      {"depthwise 4x2, stride 3x1", {2, 8, 11, 6}, {8, 1, 4, 2}, {.stride = {3, 1}, .padding = {1, 0}, .groups = 8}},
      {"depthwise 1x5", {1, 4, 3, 17}, {4, 1, 1, 5}, {.padding = {0, 2}, .groups = 4}},
      {"depthwise, two each, eights of channels", {2, 8, 7, 6}, {16, 1, 3, 3}, {.padding = 1, .groups = 8}},
      {"groups of four", {2, 16, 9, 7}, {32, 4, 3, 3}, {.padding = 1, .groups = 4, .activation = Activation::relu}},
      {"groups of four, stride 2", {1, 24, 9, 8}, {24, 4, 3, 3}, {.stride = 2, .padding = 1, .groups = 6}, false},
      {"groups of three to two", {2, 12, 6, 7}, {8, 3, 3, 3}, {.padding = 2, .groups = 4}},
      {"groups of four, 5x1, dilated", {1, 16, 13, 5}, {16, 4, 5, 1}, {.dilation = {2, 1}, .groups = 4}},
      {"thirty-two groups of sixteen", {1, 512, 4, 3}, {512, 16, 3, 3}, {.padding = 1, .groups = 32}},
      {"eight groups of thirty-two", {1, 256, 5, 4}, {256, 32, 3, 3}, {.padding = 1, .groups = 8}},
      {"groups of two, 7x7", {2, 8, 15, 9}, {8, 2, 7, 7}, {.padding = 3, .groups = 4, .activation = Activation::relu}},
      {"groups of nine to four, 5x5, stride 2",
       {1, 27, 11, 10},
       {12, 9, 5, 5},
       {.stride = 2, .padding = 2, .groups = 3, .activation = Activation::silu}},
      {"groups of seventeen, 7x7, stride 2", {1, 34, 17, 9}, {34, 17, 7, 7}, {.stride = 2, .padding = 3, .groups = 2}},
      {"groups of thirty-three, stride 2", {1, 297, 7, 8}, {297, 33, 3, 3}, {.stride = 2, .padding = 1, .groups = 9}},
      {"depthwise 7x7, dilated", {1, 5, 21, 18}, {5, 1, 7, 7}, {.padding = 6, .dilation = 2, .groups = 5}}};
  for (const Use& use : narrow) op.samples.push_back(sample(use, false, true));
  for (const Use& use : {narrow[0], narrow[3], narrow[8], narrow[13]}) op.samples.push_back(sample(use, true, true));
  for (const Use& use : {wide[0], wide[3], wide[5]}) op.samples.push_back(sample(use, true, true));
  op.refuses("channels differ", Kind::shape, {"3 channels", "[6,1,5,5]", "[32,3,28,28]"}, [] {
    op::conv2d(ones({32, 3, 28, 28}), ones({6, 1, 5, 5}));
  });
  op.refuses("kernel beyond the image", Kind::shape, {"5", "3"}, [] {
    op::conv2d(ones({1, 1, 3, 3}), ones({1, 1, 5, 5}));
  });
  op.refuses("input of two dimensions", Kind::shape, {"[5,5]", "4"}, [] {
    op::conv2d(ones({5, 5}), ones({1, 3, 3, 3}));
  });
  op.refuses("weight of three dimensions", Kind::shape, {"[3,3,3]", "4"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({3, 3, 3}));
  });
  op.refuses("bias of another size", Kind::shape, {"[3]", "[2]"}, [] {
    op::conv2d(ones({1, 1, 5, 5}), ones({2, 1, 3, 3}), ones({3}));
  });
  op.refuses("groups that do not divide", Kind::shape, {"groups"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 1, 3, 3}), {}, {.groups = 2});
  });
  op.refuses("no groups", Kind::shape, {"groups"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}), {}, {.groups = 0});
  });
  op.refuses("stride 0", Kind::shape, {"stride 0"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}), {}, {.stride = 0});
  });
  op.refuses("negative padding", Kind::shape, {"padding -1"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}), {}, {.padding = -1});
  });
  op.refuses("dilation 0", Kind::shape, {"dilation 0"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}), {}, {.dilation = 0});
  });
  op.refuses("padding that overflows", Kind::shape, {"padding"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}), {}, {.padding = std::int64_t{1} << 62});
  });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [] {
    op::conv2d(ones({1, 3, 5, 5}), ones({2, 3, 3, 3}, DType::float64));
  });
  op.refuses("integers", Kind::dtype, {"uint8"}, [] {
    op::conv2d(ones({1, 3, 5, 5}, DType::uint8), ones({2, 3, 3, 3}, DType::uint8));
  });
  return {op, joined(), with_shortcut(), max_pooled()};
}

}  // namespace tern::testing

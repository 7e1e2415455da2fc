// Inference in 8 bits. The references compute in int64 and round to float32 where the contract of the kernels does, so
// every bit is determined.

#include <algorithm>
#include <cmath>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Argument of(DType dtype, Argument argument) {
  argument.dtype = dtype;
  return constant(std::move(argument));
}
Argument stored_numbers(const Shape& shape) { return of(DType::uint8, integers(shape, 0, 255)); }
Argument weights(const Shape& shape) { return of(DType::int8, integers(shape, -127, 127)); }
Argument biases(std::int64_t n) { return of(DType::int32, integers({n}, -20000, 20000)); }
Argument scales(std::int64_t n, double terms) {
  return of(DType::float32, uniform({n}, 0.5 / (1500 * std::sqrt(terms)), 2 / (1500 * std::sqrt(terms))));
}

float rounded(double value) { return static_cast<float>(value); }

/// t of the contract between bounds, as a stored number.
double stored_of(float t, double low, double high, double zero) {
  t = t > rounded(low - zero) ? t : rounded(low - zero);
  t = t < rounded(high - zero) ? t : rounded(high - zero);
  return static_cast<double>(std::nearbyint(t)) + zero;
}
float worth(double stored, double zero, float scale) { return rounded(stored - zero) * scale; }
float ratio(const op::Quantization& from, const op::Quantization& to) { return rounded(from.scale / to.scale); }

Sample sample(std::string name, std::vector<Argument> arguments, Call call, Reference reference, bool large = false) {
  return {.name = std::move(name),
          .arguments = std::move(arguments),
          .call = std::move(call),
          .reference = std::move(reference),
          .dtypes = {DType::uint8},
          .gradient = false,
          .exact = true,
          .large = large};
}

/// Both along dimension 1.
Array joined(const Array& a, const Array& b) {
  Shape shape = a.shape;
  shape[1] += b.size(1);
  Array y(shape);
  std::int64_t i = 0;
  for_each_position(shape, [&](Shape at) {
    const bool first = at[1] < a.size(1);
    if (!first) at[1] -= a.size(1);
    y[i++] = (first ? a : b).at(at);
  });
  return y;
}

Operator quantize() {
  Operator op{.name = "quantize"};
  const auto add = [&](const char* name, Argument x, const op::Quantization& as, bool large = false) {
    x.dtype = DType::float32;
    op.samples.push_back(sample(
        message(name, ' ', x.shape), {constant(x)},
        [as](const std::vector<Tensor>& in) { return std::vector{op::quantize(in[0], as)}; },
        [as](const std::vector<Array>& in) {
          Array y(in[0].shape, in[0].values);
          for (double& value : y.values)
            value = stored_of(rounded(value) * rounded(1 / as.scale), 0, 255, static_cast<double>(as.zero));
          return std::vector{y};
        },
        large));
  };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{3, 67}, Shape{2, 3, 5, 7}, Shape{1, 1, 9, 9},
                             Shape{2, 20, 1, 1}, Shape{3, 16, 8, 8}, Shape{0, 3, 4, 4}, Shape{2, 3, 4}}) {
    add("of signs", uniform(shape, -2, 2), {2.0 / 127, 128});
    add("positive", uniform(shape, 0, 3), {2.5 / 255, 0});
    add("halves", integers(shape, -300, 300), {2, 128});
  }
  add("NaN and infinities", listed({3, 37}, special_values()), {0.5, 100});
  add("large", uniform({8, 3, 120, 130}, -2, 2), {2.0 / 127, 128}, true);
  op.refuses("stored numbers", Kind::dtype, {"uint8", "float32"}, [] { op::quantize(ones({2}, DType::uint8), {}); });
  op.refuses("scale 0", Kind::numeric, {"scale of 0"}, [] { op::quantize(ones({2}), {0, 0}); });
  op.refuses("zero beyond", Kind::numeric, {"256", "255"}, [] { op::quantize(ones({2}), {1, 256}); });
  return op;
}

Operator dequantize() {
  Operator op{.name = "dequantize"};
  const auto add = [&](const Shape& shape, const op::Quantization& as, bool large = false) {
    op.samples.push_back(sample(
        message(shape, " zero ", as.zero), {stored_numbers(shape)},
        [as](const std::vector<Tensor>& in) { return std::vector{op::dequantize(in[0], as)}; },
        [as](const std::vector<Array>& in) {
          Array y(in[0].shape, 0, DType::float32);
          for (std::int64_t i = 0; i < y.size(); ++i)
            y[i] = worth(in[0][i], static_cast<double>(as.zero), rounded(as.scale));
          return std::vector{y};
        },
        large));
  };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{3, 67}, Shape{2, 3, 5, 7}, Shape{2, 20, 1, 1},
                             Shape{3, 16, 8, 8}, Shape{2, 3, 4}}) {
    add(shape, {0.013, 0});
    add(shape, {0.7, 131});
  }
  add({8, 33, 50, 60}, {0.013, 100}, true);
  op.refuses("float32", Kind::dtype, {"float32", "uint8"}, [] { op::dequantize(ones({2}), {}); });
  op.refuses("scale beyond float32", Kind::numeric, {"1e+60"}, [] {
    op::dequantize(ones({2}, DType::uint8), {1e60, 0});
  });
  return op;
}

/// The result's shape, [N, O, OH, OW].
Shape convolved_shape(const Shape& x, const Shape& weight, const op::QuantizedConv2dOptions& o) {
  const auto count = [](std::int64_t size, std::int64_t taps, std::int64_t stride, std::int64_t padding,
                        std::int64_t dilation) {
    return (size + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  return {x[0], weight[0], count(x[2], weight[1], o.stride.h, o.padding.h, o.dilation.h),
          count(x[3], weight[2], o.stride.w, o.padding.w, o.dilation.w)};
}

/// sum of the contract for each output.
std::vector<float> sums_of(const Array& x, const Array& weight, const Array& bias, const op::QuantizedConv2dOptions& o,
                           const Shape& shape) {
  const std::int64_t C = x.size(1), H = x.size(2), W = x.size(3), O = weight.size(0), KH = weight.size(1),
                     KW = weight.size(2), inputs = C / o.groups;
  std::vector<float> sums;
  for_each_position(shape, [&](const Shape& at) {
    double sum = bias[at[1]];
    for (std::int64_t c = 0; c < inputs; ++c) {
      const std::int64_t plane = at[0] * C + at[1] / (O / o.groups) * inputs + c;
      for (std::int64_t kh = 0; kh < KH; ++kh)
        for (std::int64_t kw = 0; kw < KW; ++kw) {
          const std::int64_t h = at[2] * o.stride.h - o.padding.h + kh * o.dilation.h;
          const std::int64_t w = at[3] * o.stride.w - o.padding.w + kw * o.dilation.w;
          const bool inside = h >= 0 && h < H && w >= 0 && w < W;
          const double number = inside ? x[(plane * H + h) * W + w] : static_cast<double>(o.x_zero);
          sum += number * weight[((at[1] * KH + kh) * KW + kw) * inputs + c];
        }
    }
    sums.push_back(rounded(sum));
  });
  return sums;
}

Array convolved(const std::vector<Array>& in, const op::QuantizedConv2dOptions& o) {
  const Shape shape = convolved_shape(in[0].shape, in[1].shape, o);
  const std::vector<float> sums = sums_of(in[0], in[1], in[2], o, shape);
  Array y(shape);
  if (o.dtype == DType::float32) y.dtype = DType::float32;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t channel = i / (shape[2] * shape[3]) % shape[1];
    float t = sums[static_cast<std::size_t>(i)] * rounded(in[3][channel]);
    if (in.size() > 4) t += worth(in[4][i], static_cast<double>(o.other_zero), rounded(o.other_scale));
    if (o.dtype == DType::float32) {
      y[i] = std::clamp<double>(t, rounded(o.low.value_or(-INFINITY)), rounded(o.high.value_or(INFINITY)));
    } else {
      y[i] = stored_of(t, o.low.value_or(0), o.high.value_or(255), static_cast<double>(o.zero));
    }
  }
  return y;
}

struct Convolution {
  const char* name;
  Shape x, weight;  // [N, C, H, W], [O, KH, KW, C / groups]
  op::QuantizedConv2dOptions options = {};
  bool large = false;
};

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all{
      {"LeNet's first", {2, 1, 12, 12}, {20, 5, 5, 1}, {.x_zero = 3, .zero = 120}},
      {"3x3", {1, 3, 7, 9}, {5, 3, 3, 3}, {.padding = 1, .x_zero = 128, .zero = 128}},
      {"3x3 of 64 channels", {1, 64, 6, 7}, {64, 3, 3, 64}, {.padding = 1, .x_zero = 7}},
      {"3x3 of 65 channels", {1, 65, 5, 5}, {33, 3, 3, 65}, {.padding = 1, .zero = 9}},
      {"strided", {2, 16, 9, 11}, {24, 3, 3, 16}, {.stride = 2, .padding = 1, .x_zero = 200, .zero = 60}},
      {"1x1", {2, 32, 5, 6}, {48, 1, 1, 32}, {.zero = 128}},
      {"1x1 of 256 channels", {1, 256, 8, 8}, {80, 1, 1, 256}, {}},
      {"1x1 strided", {1, 64, 8, 8}, {16, 1, 1, 64}, {.stride = 2}},
      {"7x7", {1, 3, 23, 22}, {16, 7, 7, 3}, {.stride = 2, .padding = 3, .x_zero = 110}},
      {"wide rows", {1, 16, 4, 70}, {32, 3, 3, 16}, {.padding = 1, .x_zero = 1}},
      {"dilated", {1, 8, 11, 12}, {8, 3, 3, 8}, {.padding = 2, .dilation = 2, .x_zero = 50}},
      {"dilated rows", {1, 8, 11, 12}, {8, 3, 3, 8}, {.padding = {3, 1}, .dilation = {3, 1}, .x_zero = 50}},
      {"1x5", {1, 6, 5, 9}, {7, 1, 5, 6}, {.padding = {0, 2}}},
      {"groups", {2, 12, 6, 6}, {20, 3, 3, 3}, {.padding = 1, .groups = 4, .x_zero = 30}},
      {"depthwise", {2, 32, 9, 8}, {32, 3, 3, 1}, {.padding = 1, .groups = 32, .x_zero = 77}},
      {"depthwise of 70 channels, strided", {1, 70, 9, 8}, {70, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 70}},
      {"depthwise 5x5", {1, 16, 9, 8}, {16, 5, 5, 1}, {.padding = 2, .groups = 16, .x_zero = 5}},
      {"depthwise with two outputs", {1, 8, 5, 5}, {16, 3, 3, 1}, {.groups = 8}},
      {"relu6", {1, 16, 6, 6}, {16, 3, 3, 16}, {.padding = 1, .low = 20.0, .high = 200.0}},
      {"no image", {0, 8, 6, 6}, {8, 3, 3, 8}, {.padding = 1}},
      {"no input channels", {1, 0, 4, 4}, {3, 1, 1, 0}, {}},
      {"float32", {1, 16, 6, 6}, {20, 3, 3, 16}, {.padding = 1, .x_zero = 100, .dtype = DType::float32}},
      {"float32 between bounds", {2, 16, 6, 6}, {20, 1, 1, 16}, {.dtype = DType::float32, .low = 0.0, .high = 6.0}},
      {"float32 depthwise", {1, 24, 6, 6}, {24, 3, 3, 1}, {.padding = 1, .groups = 24, .dtype = DType::float32}},
      {"large", {2, 64, 28, 28}, {96, 3, 3, 64}, {.padding = 1, .x_zero = 12, .zero = 100}, true},
      {"large, of 7x7", {4, 256, 7, 7}, {256, 3, 3, 256}, {.padding = 1}, true},
      {"large 1x1", {2, 128, 28, 28}, {160, 1, 1, 128}, {.zero = 100}, true},
      {"large depthwise", {2, 96, 56, 56}, {96, 3, 3, 1}, {.padding = 1, .groups = 96, .x_zero = 3}, true}};
  return all;
}

double terms_of(const Shape& weight) { return std::max(1.0, static_cast<double>(weight[1] * weight[2] * weight[3])); }

Operator quantized_conv2d() {
  Operator op{.name = "quantized_conv2d"};
  for (const Convolution& c : convolutions()) {
    const std::int64_t O = c.weight[0];
    std::vector<Argument> arguments{stored_numbers(c.x), weights(c.weight), biases(O), scales(O, terms_of(c.weight))};
    const auto reference = [o = c.options](const std::vector<Array>& in) { return std::vector{convolved(in, o)}; };
    op.samples.push_back(sample(
        c.name, arguments,
        [o = c.options](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_conv2d(in[0], in[1], in[2], in[3], {}, o)};
        },
        reference, c.large));
    if (c.options.dtype == DType::float32) continue;
    arguments.push_back(stored_numbers(convolved_shape(c.x, c.weight, c.options)));
    op::QuantizedConv2dOptions more = c.options;
    more.other_zero = 90, more.other_scale = 0.37;
    op.samples.push_back(sample(
        message(c.name, " and another"), arguments,
        [more](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_conv2d(in[0], in[1], in[2], in[3], in[4], more)};
        },
        [more](const std::vector<Array>& in) { return std::vector{convolved(in, more)}; }, c.large));
  }
  // Sums beyond float32's 24 bits, scales that reach halves.
  op.samples.push_back(sample(
      "extremes",
      {of(DType::uint8, listed({1, 512, 3, 3}, {255})), of(DType::int8, listed({4, 3, 3, 512}, {127})), biases(4),
       of(DType::float32, listed({4}, {0.5 / 127, 1e-6, 1, 0x1p-20}))},
      [](const std::vector<Tensor>& in) {
        return std::vector{op::quantized_conv2d(in[0], in[1], in[2], in[3], {}, {.padding = 1})};
      },
      [](const std::vector<Array>& in) { return std::vector{convolved(in, {.padding = 1})}; }));
  const auto call = [](DType x, DType weight, const Shape& kernel, const op::QuantizedConv2dOptions& options = {}) {
    return [=] {
      op::quantized_conv2d(ones({1, 2, 5, 5}, x), ones(kernel, weight), ones({kernel[0]}, DType::int32),
                           ones({kernel[0]}), {}, options);
    };
  };
  op.refuses("float32 input", Kind::dtype, {"float32", "uint8", "quantize"},
             call(DType::float32, DType::int8, {3, 3, 3, 2}));
  op.refuses("uint8 weights", Kind::dtype, {"weight", "int8"}, call(DType::uint8, DType::uint8, {3, 3, 3, 2}));
  op.refuses("channels", Kind::shape, {"2 channels", "expects 3"}, call(DType::uint8, DType::int8, {3, 3, 3, 3}));
  op.refuses("kernel beyond the image", Kind::shape, {"7"}, call(DType::uint8, DType::int8, {3, 7, 7, 2}));
  op.refuses("groups", Kind::shape, {"3 groups"}, call(DType::uint8, DType::int8, {3, 3, 3, 2}, {.groups = 3}));
  op.refuses("bounds", Kind::numeric, {"300"}, call(DType::uint8, DType::int8, {3, 3, 3, 2}, {.high = 300.0}));
  op.refuses("zero", Kind::numeric, {"-1"}, call(DType::uint8, DType::int8, {3, 3, 3, 2}, {.zero = -1}));
  op.refuses("int32 results", Kind::dtype, {"int32"},
             call(DType::uint8, DType::int8, {3, 3, 3, 2}, {.dtype = DType::int32}));
  return op;
}

Operator quantized_conv2d_cat() {
  Operator op{.name = "quantized_conv2d_cat"};
  const op::QuantizedConv2dOptions one{.x_zero = 4, .zero = 100}, three{.padding = 1, .zero = 100};
  for (const bool large : {false, true}) {
    const std::int64_t size = large ? 28 : 6;
    const Shape x{2, 48, size, size}, z{2, 20, size, size};
    op.samples.push_back(sample(
        message("two of ", size),
        {stored_numbers(x), weights({24, 1, 1, 48}), biases(24), scales(24, 48), stored_numbers(z),
         weights({37, 3, 3, 20}), biases(37), scales(37, 180)},
        [=](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_conv2d_cat(in, {one, three})};
        },
        [=](const std::vector<Array>& in) {
          const Array a = convolved({in[0], in[1], in[2], in[3]}, one),
                      b = convolved({in[4], in[5], in[6], in[7]}, three);
          return std::vector{joined(a, b)};
        },
        large));
  }
  op.refuses("a missing tensor", Kind::any, {"3 tensors", "each"}, [] {
    op::quantized_conv2d_cat(
        {ones({1, 2, 3, 3}, DType::uint8), ones({2, 1, 1, 2}, DType::int8), ones({2}, DType::int32)}, {{}});
  });
  op.refuses("sizes", Kind::shape, {"[1,2,3,3]", "[1,2,1,1]"}, [] {
    const Tensor x = ones({1, 2, 3, 3}, DType::uint8), b = ones({2}, DType::int32), s = ones({2});
    op::quantized_conv2d_cat({x, ones({2, 1, 1, 2}, DType::int8), b, s, x, ones({2, 3, 3, 2}, DType::int8), b, s},
                             {{}, {}});
  });
  return op;
}

Operator quantized_linear() {
  Operator op{.name = "quantized_linear"};
  struct Use {
    Shape x;
    std::int64_t out;
    op::QuantizedLinearOptions options;
    bool large = false;
  };
  for (const Use& use :
       {Use{{1, 17}, 3, {}}, Use{{5, 64}, 70, {.x_zero = 9, .zero = 128}}, Use{{3, 800}, 500, {.low = 0.0}},
        Use{{33, 100}, 10, {.dtype = DType::float32}}, Use{{2, 3, 50}, 20, {.zero = 30, .low = 30.0}},
        Use{{40}, 6, {.dtype = DType::float32}}, Use{{1, 2048}, 1000, {.dtype = DType::float32}}, Use{{0, 5}, 6, {}},
        Use{{7, 1}, 2, {.dtype = DType::float32, .low = 0.0}}, Use{{256, 1024}, 512, {}, true}}) {
    const std::int64_t in_features = use.x[use.x.rank() - 1];
    const auto reference = [use](const std::vector<Array>& in) {
      const std::int64_t features = in[1].size(1), rows = features == 0 ? 0 : in[0].size() / features;
      Array x = in[0], weight = in[1];
      x.shape = {rows, features, 1, 1}, weight.shape = {use.out, 1, 1, features};
      Array y = convolved({x, weight, in[2], in[3]}, {.x_zero = use.options.x_zero,
                                                      .dtype = use.options.dtype,
                                                      .zero = use.options.zero,
                                                      .low = use.options.low,
                                                      .high = use.options.high});
      y.shape = use.x;
      y.shape[use.x.rank() - 1] = use.out;
      return std::vector{y};
    };
    op.samples.push_back(sample(
        message(use.x, " to ", use.out),
        {stored_numbers(use.x), weights({use.out, in_features}), biases(use.out),
         scales(use.out, static_cast<double>(in_features))},
        [use](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_linear(in[0], in[1], in[2], in[3], use.options)};
        },
        reference, use.large));
  }
  op.refuses("features", Kind::shape, {"[2,3]", "4"}, [] {
    op::quantized_linear(ones({2, 3}, DType::uint8), ones({5, 4}, DType::int8), ones({5}, DType::int32), ones({5}), {});
  });
  op.refuses("bias", Kind::shape, {"[4]", "[5]"}, [] {
    op::quantized_linear(ones({2, 3}, DType::uint8), ones({5, 3}, DType::int8), ones({4}, DType::int32), ones({5}), {});
  });
  return op;
}

Operator quantized_add() {
  Operator op{.name = "quantized_add"};
  for (const Shape& shape :
       {Shape{}, Shape{0}, Shape{17}, Shape{5, 67}, Shape{2, 24, 5, 6}, Shape{2, 3, 4, 5, 6}, Shape{4, 64, 40, 40}})
    for (const op::QuantizedAddOptions& o : {op::QuantizedAddOptions{{0.02, 128}, {0.03, 100}, {0.04, 120}},
                                             {{0.02, 0}, {0.02, 0}, {0.02, 0}},
                                             {{0.5, 3}, {0.25, 9}, {0.5, 40}, 40, 200}}) {
      op.samples.push_back(sample(
          message(shape, " zero ", o.result.zero), {stored_numbers(shape), stored_numbers(shape)},
          [o](const std::vector<Tensor>& in) { return std::vector{op::quantized_add(in[0], in[1], o)}; },
          [o](const std::vector<Array>& in) {
            Array y(in[0].shape);
            for (std::int64_t i = 0; i < y.size(); ++i)
              y[i] = stored_of(worth(in[0][i], static_cast<double>(o.a.zero), ratio(o.a, o.result)) +
                                   worth(in[1][i], static_cast<double>(o.b.zero), ratio(o.b, o.result)),
                               static_cast<double>(o.low), static_cast<double>(o.high),
                               static_cast<double>(o.result.zero));
            return std::vector{y};
          },
          element_count(shape) > 100000));
    }
  op.refuses("shapes", Kind::shape, {"[2]", "[3]"},
             [] { op::quantized_add(ones({2}, DType::uint8), ones({3}, DType::uint8), {}); });
  return op;
}

Operator quantized_cat() {
  Operator op{.name = "quantized_cat"};
  const std::vector<op::Quantization> from{{0.02, 128}, {0.03, 0}};
  const op::Quantization to{0.03, 100};
  for (const auto& [a, b] :
       {std::pair{Shape{2, 5}, Shape{2, 70}}, std::pair{Shape{2, 16, 3, 5}, Shape{2, 7, 3, 5}},
        std::pair{Shape{1, 0, 3, 5}, Shape{1, 2, 3, 5}}, std::pair{Shape{4, 64, 28, 28}, Shape{4, 96, 28, 28}}})
    op.samples.push_back(sample(
        message(a, ' ', b), {stored_numbers(a), stored_numbers(b)},
        [=](const std::vector<Tensor>& in) { return std::vector{op::quantized_cat(in, from, to)}; },
        [=](const std::vector<Array>& in) {
          std::vector<Array> parts = in;
          for (std::size_t i = 0; i < parts.size(); ++i)
            for (double& value : parts[i].values)
              value = stored_of(worth(value, static_cast<double>(from[i].zero), ratio(from[i], to)), 0, 255,
                                static_cast<double>(to.zero));
          return std::vector{joined(parts[0], parts[1])};
        },
        element_count(a) > 100000));
  op.refuses("quantizations", Kind::any, {"1 tensors", "0 quantizations"}, [] {
    op::quantized_cat({ones({2, 2}, DType::uint8)}, {}, {});
  });
  op.refuses("shapes", Kind::shape, {"[3,2]", "[2,2]"}, [] {
    op::quantized_cat({ones({2, 2}, DType::uint8), ones({3, 2}, DType::uint8)}, {{}, {}}, {});
  });
  return op;
}

}  // namespace

std::vector<Operator> quantized_cases() {
  return {quantize(),         dequantize(),    quantized_conv2d(), quantized_conv2d_cat(),
          quantized_linear(), quantized_add(), quantized_cat()};
}

}  // namespace tern::testing

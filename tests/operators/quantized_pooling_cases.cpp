// Pooling of stored numbers; as in quantized_cases.cpp every bit is determined.

#include <algorithm>
#include <cmath>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Window {
  const char* name;
  Shape x;
  Pair kernel = 2, stride = 2, padding = 0, dilation = 1;
  bool ceil_mode = false, large = false;
};

const std::vector<Window>& windows() {
  static const std::vector<Window> all{{"2x2", {2, 20, 8, 8}},
                                       {"2x2 of 70 channels", {1, 70, 6, 8}},
                                       {"3x3 stride 2 padded", {2, 64, 9, 8}, 3, 2, 1},
                                       {"3x3 stride 1 padded", {1, 33, 7, 7}, 3, 1, 1},
                                       {"ceil", {1, 16, 8, 7}, 3, 2, 0, 1, true},
                                       {"ceil and padded", {1, 16, 9, 10}, 3, 2, 1, 1, true},
                                       {"5x1", {1, 3, 9, 4}, {5, 1}, {2, 1}, {2, 0}},
                                       {"one channel", {3, 1, 7, 6}, 2, 1},
                                       {"no image", {0, 4, 6, 6}},
                                       {"large", {4, 64, 56, 56}, 3, 2, 1, 1, false, true}};
  return all;
}

std::int64_t count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                   std::int64_t dilation, bool ceil_mode) {
  const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  std::int64_t result = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (result - 1) * stride >= size + padding) --result;
  return result;
}

/// Calls body(y, plane begins, h, w) of the windows.
template <class Body>
Array pooled(const Array& x, const Window& w, Body&& body) {
  Array y(Shape{x.size(0), x.size(1), count(x.size(2), w.kernel.h, w.stride.h, w.padding.h, w.dilation.h, w.ceil_mode),
                count(x.size(3), w.kernel.w, w.stride.w, w.padding.w, w.dilation.w, w.ceil_mode)});
  std::int64_t i = 0;
  for_each_position(y.shape, [&](const Shape& at) {
    y[i++] = body(at, at[2] * w.stride.h - w.padding.h, at[3] * w.stride.w - w.padding.w);
  });
  return y;
}

Argument stored_numbers(const Shape& shape) {
  Argument argument = integers(shape, 0, 255);
  argument.dtype = DType::uint8;
  return constant(argument);
}

Sample sample(std::string name, const Shape& x, Call call, Reference reference, bool large = false) {
  return {.name = std::move(name),
          .arguments = {stored_numbers(x)},
          .call = std::move(call),
          .reference = std::move(reference),
          .dtypes = {DType::uint8},
          .gradient = false,
          .exact = true,
          .large = large};
}

Operator quantized_max_pool2d() {
  Operator op{.name = "quantized_max_pool2d"};
  std::vector<Window> all = windows();
  all.push_back({"dilated", {1, 16, 9, 9}, 3, 1, 1, 2});
  for (const Window& w : all)
    op.samples.push_back(sample(
        w.name, w.x,
        [w](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_max_pool2d(in[0], w.kernel, {w.stride, w.padding, w.dilation, w.ceil_mode})};
        },
        [w](const std::vector<Array>& in) {
          const Array& x = in[0];
          return std::vector{pooled(x, w, [&](const Shape& at, std::int64_t top, std::int64_t left) {
            double best = 0;
            for (std::int64_t kh = 0; kh < w.kernel.h; ++kh)
              for (std::int64_t kw = 0; kw < w.kernel.w; ++kw) {
                const std::int64_t h = top + kh * w.dilation.h, v = left + kw * w.dilation.w;
                if (h >= 0 && h < x.size(2) && v >= 0 && v < x.size(3))
                  best = std::max(best, x.at({at[0], at[1], h, v}));
              }
            return best;
          })};
        },
        w.large));
  op.refuses("float32", Kind::dtype, {"float32", "uint8"}, [] { op::quantized_max_pool2d(ones({1, 1, 4, 4}), 2); });
  op.refuses("padding", Kind::shape, {"half"}, [] {
    op::quantized_max_pool2d(ones({1, 1, 4, 4}, DType::uint8), 2, {.padding = 2});
  });
  return op;
}

double mean(const Array& x, const Shape& at, std::int64_t top, std::int64_t bottom, std::int64_t left,
            std::int64_t right, std::int64_t divisor, const op::QuantizedAveragePoolOptions& o) {
  double sum = 0;
  for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(bottom, x.size(2)); ++h)
    for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(right, x.size(3)); ++w)
      sum += x.at({at[0], at[1], h, w}) - static_cast<double>(o.x.zero);
  const auto zero = static_cast<float>(o.result.zero);
  float t = static_cast<float>(sum) * static_cast<float>(o.x.scale / o.result.scale);
  t /= static_cast<float>(divisor);
  return static_cast<double>(std::nearbyint(std::clamp(t, -zero, 255 - zero)) + zero);
}

Operator quantized_avg_pool2d() {
  Operator op{.name = "quantized_avg_pool2d"};
  for (const Window& w : windows())
    for (const bool counts : {true, false}) {
      const op::QuantizedAveragePoolOptions o{.stride = w.stride,
                                              .padding = w.padding,
                                              .count_include_pad = counts,
                                              .ceil_mode = w.ceil_mode,
                                              .x = {0.03, 50},
                                              .result = {0.025, 60}};
      op.samples.push_back(sample(
          message(w.name, counts ? "" : ", padding left out"), w.x,
          [w, o](const std::vector<Tensor>& in) { return std::vector{op::quantized_avg_pool2d(in[0], w.kernel, o)}; },
          [w, o, counts](const std::vector<Array>& in) {
            const Array& x = in[0];
            return std::vector{pooled(x, w, [&](const Shape& at, std::int64_t top, std::int64_t left) {
              const std::int64_t bottom = std::min(top + w.kernel.h, x.size(2) + w.padding.h),
                                 right = std::min(left + w.kernel.w, x.size(3) + w.padding.w);
              const std::int64_t inside = (std::min(bottom, x.size(2)) - std::max<std::int64_t>(top, 0)) *
                                          (std::min(right, x.size(3)) - std::max<std::int64_t>(left, 0));
              return mean(x, at, top, bottom, left, right, counts ? (bottom - top) * (right - left) : inside, o);
            })};
          },
          w.large));
    }
  op.refuses("scale", Kind::numeric, {"scale of -1"}, [] {
    op::quantized_avg_pool2d(ones({1, 1, 4, 4}, DType::uint8), 2, {.x = {-1, 0}});
  });
  return op;
}

Operator quantized_adaptive_avg_pool2d() {
  Operator op{.name = "quantized_adaptive_avg_pool2d"};
  const op::QuantizedAveragePoolOptions o{.x = {0.03, 0}, .result = {0.01, 20}};
  for (const auto& [shape, out] : {std::pair{Shape{2, 20, 7, 7}, Pair(1)}, std::pair{Shape{1, 70, 5, 9}, Pair(1)},
                                   std::pair{Shape{1, 16, 7, 9}, Pair(3, 2)}, std::pair{Shape{2, 8, 6, 6}, Pair(6)},
                                   std::pair{Shape{8, 512, 14, 14}, Pair(1)}, std::pair{Shape{0, 8, 6, 6}, Pair(2)}})
    op.samples.push_back(sample(
        message(shape, " to ", out.h, 'x', out.w), shape,
        [o, out = out](const std::vector<Tensor>& in) {
          return std::vector{op::quantized_adaptive_avg_pool2d(in[0], out, o)};
        },
        [o, out = out](const std::vector<Array>& in) {
          const Array& x = in[0];
          Array y(Shape{x.size(0), x.size(1), out.h, out.w});
          std::int64_t i = 0;
          const auto begin = [](std::int64_t k, std::int64_t size, std::int64_t parts) { return k * size / parts; };
          const auto end = [](std::int64_t k, std::int64_t size, std::int64_t parts) {
            return ((k + 1) * size + parts - 1) / parts;
          };
          for_each_position(y.shape, [&](const Shape& at) {
            const std::int64_t top = begin(at[2], x.size(2), out.h), bottom = end(at[2], x.size(2), out.h),
                               left = begin(at[3], x.size(3), out.w), right = end(at[3], x.size(3), out.w);
            y[i++] = mean(x, at, top, bottom, left, right, (bottom - top) * (right - left), o);
          });
          return std::vector{y};
        },
        element_count(shape) > 100000));
  op.refuses("output 0", Kind::shape, {"0x1"}, [] {
    op::quantized_adaptive_avg_pool2d(ones({1, 1, 4, 4}, DType::uint8), {0, 1}, {});
  });
  return op;
}

}  // namespace

std::vector<Operator> quantized_pooling_cases() {
  return {quantized_max_pool2d(), quantized_avg_pool2d(), quantized_adaptive_avg_pool2d()};
}

}  // namespace tern::testing

// Pooling by averages: over windows, which count their padding or not, and over planes cut into equal parts.

#include "operators/windows.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Array averaged(const Array& x, const Window& window, bool count_include_pad) {
  Array y = output_of(x, window);
  const std::int64_t H = x.size(2), W = x.size(3);
  for_each_window(x, window, y, [&](double& out, std::int64_t plane, std::int64_t top, std::int64_t left) {
    double sum = 0;
    std::int64_t inside = 0, padded = 0;
    for (std::int64_t h = top; h < top + window.kernel.h; ++h)
      for (std::int64_t w = left; w < left + window.kernel.w; ++w) {
        if (h < H + window.end_padding().h && w < W + window.end_padding().w) ++padded;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        ++inside;
        sum += x[(plane * H + h) * W + w];
      }
    out = sum / static_cast<double>(count_include_pad ? padded : inside);
  });
  return y;
}

Array adaptive(const Array& x, Pair output) {
  Array y({x.size(0), x.size(1), output.h, output.w});
  const std::int64_t H = x.size(2), W = x.size(3);
  std::int64_t next = 0;
  for (std::int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (std::int64_t i = 0; i < output.h; ++i)
      for (std::int64_t j = 0; j < output.w; ++j) {
        const std::int64_t top = i * H / output.h, bottom = ((i + 1) * H + output.h - 1) / output.h;
        const std::int64_t left = j * W / output.w, right = ((j + 1) * W + output.w - 1) / output.w;
        double sum = 0;
        for (std::int64_t h = top; h < bottom; ++h)
          for (std::int64_t w = left; w < right; ++w) sum += x[(plane * H + h) * W + w];
        y[next++] = sum / static_cast<double>((bottom - top) * (right - left));
      }
  return y;
}

Operator avg_pool2d() {
  Operator op{.name = "avg_pool2d"};
  const auto add = [&](const Window& window, bool include, bool large) {
    op.samples.push_back(
        {.name = message(window.name, " ", window.x, include ? "" : " without padding in the count"),
         .arguments = {uniform(window.x)},
         .call =
             [window, include](const std::vector<Tensor>& in) {
               return std::vector{op::avg_pool2d(in[0], window.kernel,
                                                 {.stride = window.stride,
                                                  .padding = window.padding,
                                                  .end_padding = window.end,
                                                  .ceil_mode = window.ceil_mode,
                                                  .count_include_pad = include})};
             },
         .reference = [window,
                       include](const std::vector<Array>& in) { return std::vector{averaged(in[0], window, include)}; },
         .terms = static_cast<double>(window.kernel.h * window.kernel.w),
         .gradient_terms = static_cast<double>(window.kernel.h * window.kernel.w),
         .large = large});
  };
  for (const Window& window : common_windows()) {
    add(window, true, false);
    if (window.padding.h > 0 || window.ceil_mode) add(window, false, false);
  }
  for (const Window& window : composed_windows())
    for (const bool include : {true, false}) add(window, include, false);
  add({"17x19", {1, 2, 23, 20}, {17, 19}, 1}, true, false);
  add({"large", {16, 20, 24, 24}, 2, 2}, true, true);
  add({"large, overlapping", {8, 16, 27, 27}, 3, 2, 1}, false, true);
  op.refuses("input of two dimensions", Kind::shape, {"[5,5]", "4"}, [] { op::avg_pool2d(ones({5, 5}), 2); });
  op.refuses("kernel beyond the image", Kind::shape, {"4", "3"}, [] { op::avg_pool2d(ones({1, 1, 3, 3}), 4); });
  op.refuses("padding beyond half the kernel", Kind::shape, {"padding", "half"}, [] {
    op::avg_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 2});
  });
  op.refuses("integers", Kind::dtype, {"int64"}, [] { op::avg_pool2d(ones({1, 1, 5, 5}, DType::int64), 2); });
  return op;
}

Operator adaptive_avg_pool2d() {
  Operator op{.name = "adaptive_avg_pool2d"};
  struct Use {
    Shape x;
    Pair output;
    bool large = false;
  };
  for (const Use& use :
       {Use{{1, 1, 1, 1}, 1}, Use{{2, 3, 6, 8}, 2}, Use{{2, 3, 7, 5}, {3, 2}}, Use{{1, 3, 5, 3}, 2},
        Use{{1, 2, 5, 7}, 1}, Use{{1, 2, 5, 7}, {5, 7}}, Use{{1, 2, 3, 4}, {6, 7}}, Use{{0, 2, 5, 5}, 2},
        Use{{2, 0, 5, 5}, 2}, Use{{1, 3, 13, 17}, {6, 6}}, Use{{2, 8, 7, 5}, {3, 2}}, Use{{1, 4, 3, 4}, {6, 7}},
        Use{{1, 8, 5, 7}, {5, 7}}, Use{{16, 16, 27, 31}, {7, 6}, true}})
    op.samples.push_back(
        {.name = message(use.x, " to ", use.output.h, "x", use.output.w),
         .arguments = {uniform(use.x)},
         .call = [output = use.output](
                     const std::vector<Tensor>& in) { return std::vector{op::adaptive_avg_pool2d(in[0], output)}; },
         .reference = [output =
                           use.output](const std::vector<Array>& in) { return std::vector{adaptive(in[0], output)}; },
         .terms = static_cast<double>(use.x[2] * use.x[3]),
         .gradient_terms = 9,
         .large = use.large});
  op.refuses("input of two dimensions", Kind::shape, {"[5,5]", "4"}, [] { op::adaptive_avg_pool2d(ones({5, 5}), 1); });
  op.refuses("output of nothing", Kind::shape, {"0"}, [] { op::adaptive_avg_pool2d(ones({1, 3, 5, 5}), 0); });
  op.refuses("empty plane", Kind::shape, {"[1,3,0,5]"}, [] { op::adaptive_avg_pool2d(ones({1, 3, 0, 5}), 1); });
  return op;
}

Operator global_avg_pool2d() {
  Operator op{.name = "global_avg_pool2d"};
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{2, 3, 5, 7}, Shape{3, 2, 1, 9}, Shape{0, 2, 3, 3},
                             Shape{1, 5, 33, 17}, Shape{2, 8, 5, 7}, Shape{3, 72, 7, 7}, Shape{4, 64, 31, 33}})
    op.samples.push_back(
        {.name = message(shape),
         .arguments = {uniform(shape)},
         .call = [](const std::vector<Tensor>& in) { return std::vector{op::global_avg_pool2d(in[0])}; },
         .reference = [](const std::vector<Array>& in) { return std::vector{adaptive(in[0], 1)}; },
         .terms = static_cast<double>(shape[2] * shape[3]),
         .large = element_count(shape) > 100000});
  // Integers, so that one lost element shows among thousands; 2^13 of them, so that the quotient is exact too.
  for (const Shape& shape : {Shape{1, 2, 64, 128}, Shape{2, 1, 128, 128}})
    op.samples.push_back(
        {.name = message(shape, " integers"),
         .arguments = {integers(shape)},
         .call = [](const std::vector<Tensor>& in) { return std::vector{op::global_avg_pool2d(in[0])}; },
         .reference = [](const std::vector<Array>& in) { return std::vector{adaptive(in[0], 1)}; },
         .exact = true,
         .terms = static_cast<double>(shape[2] * shape[3])});
  op.refuses(
      "input of two dimensions", Kind::shape, {"[3,5]"},
      [] {
        op::global_avg_pool2d(ones({3, 5}));
      },
      "adaptive_avg_pool2d");
  return op;
}

}  // namespace

std::vector<Operator> average_pooling_cases() { return {avg_pool2d(), adaptive_avg_pool2d(), global_avg_pool2d()}; }

}  // namespace tern::testing

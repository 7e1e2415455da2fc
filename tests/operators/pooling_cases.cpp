// Pooling: windows that overlap, hang over the edge, round up, dilate; ties and NaN.

#include <algorithm>
#include <limits>
#include <optional>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Window {
  const char* name;
  Shape x;
  Pair kernel;
  Pair stride, padding = 0, dilation = 1;
  bool ceil_mode = false;
  std::optional<Pair> end = {};
  Pair end_padding() const { return end.value_or(padding); }
};

std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                     std::int64_t end_padding, std::int64_t dilation, bool ceil_mode) {
  const std::int64_t room = size + padding + end_padding - dilation * (kernel - 1) - 1;
  std::int64_t count = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  while (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

// Calls body(output, plane, top, left) for every window; the top left corner may lie in the padding.
template <class Body>
void for_each_window(const Array& x, const Window& window, Array& y, Body body) {
  std::int64_t next = 0;
  for (std::int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (std::int64_t oh = 0; oh < y.size(2); ++oh)
      for (std::int64_t ow = 0; ow < y.size(3); ++ow)
        body(y[next++], plane, oh * window.stride.h - window.padding.h, ow * window.stride.w - window.padding.w);
}

Array output_of(const Array& x, const Window& window) {
  return Array({x.size(0), x.size(1),
                windows(x.size(2), window.kernel.h, window.stride.h, window.padding.h, window.end_padding().h,
                        window.dilation.h, window.ceil_mode),
                windows(x.size(3), window.kernel.w, window.stride.w, window.padding.w, window.end_padding().w,
                        window.dilation.w, window.ceil_mode)});
}

// The values and, in the planes, where they stand.
std::vector<Array> max_pooled(const Array& x, const Window& window) {
  Array y = output_of(x, window), places = y;
  const std::int64_t H = x.size(2), W = x.size(3);
  std::int64_t next = 0;
  for_each_window(x, window, y, [&](double& out, std::int64_t plane, std::int64_t top, std::int64_t left) {
    double& found = places[next++];
    out = -std::numeric_limits<double>::infinity();
    found = -1;
    for (std::int64_t kh = 0; kh < window.kernel.h; ++kh)
      for (std::int64_t kw = 0; kw < window.kernel.w; ++kw) {
        const std::int64_t h = top + kh * window.dilation.h, w = left + kw * window.dilation.w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        const double value = x[(plane * H + h) * W + w];
        if (found >= 0 && (std::isnan(out) || !(value > out || std::isnan(value)))) continue;
        out = value;
        found = static_cast<double>(h * W + w);
      }
  });
  return {y, places};
}

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

const std::vector<Window>& common_windows() {
  static const std::vector<Window> all{
      {"one", {1, 1, 1, 1}, 1, 1},
      {"2x2", {2, 3, 6, 8}, 2, 2},
      {"2x2 with a rest", {2, 3, 7, 9}, 2, 2},
      {"3x3 stride 2", {2, 2, 9, 11}, 3, 2},
      {"3x3 stride 1 padded", {1, 2, 5, 6}, 3, 1, 1},
      {"3x3 stride 2 padded", {2, 2, 8, 7}, 3, 2, 1},
      {"ceil", {2, 2, 7, 8}, 3, 2, 0, 1, true},
      {"ceil, padded", {2, 2, 8, 7}, 3, 2, 1, 1, true},
      {"ceil, a window that would start in the padding", {1, 2, 5, 5}, 2, 2, 1, 1, true},
      {"stride beyond the kernel", {1, 2, 11, 10}, 2, 3},
      {"height unlike width", {2, 2, 9, 13}, {2, 5}, {1, 3}, {1, 2}},
      {"row", {1, 3, 4, 17}, {1, 4}, {1, 4}},
      {"column", {1, 3, 17, 4}, {4, 1}, {4, 1}},
      {"whole plane", {3, 2, 5, 7}, {5, 7}, 1},
      {"no images", {0, 3, 6, 6}, 2, 2},
      {"no channels", {2, 0, 6, 6}, 2, 2},
      {"LeNet's", {2, 20, 24, 24}, 2, 2},
      // Fours of channels, which kernels for channels last take at once.
      {"2x2 with a rest", {2, 4, 7, 9}, 2, 2},
      {"3x3 stride 2", {2, 12, 9, 11}, 3, 2},
      {"3x3 stride 2, ceil", {2, 8, 8, 10}, 3, 2, 0, 1, true},
      {"3x3 stride 2 padded", {2, 8, 8, 7}, 3, 2, 1},
      {"3x3 stride 1 padded", {2, 8, 6, 7}, 3, 1, 1},
      {"5x5 stride 3", {1, 8, 14, 14}, 5, 3},
      {"5x5 stride 3 padded, ceil", {1, 4, 9, 10}, 5, 3, 2, 1, true},
      {"height unlike width", {2, 8, 9, 13}, {2, 5}, {1, 3}, {1, 2}},
      {"whole plane", {2, 68, 7, 7}, 7, 1},
      {"wide", {1, 1, 4, 131}, 2, 2}};
  return all;
}

op::MaxPool2dOptions max_options(const Window& window) {
  return {.stride = window.stride,
          .padding = window.padding,
          .dilation = window.dilation,
          .end_padding = window.end,
          .ceil_mode = window.ceil_mode};
}

Sample max_sample(const Window& window, Argument argument, bool gradient, bool large = false) {
  return {.name = message(window.name, " ", window.x),
          .arguments = {argument},
          .call =
              [window](const std::vector<Tensor>& in) {
                return std::vector{op::max_pool2d(in[0], window.kernel, max_options(window))};
              },
          .reference = [window](const std::vector<Array>& in) { return std::vector{max_pooled(in[0], window)[0]}; },
          .gradient = gradient,
          .smooth = argument.fill == Argument::Fill::distinct,
          .exact = true,
          .gradient_terms = static_cast<double>(window.kernel.h * window.kernel.w),
          .large = large};
}

// Padding that the two ends of a side have unequally, and windows that kernels do not take whole.
const std::vector<Window>& composed_windows() {
  static const std::vector<Window> all{
      {"padded at the end", {2, 3, 7, 6}, 3, 2, 0, 1, false, Pair(1)},
      {"padded at the start", {2, 3, 7, 6}, 3, 2, 1, 1, false, Pair(0)},
      {"padded unequally", {1, 4, 9, 8}, {4, 5}, {2, 1}, {2, 1}, 1, false, Pair(1, 2)},
      {"padded at the end, ceil", {2, 2, 8, 7}, 3, 2, 0, 1, true, Pair(1)},
      {"padded at the start, ceil", {1, 2, 6, 9}, 2, 3, 1, 1, true, Pair(0, 1)},
      {"padded at the end, a window that would start in it", {1, 2, 5, 5}, 2, 2, 0, 1, true, Pair(1)}};
  return all;
}

Operator max_pool2d() {
  Operator op{.name = "max_pool2d"};
  for (const Window& window : composed_windows()) op.samples.push_back(max_sample(window, distinct(window.x), true));
  for (const Window& window :
       {Window{"17x16", {1, 2, 21, 19}, {17, 16}, 2}, Window{"20x30 padded", {2, 1, 33, 40}, {20, 30}, 3, {5, 15}},
        Window{"3x90 dilated, padded unequally", {1, 1, 7, 190}, {3, 90}, {1, 5}, {1, 0}, 2, true, Pair(0, 4)}}) {
    op.samples.push_back(max_sample(window, distinct(window.x), true));
    Window ties = window;
    ties.name = "ties of many";
    op.samples.push_back(max_sample(ties, integers(window.x, 0, 2), true));
  }
  for (const Window& window : common_windows()) op.samples.push_back(max_sample(window, distinct(window.x), true));
  for (const Window& window :
       {Window{"dilated", {2, 2, 9, 9}, 3, 2, 1, 2}, Window{"dilated, ceil", {1, 2, 10, 11}, 2, 3, 1, 3, true},
        Window{"dilated", {2, 8, 9, 9}, 3, 2, 1, 2}, Window{"16x16", {1, 2, 18, 17}, 16, 1}})
    op.samples.push_back(max_sample(window, distinct(window.x), true));
  op.samples.push_back(max_sample({"ties", {2, 2, 6, 6}, 3, 1, 1}, integers({2, 2, 6, 6}, 0, 2), true));
  op.samples.push_back(
      max_sample({"NaN and infinities", {2, 1, 7, 5}, 2, 1, 1}, listed({2, 1, 7, 5}, special_values()), false));
  for (const Window& window :
       {Window{"3x3 stride 1 padded", {2, 4, 7, 5}, 3, 1, 1}, Window{"3x3 stride 2 padded", {2, 4, 8, 9}, 3, 2, 1},
        Window{"2x2", {1, 8, 6, 6}, 2, 2}}) {
    Window ties = window, special = window;
    ties.name = "ties", special.name = "NaN and infinities";
    op.samples.push_back(max_sample(ties, integers(window.x, 0, 2), true));
    op.samples.push_back(max_sample(special, listed(window.x, special_values()), false));
  }
  // Strides and widths that no vector takes: the first of equal ones wins there too.
  for (const Window& ties : {Window{"ties, stride 3", {2, 3, 10, 11}, 3, 3}, Window{"ties, narrow", {1, 3, 6, 5}, 3, 1},
                             Window{"ties, dilated", {2, 2, 11, 10}, 3, 3, 1, 2}})
    op.samples.push_back(max_sample(ties, integers(ties.x, 0, 2), true));
  op.samples.push_back(max_sample({"all -infinity", {1, 4, 4, 5}, 3, 1, 1}, listed({1, 4, 4, 5}, {-INFINITY}), false));
  op.samples.push_back(max_sample({"all -infinity", {1, 1, 4, 4}, 2, 2}, listed({1, 1, 4, 4}, {-INFINITY}), false));
  op.samples.push_back(max_sample({"large", {16, 20, 24, 24}, 2, 2}, distinct({16, 20, 24, 24}), true, true));
  op.samples.push_back(
      max_sample({"large, overlapping", {8, 16, 27, 27}, 3, 2, 1}, distinct({8, 16, 27, 27}), true, true));
  op.samples.push_back({.name = "stride left out",
                        .arguments = {distinct({1, 2, 7, 6})},
                        .call =
                            [](const std::vector<Tensor>& in) {
                              return std::vector{op::max_pool2d(in[0], {3, 2})};
                            },
                        .reference =
                            [](const std::vector<Array>& in) {
                              return std::vector{max_pooled(in[0], {"", {}, {3, 2}, {3, 2}})[0]};
                            },
                        .exact = true});
  op.invalid = {{"input of three dimensions",
                 Kind::shape,
                 {"[3,5,5]", "4"},
                 [] {
                   op::max_pool2d(ones({3, 5, 5}), 2);
                 }},
                {"kernel beyond the image",
                 Kind::shape,
                 {"4", "3"},
                 [] {
                   op::max_pool2d(ones({1, 1, 3, 3}), 4);
                 }},
                {"padding beyond half the kernel",
                 Kind::shape,
                 {"padding", "half"},
                 [] {
                   op::max_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 2});
                 }},
                {"side of more than 256",
                 Kind::shape,
                 {"256"},
                 [] {
                   op::max_pool2d(ones({1, 1, 2, 300}), {1, 257});
                 }},
                {"end padding beyond half the kernel",
                 Kind::shape,
                 {"padding 2x1", "half"},
                 [] {
                   op::max_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 1, .end_padding = Pair(2, 1)});
                 }},
                {"stride 0",
                 Kind::shape,
                 {"stride 0"},
                 [] {
                   op::max_pool2d(ones({1, 1, 5, 5}), 2, {.stride = Pair(0)});
                 }},
                {"kernel 0",
                 Kind::shape,
                 {"kernel 0"},
                 [] {
                   op::max_pool2d(ones({1, 1, 5, 5}), 0);
                 }},
                {"integers", Kind::dtype, {"int32"}, [] {
                   op::max_pool2d(ones({1, 1, 5, 5}, DType::int32), 2);
                 }}};
  return op;
}

Operator max_pool2d_with_indices() {
  Operator op{.name = "max_pool2d_with_indices"};
  const auto add = [&](const Window& window, const Argument& argument, const char* what = "") {
    op.samples.push_back({.name = message(window.name, " ", window.x, what),
                          .arguments = {argument},
                          .call =
                              [window](const std::vector<Tensor>& in) {
                                const auto [values, indices] =
                                    op::max_pool2d_with_indices(in[0], window.kernel, max_options(window));
                                return std::vector{values, indices.to(values.dtype())};
                              },
                          .reference = [window](const std::vector<Array>& in) { return max_pooled(in[0], window); },
                          .gradient = false,
                          .exact = true});
  };
  for (const Window& window : common_windows()) add(window, distinct(window.x));
  for (const Window& window : composed_windows()) {
    add(window, distinct(window.x));
    add(window, listed(window.x, {-INFINITY}), " all -infinity");
    add(window, integers(window.x, 0, 2), " ties");
  }
  for (const Window& window :
       {Window{"17x16", {1, 2, 21, 19}, {17, 16}, 2}, Window{"20x30 padded", {2, 1, 33, 40}, {20, 30}, 3, {5, 15}}}) {
    add(window, distinct(window.x));
    add(window, integers(window.x, 0, 2), " ties");
  }
  return op;
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
  op.invalid = {{"input of three dimensions",
                 Kind::shape,
                 {"[3,5,5]", "4"},
                 [] {
                   op::avg_pool2d(ones({3, 5, 5}), 2);
                 }},
                {"kernel beyond the image",
                 Kind::shape,
                 {"4", "3"},
                 [] {
                   op::avg_pool2d(ones({1, 1, 3, 3}), 4);
                 }},
                {"padding beyond half the kernel",
                 Kind::shape,
                 {"padding", "half"},
                 [] {
                   op::avg_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 2});
                 }},
                {"integers", Kind::dtype, {"int64"}, [] {
                   op::avg_pool2d(ones({1, 1, 5, 5}, DType::int64), 2);
                 }}};
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
  op.invalid = {{"input of three dimensions",
                 Kind::shape,
                 {"[3,5,5]", "4"},
                 [] {
                   op::adaptive_avg_pool2d(ones({3, 5, 5}), 1);
                 }},
                {"output of nothing",
                 Kind::shape,
                 {"0"},
                 [] {
                   op::adaptive_avg_pool2d(ones({1, 3, 5, 5}), 0);
                 }},
                {"empty plane", Kind::shape, {"[1,3,0,5]"}, [] {
                   op::adaptive_avg_pool2d(ones({1, 3, 0, 5}), 1);
                 }}};
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
  op.invalid = {{"input of two dimensions",
                 Kind::shape,
                 {"[3,5]"},
                 [] {
                   op::global_avg_pool2d(ones({3, 5}));
                 },
                 "adaptive_avg_pool2d"}};
  return op;
}

}  // namespace

std::vector<Operator> pooling_cases() {
  return {max_pool2d(), max_pool2d_with_indices(), avg_pool2d(), adaptive_avg_pool2d(), global_avg_pool2d()};
}

}  // namespace tern::testing

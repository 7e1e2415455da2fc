// Pooling by the largest: windows that overlap, hang over the edge, round up, dilate; ties and NaN.

#include <limits>

#include "operators/windows.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

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
  op.refuses("input of two dimensions", Kind::shape, {"[5,5]", "4"}, [] { op::max_pool2d(ones({5, 5}), 2); });
  op.refuses("kernel beyond the image", Kind::shape, {"4", "3"}, [] { op::max_pool2d(ones({1, 1, 3, 3}), 4); });
  op.refuses("padding beyond half the kernel", Kind::shape, {"padding", "half"}, [] {
    op::max_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 2});
  });
  op.refuses("side of more than 256", Kind::shape, {"256"}, [] { op::max_pool2d(ones({1, 1, 2, 300}), {1, 257}); });
  op.refuses("end padding beyond half the kernel", Kind::shape, {"padding 2x1", "half"}, [] {
    op::max_pool2d(ones({1, 1, 5, 5}), 3, {.padding = 1, .end_padding = Pair(2, 1)});
  });
  op.refuses("stride 0", Kind::shape, {"stride 0"}, [] { op::max_pool2d(ones({1, 1, 5, 5}), 2, {.stride = Pair(0)}); });
  op.refuses("kernel 0", Kind::shape, {"kernel 0"}, [] { op::max_pool2d(ones({1, 1, 5, 5}), 0); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::max_pool2d(ones({1, 1, 5, 5}, DType::int32), 2); });
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
  for (const Window& window :
       {Window{"3x3 stride 1 padded", {2, 20, 7, 5}, 3, 1, 1}, Window{"2x2", {1, 8, 6, 6}, 2, 2}})
    add(window, listed(window.x, special_values()), " NaN and infinities");
  return op;
}

}  // namespace

std::vector<Operator> pooling_cases() { return {max_pool2d(), max_pool2d_with_indices()}; }

}  // namespace tern::testing

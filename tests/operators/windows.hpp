#pragma once
// The windows of the pooling cases: they overlap, hang over the edge, round up, dilate.

#include <optional>
#include <vector>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {

struct Window {
  const char* name;
  Shape x;
  Pair kernel;
  Pair stride, padding = 0, dilation = 1;
  bool ceil_mode = false;
  std::optional<Pair> end = {};
  Pair end_padding() const { return end.value_or(padding); }
};

inline std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
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

inline Array output_of(const Array& x, const Window& window) {
  return Array({x.size(0), x.size(1),
                windows(x.size(2), window.kernel.h, window.stride.h, window.padding.h, window.end_padding().h,
                        window.dilation.h, window.ceil_mode),
                windows(x.size(3), window.kernel.w, window.stride.w, window.padding.w, window.end_padding().w,
                        window.dilation.w, window.ceil_mode)});
}

inline const std::vector<Window>& common_windows() {
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

// Padding that the two ends of a side have unequally, and windows that kernels do not take whole.
inline const std::vector<Window>& composed_windows() {
  static const std::vector<Window> all{
      {"padded at the end", {2, 3, 7, 6}, 3, 2, 0, 1, false, Pair(1)},
      {"padded at the start", {2, 3, 7, 6}, 3, 2, 1, 1, false, Pair(0)},
      {"padded unequally", {1, 4, 9, 8}, {4, 5}, {2, 1}, {2, 1}, 1, false, Pair(1, 2)},
      {"padded at the end, ceil", {2, 2, 8, 7}, 3, 2, 0, 1, true, Pair(1)},
      {"padded at the start, ceil", {1, 2, 6, 9}, 2, 3, 1, 1, true, Pair(0, 1)},
      {"padded at the end, a window that would start in it", {1, 2, 5, 5}, 2, 2, 0, 1, true, Pair(1)}};
  return all;
}

}  // namespace tern::testing

#include "vectorized/quantized/space_to_depth.hpp"

#include <algorithm>
#include <cstring>

#include "vectorized/cache.hpp"

namespace tern::vectorized::int8 {

namespace {

using kernels::Conv2d;

constexpr std::int64_t pixel = 4;  // bytes

std::int64_t unit(const Conv2d& s) { return s.stride_h * s.stride_w * pixel; }

/// One row of the image, or of padding if `row` is null, into its part of `width` units.
void row_to_depth(std::uint8_t* out, const std::uint8_t* row, std::uint8_t zero, const Conv2d& s, std::int64_t width) {
  const std::int64_t count = width * s.stride_w, left = std::min(s.pad_w, count);
  const std::int64_t inside = row == nullptr ? left : std::min(left + s.W, count);
  const auto place = [&](std::int64_t at) { return out + at / s.stride_w * unit(s) + at % s.stride_w * pixel; };
  for (std::int64_t at = 0; at < left; ++at) std::memset(place(at), zero, pixel);
  for (std::int64_t at = inside; at < count; ++at) std::memset(place(at), zero, pixel);
  // Four bytes of any pixel but the last ones are in the row; those of the next pixel meet zeros.
  const std::int64_t whole = std::max(left, inside - divide_up(pixel, s.C));
  std::int64_t at = left;
  for (; at < whole && at % s.stride_w != 0; ++at) std::memcpy(place(at), row + (at - left) * s.C, pixel);
  std::uint8_t* to = place(at);
  const std::uint8_t* from = row + (at - left) * s.C;
  for (; at + s.stride_w <= whole; at += s.stride_w, to += unit(s))
    for (std::int64_t j = 0; j < s.stride_w; ++j, from += s.C) std::memcpy(to + j * pixel, from, pixel);
  for (; at < inside; ++at) {
    std::memset(place(at), 0, pixel);
    std::memcpy(place(at), row + (at - left) * s.C, static_cast<std::size_t>(s.C));
  }
}

}  // namespace

bool takes_space_to_depth(const Conv2d& s) {
  return s.groups == 1 && s.C <= pixel && s.dilation_h == 1 && s.dilation_w == 1 && s.stride_w > 1 && s.KW > 1;
}

Conv2d space_to_depth(const Conv2d& s) {
  Conv2d own = s;
  own.C = unit(s);
  own.KH = divide_up(s.KH, s.stride_h);
  own.KW = divide_up(s.KW, s.stride_w);
  own.H = s.OH + own.KH - 1;
  own.W = s.OW + own.KW - 1;
  own.stride_h = own.stride_w = 1;
  own.pad_h = own.pad_w = 0;
  return own;
}

void weights_to_depth(std::int8_t* out, const std::int8_t* weight, const Conv2d& s) {
  const Conv2d own = space_to_depth(s);
  std::memset(out, 0, static_cast<std::size_t>(s.O * own.KH * own.KW * own.C));
  for (std::int64_t o = 0; o < s.O; ++o)
    for (std::int64_t kh = 0; kh < s.KH; ++kh)
      for (std::int64_t kw = 0; kw < s.KW; ++kw, weight += s.C) {
        const std::int64_t tap = (o * own.KH + kh / s.stride_h) * own.KW + kw / s.stride_w;
        const std::int64_t place = (kh % s.stride_h * s.stride_w + kw % s.stride_w) * pixel;
        std::memcpy(out + tap * own.C + place, weight, static_cast<std::size_t>(s.C));
      }
}

void rows_to_depth(std::uint8_t* out, const std::uint8_t* x, std::uint8_t zero, const Conv2d& s, std::int64_t n,
                   Range rows) {
  const std::int64_t width = space_to_depth(s).W;
  for (std::int64_t row = rows.first; row < rows.last; ++row, out += width * unit(s))
    for (std::int64_t i = 0; i < s.stride_h; ++i) {
      const std::int64_t h = row * s.stride_h + i - s.pad_h;
      const std::uint8_t* const from = h < 0 || h >= s.H ? nullptr : x + (n * s.H + h) * s.W * s.C;
      row_to_depth(out + i * s.stride_w * pixel, from, zero, s, width);
    }
}

}  // namespace tern::vectorized::int8

#pragma once

#include <algorithm>
#include <cmath>

#include "array.hpp"

namespace accelerator {

/// The value of one step of the 8-bit numbers, so that the largest is 127.
template <class Element>
float scale_of(std::int64_t count, Element element) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(element(i)));
  return largest > 0 ? largest / 127 : 1;
}

inline std::int8_t rounded(float value, float scale) {
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(value / scale), -127.0f, 127.0f));
}

/// y [rows, columns] = x [rows, inner] w [inner, columns] on the array: x with one scale, w with one scale per column,
/// both rounded to 8 bits, summed in 32. Elements of x and w are read through functions of (row, column).
template <class X, class W, class Y>
void multiply_in_8_bits(SystolicArray& array, std::int64_t rows, std::int64_t inner, std::int64_t columns, X x, W w,
                        Y y) {
  const float x_scale = scale_of(rows * inner, [&](std::int64_t i) { return x(i / inner, i % inner); });
  std::vector<std::array<std::int8_t, side>> tile_rows(rows);
  std::vector<std::array<std::int32_t, side>> sums(rows);
  for (std::int64_t n = 0; n < columns; n += side) {
    const std::int64_t width = std::min<std::int64_t>(side, columns - n);
    std::array<float, side> w_scale{};
    for (std::int64_t j = 0; j < width; ++j) w_scale[j] = scale_of(inner, [&](std::int64_t k) { return w(k, n + j); });
    for (auto& sum : sums) sum.fill(0);
    for (std::int64_t k = 0; k < inner; k += side) {
      const std::int64_t depth = std::min<std::int64_t>(side, inner - k);
      SystolicArray::Tile weights{};
      for (std::int64_t i = 0; i < depth; ++i)
        for (std::int64_t j = 0; j < width; ++j) weights[i][j] = rounded(w(k + i, n + j), w_scale[j]);
      for (std::int64_t i = 0; i < rows; ++i) {
        tile_rows[i].fill(0);
        for (std::int64_t j = 0; j < depth; ++j) tile_rows[i][j] = rounded(x(i, k + j), x_scale);
      }
      array.load(weights);
      array.multiply(tile_rows, sums);
    }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < width; ++j) y(i, n + j, static_cast<float>(sums[i][j]) * x_scale * w_scale[j]);
  }
}

}  // namespace accelerator

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/image_codecs.hpp"

namespace tern::data {

/// Height and width of an image whose shorter side becomes `short_side`; the longer one is rounded down.
struct Extent {
  std::int64_t height = 0, width = 0;
};
Extent resized(std::int64_t height, std::int64_t width, std::int64_t short_side);

/// A square of the resized image, and the scaling of its pixels.
struct View {
  Extent whole;                    // the resized image
  std::int64_t top = 0, left = 0;  // of the square in it
  std::int64_t size = 0;           // of its sides
  bool mirrored = false;
  std::array<float, 3> scale{}, shift{};  // per channel: pixel in [0, 255] * scale + shift
};

/// Writes the square as [3, size, size]. Bilinear interpolation with antialiasing: each pixel is the weighted mean of
/// the pixels under a triangle whose half width is one pixel of the coarser image. Computes only what the square shows.
void resample(const DecodedImage& image, const View& view, std::span<float> to);

}  // namespace tern::data

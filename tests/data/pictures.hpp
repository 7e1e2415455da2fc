#pragma once
// Image files for tests, by the encoders of libjpeg and libpng.

#include <cstdint>
#include <string>
#include <vector>

namespace tern::testing {

/// Interleaved pixels; `channels` 1 is grey, 3 RGB, 4 CMYK in a JPEG and RGBA in a PNG, 2 grey with alpha in a PNG.
struct Picture {
  int width = 0, height = 0, channels = 3;
  std::vector<std::uint8_t> pixels;

  std::uint8_t at(int x, int y, int channel) const {
    return pixels[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
};

/// Smooth colours that differ from place to place: what JPEG keeps well.
Picture smooth_picture(int width, int height, int channels = 3);
/// All pixels of one colour.
Picture plain_picture(int width, int height, const std::vector<std::uint8_t>& colour);

struct JpegOptions {
  int quality = 95;
  bool progressive = false, adobe = true;
};
std::string jpeg_of(const Picture& picture, const JpegOptions& options = {});

struct PngOptions {
  bool interlaced = false, sixteen_bits = false;
};
std::string png_of(const Picture& picture, const PngOptions& options = {});
/// Index (x + y) % 4 into the four colours, two bits a pixel; with `transparent`, the first colour is.
std::string palette_png(int width, int height, const std::vector<std::vector<std::uint8_t>>& colours, bool transparent);

}  // namespace tern::testing

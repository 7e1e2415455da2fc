#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct ImageOptions {
  std::int64_t limit = 100'000'000;  ///< the largest number of pixels that a file may declare; more is a FileError
};

/// Whether this build has libjpeg and libpng (TERN_IMAGES). Without them, reading an image throws a FileError that
/// names the packages to install.
bool can_read_images();

/// Reads a JPEG or PNG, recognised by its first bytes, as uint8 [3, height, width] in RGB. Grey images get three equal
/// channels, CMYK becomes red = (255 - cyan)(255 - black) / 255 and so on, palettes are looked up, 16 bits are rounded
/// to 8, and transparency is dropped. EXIF orientation is not applied. Throws FileError that names the file if it is
/// missing, truncated, damaged, of another format, or larger than `options.limit`, which is checked before memory is
/// allocated.
Tensor read_image(const std::string& file, const ImageOptions& options = {});
/// The same for bytes in memory; `name` is the file name in messages.
Tensor parse_image(std::span<const std::byte> bytes, const std::string& name, const ImageOptions& options = {});

}  // namespace tern::data

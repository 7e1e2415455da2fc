#pragma once
// Decoders of image files, using libjpeg and libpng. Only image.cpp calls them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct DecodeRequest {
  std::int64_t limit = 0;       ///< the largest number of pixels that may be declared
  std::int64_t short_side = 0;  ///< pixels that the shorter side will be resized to; 0: full size
};

struct DecodedImage {
  Tensor pixels = {};                  ///< uint8 [height, width, 3]
  std::int64_t height = 0, width = 0;  ///< as declared
  int reduction = 1;  ///< declared pixels per pixel, in each direction; the last one of a row may cover fewer
};

/// Throws FileError if the declared size is empty or above the limit.
void check_declared_size(std::int64_t width, std::int64_t height, const std::string& name, std::int64_t limit);

/// Throws FileError if decoding an image that will be made smaller (`short_side`) would take more than 64 MiB plus
/// twice its file size. Photographs do not; files made to exhaust memory do.
void check_memory(std::uint64_t wanted, std::uint64_t file_bytes, const DecodeRequest& request,
                  const std::string& name);

DecodedImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request);
DecodedImage decode_png(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request);

/// Decodes either format, detected by the first bytes.
DecodedImage decode_image(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request);
DecodedImage decode_image_file(const std::string& file, const DecodeRequest& request);

/// Throws FileError in a build without the libraries; `who` begins the message.
void expect_image_libraries(const std::string& who);

}  // namespace tern::data

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "data/image_codecs.hpp"

namespace tern::data {

namespace {

/// libpng's reader of bytes in memory. It reports a failure by not returning from its handler, so every call must be
/// `guarded`: the handler jumps back there, over frames of libpng only. (Its simplified reader, which returns errors,
/// is not used: version 1.6.39 reads interlaced 16-bit images wrongly.)
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> bytes;
  std::size_t position = 0;
  std::jmp_buf back{};
  char reason[128] = "";

  explicit PngReader(std::span<const std::byte> all) : bytes(all) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png != nullptr) info = png_create_info_struct(png);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  /// False if a call of libpng's in `calls` failed, with `reason`. `calls` must have nothing to destroy.
  template <class Calls>
  bool guarded(const Calls& calls) {
    if (setjmp(back) != 0) return false;
    calls();
    return true;
  }

  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.bytes.size() - reader.position) png_error(png, "the file ends early");
    std::memcpy(to, reader.bytes.data() + reader.position, count);
    reader.position += count;
  }

 private:
  static void on_error(png_structp png, png_const_charp text) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader.reason, sizeof(reader.reason), "%s", text);
    std::longjmp(reader.back, 1);
  }
};

[[noreturn]] void fail(const PngReader& reader, const std::string& name) {
  if (std::strstr(reader.reason, "memory") != nullptr)
    throw OutOfMemory(message(name, ": no memory to decode the PNG"));
  throw FileError(message(name, ": the PNG data is damaged or was cut short (", reader.reason,
                          "); fetch it again, convert it, or remove it"));
}

}  // namespace

DecodedImage decode_png(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request) {
  PngReader reader(bytes);
  if (reader.info == nullptr) throw OutOfMemory(message(name, ": no memory to decode the PNG"));
  png_struct* const png = reader.png;
  const bool opened = reader.guarded([&] {
    png_set_read_fn(png, &reader, PngReader::read);
    // Skips profiles, texts and the like without unpacking them.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, reader.info);
  });
  if (!opened) fail(reader, name);
  DecodedImage image{.height = png_get_image_height(png, reader.info), .width = png_get_image_width(png, reader.info)};
  check_declared_size(image.width, image.height, name, request.limit);
  check_memory(static_cast<std::uint64_t>(image.width * image.height) * 3, bytes.size(), request, name);
  image.pixels = Tensor({image.height, image.width, 3}, DType::uint8);
  std::uint8_t* const to = image.pixels.write<std::uint8_t>().data();

  const bool complete = reader.guarded([&] {
    png_set_scale_16(png);
    png_set_expand(png);  // palettes, and grey of less than 8 bits
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, reader.info);
    const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
    if (png_get_rowbytes(png, reader.info) != stride) png_error(png, "unexpected format of pixels");
    for (int pass = 0; pass < passes; ++pass)
      for (std::int64_t y = 0; y < image.height; ++y)
        png_read_row(png, to + static_cast<std::size_t>(y) * stride, nullptr);
    png_read_end(png, nullptr);
  });
  if (!complete) fail(reader, name);
  return image;
}

}  // namespace tern::data

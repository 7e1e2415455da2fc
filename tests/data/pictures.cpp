#if TERN_TEST_IMAGES

#include "data/pictures.hpp"

#include <cstdio>
#include <cstdlib>
// libjpeg's header needs <cstdio>.
#include <jpeglib.h>
#include <png.h>

namespace tern::testing {

Picture smooth_picture(int width, int height, int channels) {
  Picture picture{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int values[4] = {40 + 160 * x / width, 40 + 160 * y / height, 200 - 80 * (x + y) / (width + height),
                             30 + 100 * x / width};
      for (int channel = 0; channel < channels; ++channel)
        picture.pixels.push_back(static_cast<std::uint8_t>(values[channel]));
    }
  return picture;
}

Picture plain_picture(int width, int height, const std::vector<std::uint8_t>& colour) {
  Picture picture{.width = width, .height = height, .channels = static_cast<int>(colour.size()), .pixels = {}};
  for (int i = 0; i < width * height; ++i) picture.pixels.insert(picture.pixels.end(), colour.begin(), colour.end());
  return picture;
}

std::string jpeg_of(const Picture& picture, const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // exits on an error: these pictures have none
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : picture.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (picture.channels == 4) info.write_Adobe_marker = options.adobe ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto row = const_cast<JSAMPROW>(picture.pixels.data() +
                                    info.next_scanline * info.image_width * static_cast<unsigned>(picture.channels));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

namespace {

/// libpng's writer into a string.
struct Writer {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string bytes;

  Writer() {
    png_set_write_fn(
        png, &bytes,
        [](png_structp writer, png_bytep from, std::size_t count) {
          static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<char*>(from), count);
        },
        nullptr);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }

  void write(std::vector<std::uint8_t>& rows, int height) {
    std::vector<png_bytep> starts;
    const std::size_t stride = rows.size() / static_cast<std::size_t>(height);
    for (int y = 0; y < height; ++y) starts.push_back(rows.data() + static_cast<std::size_t>(y) * stride);
    png_write_info(png, info);
    png_write_image(png, starts.data());
    png_write_end(png, info);
  }
};

}  // namespace

std::string png_of(const Picture& picture, const PngOptions& options) {
  constexpr int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                           PNG_COLOR_TYPE_RGB_ALPHA};
  Writer writer;
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), options.sixteen_bits ? 16 : 8, types[picture.channels],
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<std::uint8_t> rows;
  for (const std::uint8_t value : picture.pixels) {
    rows.push_back(value);
    if (options.sixteen_bits) rows.push_back(value);  // v * 257 is v in 16 bits
  }
  writer.write(rows, picture.height);
  return writer.bytes;
}

std::string palette_png(int width, int height, const std::vector<std::vector<std::uint8_t>>& colours,
                        bool transparent) {
  Writer writer;
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 2,
               PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (const auto& colour : colours) palette.push_back({colour[0], colour[1], colour[2]});
  png_set_PLTE(writer.png, writer.info, palette.data(), static_cast<int>(palette.size()));
  png_byte alpha = 0;
  if (transparent) png_set_tRNS(writer.png, writer.info, &alpha, 1, nullptr);
  const int stride = (width + 3) / 4;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(stride * height));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      rows[static_cast<std::size_t>(y * stride + x / 4)] |= static_cast<std::uint8_t>((x + y) % 4 << (6 - 2 * (x % 4)));
  writer.write(rows, height);
  return writer.bytes;
}

}  // namespace tern::testing

#endif

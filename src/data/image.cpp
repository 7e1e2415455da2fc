#include "tern/data/image.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "data/image_codecs.hpp"
#include "tern/io/file.hpp"

namespace tern::data {

namespace {

constexpr std::string_view jpeg_signature = "\xff\xd8\xff", png_signature = "\x89PNG\r\n\x1a\n";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Guesses the format of a file that is neither.
std::string guess(std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, const char*>, 8> formats{{{"GIF8", "a GIF"},
                                                                             {"BM", "a BMP"},
                                                                             {"RIFF", "a WebP"},
                                                                             {"II*", "a TIFF"},
                                                                             {"MM", "a TIFF"},
                                                                             {"\x1f\x8b", "packed by gzip"},
                                                                             {"PK", "a ZIP archive"},
                                                                             {"<", "a page of text"}}};
  for (const auto& [signature, what] : formats)
    if (bytes.starts_with(signature)) return message(", but seems to be ", what);
  return "";
}

bool is_image(std::string_view bytes) { return bytes.starts_with(jpeg_signature) || bytes.starts_with(png_signature); }

void expect_image(std::span<const std::byte> bytes, const std::string& name) {
  expects<FileError>(!bytes.empty(), name, ": expected an image, found an empty file; fetch it again or remove it");
  const std::string_view text = text_of(bytes);
  if (is_image(text)) return;
  throw FileError(
      message(name, ": is neither a JPEG nor a PNG", guess(text), "; convert it to one of the two, or remove it"));
}

}  // namespace

#if TERN_IMAGES_BUILT

bool can_read_images() { return true; }
void expect_image_libraries(const std::string&) {}

DecodedImage decode_image(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request) {
  expect_image(bytes, name);
  return text_of(bytes).starts_with(png_signature) ? decode_png(bytes, name, request)
                                                   : decode_jpeg(bytes, name, request);
}

#else

bool can_read_images() { return false; }

void expect_image_libraries(const std::string& who) {
  throw FileError(message(who,
                          ": this build of Tern reads no images; install libjpeg-dev and libpng-dev, and configure "
                          "and build it again (with TERN_IMAGES=ON they are required)"));
}

DecodedImage decode_image(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest&) {
  expect_image(bytes, name);
  expect_image_libraries(name);
  return {};
}

#endif

void check_declared_size(std::int64_t width, std::int64_t height, const std::string& name, std::int64_t limit) {
  expects<FileError>(width > 0 && height > 0, name, ": declares an image of ", width, " x ", height, " pixels");
  expects<FileError>(width <= limit / height, name, ": declares an image of ", width, " x ", height,
                     " pixels, more than the limit of ", limit, "; raise the option `limit` if that is right");
}

void check_memory(std::uint64_t wanted, std::uint64_t file_bytes, const DecodeRequest& request,
                  const std::string& name) {
  if (request.short_side == 0) return;
  const std::uint64_t most = 2 * file_bytes + (std::uint64_t{64} << 20);
  expects<FileError>(wanted <= most, name, ": would take ", wanted >> 20, " MiB to decode, but holds only ", file_bytes,
                     " bytes: no picture needs so little; make it smaller, or remove it");
}

DecodedImage decode_image_file(const std::string& file, const DecodeRequest& request) {
  const io::InputFile input(file);
  // The first bytes suffice to decide whether the rest is worth the memory.
  std::array<std::byte, 16> beginning{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(beginning.size(), input.size()));
  const auto found = std::span(beginning).first(count);
  input.read(0, found);
  expect_image(found, file);
  // No image within the limit takes more than eight bytes per pixel; the rest is for other content of the file.
  const std::uint64_t most = 8 * static_cast<std::uint64_t>(request.limit) + (std::uint64_t{16} << 20);
  expects<FileError>(input.size() <= most, file, ": holds ", input.size(),
                     " bytes, more than an image of the limit of ", request.limit,
                     " pixels may take; raise the option `limit` if that is right");
  Tensor bytes({static_cast<std::int64_t>(input.size())}, DType::uint8);
  input.read(0, std::as_writable_bytes(bytes.write<std::uint8_t>()));
  return decode_image(std::as_bytes(bytes.read<std::uint8_t>()), file, request);
}

namespace {

DecodeRequest whole_image(const ImageOptions& options) {
  expects<ShapeError>(options.limit > 0, "read_image: expected a limit of 1 pixel or more, found ", options.limit);
  return {.limit = options.limit};
}

/// Interleaved channels as planes, on the host in every mode.
Tensor planes_of(const DecodedImage& image) {
  const std::int64_t height = image.pixels.size(0), width = image.pixels.size(1);
  Tensor planes({3, height, width}, DType::uint8);
  const auto from = image.pixels.read<std::uint8_t>();
  const auto to = planes.write<std::uint8_t>();
  const std::size_t plane = to.size() / 3;
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel) to[channel * plane + i] = from[3 * i + channel];
  return planes;
}

}  // namespace

Tensor read_image(const std::string& file, const ImageOptions& options) {
  return planes_of(decode_image_file(file, whole_image(options)));
}

Tensor parse_image(std::span<const std::byte> bytes, const std::string& name, const ImageOptions& options) {
  return planes_of(decode_image(bytes, name, whole_image(options)));
}

}  // namespace tern::data

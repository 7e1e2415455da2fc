#include "tern/data/image.hpp"

#include <filesystem>

#include "data/pictures.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/memory/memory.hpp"
#include "tern/modes/device.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

#if TERN_TEST_IMAGES

namespace {

Tensor parsed(const std::string& bytes, const ImageOptions& options = {}) {
  return parse_image(as_bytes(bytes), "given", options);
}

std::string problem_of(const std::string& bytes, const ImageOptions& options = {}) {
  return said<FileError>([&] { parsed(bytes, options); });
}

/// The largest difference of a pixel of `image` from `expected(x, y, channel)`.
template <class Expected>
int difference(const Tensor& image, const Expected& expected) {
  const auto pixels = image.read<std::uint8_t>();
  const auto height = static_cast<int>(image.size(1)), width = static_cast<int>(image.size(2));
  int largest = 0;
  for (int channel = 0, i = 0; channel < 3; ++channel)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x, ++i)
        largest = std::max(largest, std::abs(pixels[static_cast<std::size_t>(i)] - expected(x, y, channel)));
  return largest;
}

}  // namespace

TEST_CASE("image: JPEG of every kind becomes RGB", "[data][image]") {
  const Picture rgb = smooth_picture(61, 37), grey = smooth_picture(61, 37, 1);
  for (const bool progressive : {false, true}) {
    const Tensor image = parsed(jpeg_of(rgb, {.progressive = progressive}));
    REQUIRE(image.shape() == Shape{3, 37, 61});
    REQUIRE(image.dtype() == DType::uint8);
    CHECK(difference(image, [&](int x, int y, int channel) { return rgb.at(x, y, channel); }) <= 6);
    CHECK(difference(parsed(jpeg_of(grey, {.progressive = progressive})),
                     [&](int x, int y, int) { return grey.at(x, y, 0); }) <= 3);
  }
}

TEST_CASE("image: CMYK is ink, which Adobe's files hold as its complement", "[data][image]") {
  // Samples of 55, 155, 205 and black 105.
  const Picture ink = plain_picture(16, 16, {55, 155, 205, 105});
  const auto light = [](int colour, int black) { return (colour * black + 127) / 255; };
  const int complement[] = {light(55, 105), light(155, 105), light(205, 105)};
  const int plain[] = {light(200, 150), light(100, 150), light(50, 150)};
  CHECK(difference(parsed(jpeg_of(ink)), [&](int, int, int channel) { return complement[channel]; }) <= 2);
  CHECK(difference(parsed(jpeg_of(ink, {.adobe = false})), [&](int, int, int channel) { return plain[channel]; }) <= 2);
}

TEST_CASE("image: PNG of every kind becomes RGB, bit for bit", "[data][image]") {
  for (const bool interlaced : {false, true})
    for (const bool sixteen_bits : {false, true})
      for (const int channels : {1, 2, 3, 4}) {
        INFO(interlaced << sixteen_bits << channels);
        const Picture picture = smooth_picture(29, 13, channels);
        const Tensor image = parsed(png_of(picture, {.interlaced = interlaced, .sixteen_bits = sixteen_bits}));
        REQUIRE(image.shape() == Shape{3, 13, 29});
        CHECK(difference(image, [&](int x, int y, int channel) {
                return picture.at(x, y, channels <= 2 ? 0 : channel);
              }) == 0);
      }
  const std::vector<std::vector<std::uint8_t>> colours{{250, 1, 2}, {3, 250, 4}, {5, 6, 250}, {7, 8, 9}};
  for (const bool transparent : {false, true})
    CHECK(difference(parsed(palette_png(10, 7, colours, transparent)), [&](int x, int y, int channel) {
            return colours[static_cast<std::size_t>((x + y) % 4)][static_cast<std::size_t>(channel)];
          }) == 0);
}

TEST_CASE("image: the bytes say what a file is, not its name", "[data][image]") {
  const TemporaryFolder folder;
  const Picture picture = plain_picture(5, 4, {10, 20, 30});
  write_bytes(folder / "a.jpeg", png_of(picture));
  CHECK(read_image(folder / "a.jpeg").read<std::uint8_t>()[20] == 20);
  CHECK_THAT(said<FileError>([&] { read_image(folder / "b.jpg"); }),
             ContainsSubstring((folder / "b.jpg") + ": cannot be opened"));
  CHECK_THAT(said<FileError>([&] { read_image(folder.path()); }), ContainsSubstring("found a folder"));
}

TEST_CASE("image: pixels stay on the host whatever the mode", "[data][image]") {
  const Device strict("sequential", {.transfers = Transfers::forbid});
  const Tensor image = parsed(png_of(plain_picture(3, 2, {1, 2, 3})));
  CHECK(image.storage().valid_in(host_memory()));
  CHECK(image.to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3});
}

TEST_CASE("image: every JPEG and PNG that was cut short is refused", "[data][image][hostile]") {
  const Picture picture = smooth_picture(64, 48);
  for (const std::string& good :
       {jpeg_of(picture), jpeg_of(picture, {.progressive = true}), jpeg_of(smooth_picture(40, 40, 4))}) {
    CHECK(parsed(good).numel() > 0);
    for (std::size_t length = 3; length < good.size(); ++length)
      REQUIRE_THAT(problem_of(good.substr(0, length)), ContainsSubstring("given: the JPEG data"));
  }
  for (const std::string& good :
       {png_of(picture), png_of(picture, {.interlaced = true}), png_of(smooth_picture(40, 40, 2))}) {
    CHECK(parsed(good).numel() > 0);
    for (std::size_t length = 8; length < good.size(); ++length)
      REQUIRE_THAT(problem_of(good.substr(0, length)),
                   ContainsSubstring("given: the PNG data is damaged or was cut short (the file ends early)"));
  }
  CHECK_THAT(problem_of(jpeg_of(picture).substr(0, 600)), ContainsSubstring("the file was cut short"));
}

TEST_CASE("image: what is no image is refused by what it seems to be", "[data][image][hostile]") {
  CHECK_THAT(problem_of(""), ContainsSubstring("given: expected an image, found an empty file"));
  CHECK_THAT(problem_of("GIF89a"), ContainsSubstring("is neither a JPEG nor a PNG, but seems to be a GIF; convert it"));
  CHECK_THAT(problem_of("RIFF0000WEBP"), ContainsSubstring("a WebP"));
  CHECK_THAT(problem_of("<html>404</html>"), ContainsSubstring("a page of text"));
  CHECK_THAT(problem_of(std::string(100, '\0')), ContainsSubstring("is neither a JPEG nor a PNG; convert it"));
  CHECK_THAT(problem_of("\x89PNG\r\n\x1a\n"), ContainsSubstring("the PNG data is damaged"));
  CHECK_THAT(problem_of("\xff\xd8\xff\xe0 and then a text that is no JPEG at all"), ContainsSubstring("the JPEG data"));
}

TEST_CASE("image: a damaged byte gives an image or a FileError, never anything else", "[data][image][hostile]") {
  for (const std::string& good :
       {jpeg_of(smooth_picture(33, 21)), jpeg_of(smooth_picture(33, 21), {.progressive = true}),
        png_of(smooth_picture(33, 21)), png_of(smooth_picture(33, 21, 4), {.interlaced = true})}) {
    int refused = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
      try {
        const Tensor image = parsed(bytes, {.limit = 100'000});
        REQUIRE(image.size(0) == 3);
      } catch (const FileError&) {
        ++refused;
      }
    }
    CHECK(refused > 20);
  }
}

TEST_CASE("image: a declared size above the limit is refused before memory is taken", "[data][image][hostile]") {
  // The size stands in the frame header of a JPEG, and in the first chunk of a PNG behind its checksum.
  std::string jpeg = jpeg_of(plain_picture(8, 8, {1, 2, 3}));
  const std::size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  for (std::size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\xf0';
  const std::string png = png_of(plain_picture(1000, 1000, {1, 2, 3}));
  CHECK(png.size() < 20'000);
  const std::size_t before = host_memory().statistics().in_use;
  host_memory().reset_peak();
  CHECK_THAT(problem_of(jpeg),
             ContainsSubstring("given: declares an image of 61680 x 61680 pixels, more than the limit of "
                               "100000000; raise the option `limit`"));
  CHECK_THAT(problem_of(png, {.limit = 999'999}), ContainsSubstring("declares an image of 1000 x 1000 pixels"));
  CHECK(host_memory().statistics().peak == before);
  CHECK(parsed(png, {.limit = 1'000'000}).numel() == 3'000'000);
  CHECK_THROWS_AS(parsed(png, {.limit = 0}), ShapeError);
  // A file that is larger than any image of the limit is not read.
  const TemporaryFolder folder;
  write_bytes(folder / "huge.png", png);
  std::filesystem::resize_file(folder / "huge.png", std::uintmax_t{1} << 40);
  CHECK_THAT(said<FileError>([&] { read_image(folder / "huge.png"); }),
             ContainsSubstring("holds 1099511627776 bytes, more than an image of the limit"));
  CHECK(host_memory().statistics().in_use == before);
}

TEST_CASE("image: memory that runs out is an OutOfMemory, and the next image is read", "[data][image]") {
  const std::string jpeg = jpeg_of(plain_picture(2000, 2000, {9, 9, 9}));
  host_memory().trim();
  host_memory().set_limit(host_memory().statistics().reserved + (1 << 20));
  CHECK_THAT(said<OutOfMemory>([&] { parsed(jpeg); }), ContainsSubstring("host memory"));
  host_memory().set_limit(0);
  CHECK(parsed(jpeg).shape() == Shape{3, 2000, 2000});
}

#else

TEST_CASE("image: a build without the libraries says so", "[data][image]") {
  CHECK(!can_read_images());
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "class");
  write_bytes(folder / "class/a.jpg", "\xff\xd8\xff");
  for (const std::string& problem : {said<FileError>([&] { read_image(folder / "class/a.jpg"); }),
                                     said<FileError>([&] { ImageFolder{folder.path()}; })})
    CHECK_THAT(problem, ContainsSubstring("this build of Tern reads no images; install libjpeg-dev and libpng-dev"));
}

#endif

}  // namespace tern::data

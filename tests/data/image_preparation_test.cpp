// What becomes of one image of a folder: resized, cropped, mirrored, in units of the deviation.

#include <cmath>
#include <filesystem>
#include <set>

#include "data/image_folders.hpp"
#include "support/catch.hpp"
#include "support/places.hpp"

#if TERN_TEST_IMAGES

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

TEST_CASE("image folder: the middle, or a random part, perhaps mirrored", "[data][image]") {
  const TemporaryFolder folder;
  // Each pixel says where it is, so that an example says where it was cut.
  Picture picture{.width = 40, .height = 30, .channels = 3, .pixels = {}};
  for (int y = 0; y < 30; ++y)
    for (int x = 0; x < 40; ++x) picture.pixels.insert(picture.pixels.end(), {std::uint8_t(x), std::uint8_t(y), 255});
  for (int i = 0; i < 50; ++i) write_file(message(folder.path(), "/class/", i, ".png"), png_of(picture));

  // 40 x 30 at a short side of 30 is itself: 11 places down, 21 across.
  ImageFolderOptions options = plain(20, 30);
  const auto middle = ImageFolder(folder.path(), options).prepare(folder / "class/0.png");
  CHECK(middle.shape() == Shape{1, 3, 20, 20});
  const auto pixels = middle.to_vector<float>();
  for (std::size_t y = 0; y < 20; ++y)
    for (std::size_t x = 0; x < 20; ++x) {
      REQUIRE(pixels[20 * y + x] * 255 == Approx(10 + x));
      REQUIRE(pixels[400 + 20 * y + x] * 255 == Approx(5 + y));
      REQUIRE(pixels[800 + 20 * y + x] == Approx(1));
    }

  options.crop = Crop::random;
  options.mirror = true;
  const DataLoader loader(ImageFolder(folder.path(), options), {.batch_size = 16, .seed = 1});
  std::set<int> lefts, tops;
  int mirrored = 0, count = 0;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch)
    for (const auto& example : examples_of(loader, epoch)) {
      const int first = static_cast<int>(std::lround(example[0] * 255));
      const int last = static_cast<int>(std::lround(example[19] * 255));
      REQUIRE(std::abs(first - last) == 19);
      lefts.insert(std::min(first, last));
      tops.insert(static_cast<int>(std::lround(example[400] * 255)));
      mirrored += first > last;
      ++count;
    }
  CHECK(lefts.size() == 21);
  CHECK(tops.size() == 11);
  CHECK(*lefts.rbegin() == 20);
  CHECK(*tops.rbegin() == 10);
  CHECK(std::abs(mirrored - count / 2) < 50);
}

// What does not divide evenly is rounded as torchvision has it: a half to the even number.
TEST_CASE("image folder: the middle of odd differences", "[data][image]") {
  const TemporaryFolder folder;
  for (int difference = 0; difference < 12; ++difference) {
    Picture picture{.width = 8 + difference, .height = 8, .channels = 3, .pixels = {}};
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < picture.width; ++x) picture.pixels.insert(picture.pixels.end(), {std::uint8_t(x), 0, 0});
    write_file(folder / "a.png", png_of(picture));
    const double half = difference / 2.0;
    INFO(difference);
    CHECK(std::lround(prepare_image(folder / "a.png", plain(8, 8)).to_vector<float>()[0] * 255) ==
          std::lround(std::nearbyint(half)));
  }
}

TEST_CASE("image folder: mean and deviation are per channel", "[data][image]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.png", png_of(plain_picture(9, 9, {51, 102, 204})));
  const ImageFolder set(folder.path(),
                        {.size = 4, .short_side = 5, .mean = {0.1f, 0.2f, 0.3f}, .deviation = {0.5f, 0.25f, 2}});
  const auto pixels = set.prepare(folder / "class/a.png").to_vector<float>();
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(pixels[i] == Approx((0.2 - 0.1) / 0.5));
    CHECK(pixels[16 + i] == Approx((0.4 - 0.2) / 0.25));
    CHECK(pixels[32 + i] == Approx((0.8 - 0.3) / 2));
  }
}

TEST_CASE("image folder: resizing keeps straight lines and the shape, whatever the format", "[data][image]") {
  const TemporaryFolder folder;
  struct Case {
    int width, height;
    std::int64_t short_side, size;
  };
  // Down, up, by an odd factor, tall; and so large that a JPEG is decoded at a half, a quarter and an eighth.
  for (const Case& c : {Case{64, 48, 24, 24}, Case{20, 16, 40, 36}, Case{50, 71, 31, 29}, Case{640, 480, 120, 96},
                        Case{640, 480, 60, 48}, Case{1601, 1203, 70, 64}}) {
    INFO(c.width << " x " << c.height << " to " << c.short_side);
    const Picture picture = smooth_picture(c.width, c.height);
    write_file(folder / "class/a.png", png_of(picture));
    write_file(folder / "class/a.jpg", jpeg_of(picture));
    const ImageFolder set(folder.path(), plain(c.size, c.short_side));
    const bool wide = c.width >= c.height;
    const double factor = static_cast<double>(std::min(c.width, c.height)) / static_cast<double>(c.short_side);
    const double left =
        (wide ? c.width / factor - static_cast<double>(c.size) : static_cast<double>(c.short_side - c.size)) / 2;
    const double top =
        (wide ? static_cast<double>(c.short_side - c.size) : c.height / factor - static_cast<double>(c.size)) / 2;
    for (const char* file : {"class/a.png", "class/a.jpg"}) {
      const auto pixels = set.prepare(folder / file).to_vector<float>();
      double largest = 0;
      for (std::int64_t y = 1; y < c.size - 1; ++y)
        for (std::int64_t x = 1; x < c.size - 1; ++x) {
          const double across = (left + static_cast<double>(x) + 0.5) * factor - 0.5;
          const double down = (top + static_cast<double>(y) + 0.5) * factor - 0.5;
          const auto i = static_cast<std::size_t>(y * c.size + x);
          largest = std::max(largest, std::abs(pixels[i] * 255 - 40 - 160 * across / c.width));
          largest = std::max(largest, std::abs(pixels[static_cast<std::size_t>(c.size * c.size) + i] * 255 - 40 -
                                               160 * down / c.height));
        }
      // Half a pixel of rounding in the crop, steps of whole bytes, and what JPEG leaves out.
      CHECK(largest < 5 + 160 * 0.5 / static_cast<double>(c.short_side));
    }
  }
}

TEST_CASE("image folder: fine stripes become grey, not other stripes", "[data][image]") {
  const TemporaryFolder folder;
  Picture picture{.width = 256, .height = 256, .channels = 3, .pixels = {}};
  for (int i = 0; i < 256 * 256 * 3; ++i) picture.pixels.push_back(i / 3 % 2 == 0 ? 0 : 255);
  write_file(folder / "class/a.png", png_of(picture));
  for (const std::int64_t short_side : {64, 50}) {
    const auto pixels =
        ImageFolder(folder.path(), plain(40, short_side)).prepare(folder / "class/a.png").to_vector<float>();
    for (const float pixel : pixels) REQUIRE(std::abs(pixel - 0.5f) < 0.06f);
  }
}

TEST_CASE("image folder: extreme shapes cost no more than what is shown", "[data][image][hostile]") {
  const TemporaryFolder folder;
  write_file(folder / "class/a.png", png_of(plain_picture(1, 5000, {10, 20, 30})));
  write_file(folder / "class/b.png", png_of(plain_picture(5000, 1, {10, 20, 30})));
  write_file(folder / "class/c.png", png_of(plain_picture(1, 1, {10, 20, 30})));
  const Dataset all = collect(ImageFolder(folder.path(), plain(224, 256)));
  for (const float value : all.images.slice(1, 0, 1).to_vector<float>()) REQUIRE(value * 255 == Approx(10));
  CHECK_THAT(said<FileError>([&] {
               ImageFolderOptions options = plain(224, 256);
               options.limit = 4999;
               collect(ImageFolder(folder.path(), options));
             }),
             ContainsSubstring("a.png: declares an image of 1 x 5000 pixels, more than the limit of 4999"));
}

TEST_CASE("image folder: real photographs, beside another decoder", "[data][image]") {
  const std::string folder = shared_data("imagenet-sample");
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: no photographs in " << folder);
    return;
  }
  // Pillow 13: open, convert("RGB"), resize by BILINEAR, crop the middle. Means over all pixels; the pixels at
  // (size / 3, size / 4), in the middle, and at the left end of the last line.
  struct Reference {
    std::int64_t index, short_side, size;
    double means[3];
    int pixels[3][3];
  };
  const Reference references[] = {
      {0, 256, 224, {123.16, 122.08, 97.40}, {{90, 101, 93}, {219, 178, 60}, {65, 80, 77}}},
      {0, 112, 96, {124.39, 122.87, 97.55}, {{92, 103, 95}, {223, 183, 64}, {63, 78, 75}}},
      {207, 256, 224, {111.64, 113.65, 60.17}, {{38, 26, 14}, {73, 76, 67}, {150, 170, 81}}},
      {207, 112, 96, {111.51, 113.07, 60.22}, {{26, 25, 14}, {62, 65, 56}, {130, 150, 56}}},
      {512, 256, 224, {169.52, 166.03, 162.99}, {{191, 186, 180}, {67, 67, 65}, {189, 186, 193}}},
      {512, 112, 96, {169.20, 165.70, 162.54}, {{190, 185, 179}, {94, 95, 92}, {188, 186, 191}}},
      {777, 256, 224, {184.58, 176.89, 176.36}, {{254, 186, 201}, {243, 241, 242}, {96, 96, 88}}},
      {777, 112, 96, {185.02, 177.07, 176.61}, {{247, 185, 198}, {247, 246, 246}, {84, 81, 75}}},
      {999, 256, 224, {188.42, 183.77, 171.26}, {{205, 198, 182}, {248, 245, 240}, {88, 82, 48}}},
      {999, 112, 96, {189.62, 184.96, 172.41}, {{206, 199, 183}, {250, 247, 242}, {119, 112, 91}}},
  };
  for (const Reference& reference : references) {
    const ImageFolder set(folder, plain(reference.size, reference.short_side));
    REQUIRE(set.size() == 1000);
    REQUIRE(set.classes() == 1000);
    const std::string file = set.file(reference.index);
    INFO(file << " at " << reference.short_side);
    const auto pixels = set.prepare(file).to_vector<float>();
    const std::int64_t size = reference.size, plane = size * size;
    const std::int64_t places[] = {size / 4 * size + size / 3, size / 2 * size + size / 2, (size - 1) * size};
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      double sum = 0;
      for (std::int64_t i = 0; i < plane; ++i) sum += pixels[static_cast<std::size_t>(channel * plane + i)] * 255;
      CHECK(std::abs(sum / static_cast<double>(plane) - reference.means[channel]) < 0.1);
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::abs(pixels[static_cast<std::size_t>(channel * plane + places[i])] * 255 -
                       static_cast<float>(reference.pixels[i][channel])) < 1.1f);
    }
  }

  // Every photograph can be read, by threads, in the order of its class.
  const ImageFolder small(folder, {.size = 32, .short_side = 36, .crop = Crop::random, .mirror = true});
  std::int64_t next = 0;
  double sum = 0, squares = 0;
  for (const Batch& batch : DataLoader(small, {.batch_size = 64, .shuffle = false, .workers = 2}).epoch(0)) {
    for (const std::int64_t label : batch.labels.to_vector<std::int64_t>()) REQUIRE(label == next++);
    for (const float value : batch.images.to_vector<float>()) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  }
  REQUIRE(next == 1000);
  const double count = 1000. * 3 * 32 * 32;
  CHECK(std::abs(sum / count) < 0.1);  // the mean and deviation of ImageNet fit
  CHECK(std::abs(squares / count - 1) < 0.3);
}

}  // namespace tern::data

#endif

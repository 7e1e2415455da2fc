#include "tern/data/augment.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/summary.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/shape.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;

namespace {

/// Images whose elements all differ.
Tensor numbered(const Shape& shape, DType dtype = DType::float32) {
  return arange(0, static_cast<double>(element_count(shape)), 1, dtype).reshape(shape);
}

std::int64_t mirrored(std::int64_t position, std::int64_t size) {
  if (position < 0) position = -position;
  return position >= size ? 2 * (size - 1) - position : position;
}

/// What the class says in words, one element at a time.
std::vector<double> expected(const Tensor& images, const Tensor& drawn) {
  const std::vector<double> from = images.values(), how = drawn.values();
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  std::vector<double> result;
  for (std::int64_t n = 0; n < images.size(0); ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
          const double* own = &how[static_cast<std::size_t>(n * Augment::numbers())];
          const std::int64_t row = mirrored(y + static_cast<std::int64_t>(own[0]), height);
          const std::int64_t across = own[2] != 0 ? width - 1 - x : x;
          const std::int64_t column = mirrored(across + static_cast<std::int64_t>(own[1]), width);
          result.push_back(from[static_cast<std::size_t>(((n * channels + c) * height + row) * width + column)]);
        }
  return result;
}

}  // namespace

TEST_CASE("augment: images are moved and mirrored as drawn, in every mode", "[data][augment]") {
  const Augment augment{{.shift = 3, .mirror = true, .seed = 5}};
  const Tensor drawn = augment.draw(2, arange(0, 40));
  for (const Shape& shape : {Shape{40, 3, 8, 6}, Shape{40, 1, 4, 4}})
    for (const DType dtype : {DType::float32, DType::float64, DType::int64}) {
      const Tensor images = numbered(shape, dtype);
      const std::vector<double> wanted = expected(images, drawn);
      for (const std::string& mode : testing::available_modes()) {
        INFO(mode);
        const Device device(mode);
        const Tensor changed = augment(images, drawn);
        CHECK(changed.dtype() == dtype);
        CHECK(changed.values() == wanted);
        Step step([&](const Tensor& x, const Tensor& how) { return augment(x, how); });
        for (int i = 0; i < 3; ++i) CHECK(step(images, drawn).values() == wanted);
      }
    }
}

TEST_CASE("augment: what happens to an example depends on seed, epoch and its number alone", "[data][augment]") {
  const Augment augment{{.shift = 4, .mirror = true, .seed = 9}};
  const Tensor all = augment.draw(3, arange(0, 1000));
  const Tensor some = augment.draw(3, tensor<std::int64_t>({700, 3, 999}));
  CHECK(some.values() == operators::index_select(all, 0, tensor<std::int64_t>({700, 3, 999})).values());
  CHECK(augment.draw(4, arange(0, 1000)).values() != all.values());
  CHECK(Augment({.shift = 4, .mirror = true, .seed = 8}).draw(3, arange(0, 1000)).values() != all.values());
  // Values that stay the same from version to version.
  CHECK(augment.draw(0, arange(0, 3)).slice(1, 0, 3).values() == std::vector<double>{3, 4, 1, -3, -3, 1, 1, 1, 0});
}

TEST_CASE("augment: every shift as often as the others, half of the images mirrored", "[data][augment]") {
  const Augment augment{{.shift = 2, .mirror = true}};
  constexpr std::int64_t count = 20000;
  const std::vector<double> drawn = augment.draw(0, arange(0, count)).values();
  for (std::size_t column = 0; column < 2; ++column) {
    std::map<double, int> often;
    for (std::size_t i = column; i < drawn.size(); i += Augment::numbers()) ++often[drawn[i]];
    REQUIRE(often.size() == 5);
    for (const auto& [shift, times] : often) {
      CHECK(std::abs(shift) <= 2);
      CHECK(times == Approx(count / 5).epsilon(0.06));
    }
  }
  double mirrored = 0;
  for (std::size_t i = 2; i < drawn.size(); i += Augment::numbers()) mirrored += drawn[i];
  CHECK(mirrored == Approx(count / 2).epsilon(0.03));
}

TEST_CASE("augment: images are rotated between their pixels", "[data][augment]") {
  // A quarter of a turn is exact; the numbers are those of draw but for the angle.
  const Augment augment{{.rotation = 180}};
  const Tensor images = numbered({2, 2, 5, 5});
  const auto rotated = [&](double angle) {
    Tensor drawn = augment.draw(0, arange(0, 2));
    for (std::int64_t i = 0; i < 2; ++i) {
      drawn.slice(0, i, i + 1).slice(1, 3, 4).fill_(std::cos(angle));
      drawn.slice(0, i, i + 1).slice(1, 4, 5).fill_(std::sin(angle));
    }
    return augment(images, drawn);
  };
  const double quarter = std::acos(0.0);
  const Tensor once = rotated(quarter), back = operators::flip(images.transpose(2, 3), {3});
  for (std::size_t i = 0; i < 100; ++i) CHECK(once.values()[i] == Approx(back.values()[i]).margin(1e-4));
  CHECK(rotated(0).values() == images.values());
  // By 45 degrees the pixel above the middle comes from its upper left.
  const double part = std::sqrt(0.5);
  const std::vector<double> half = rotated(quarter / 2).values();
  CHECK(half[1 * 5 + 2] == Approx(5 * (2 - part) + 2 - part).margin(1e-3));
  // What is drawn lies within what was requested.
  const std::vector<double> drawn = Augment{{.rotation = 30}}.draw(1, arange(0, 500)).values();
  double least = 1, most = -1;
  for (std::size_t i = 4; i < drawn.size(); i += Augment::numbers()) {
    least = std::min(least, drawn[i]);
    most = std::max(most, drawn[i]);
    CHECK(drawn[i] * drawn[i] + drawn[i - 1] * drawn[i - 1] == Approx(1));
  }
  CHECK(least == Approx(-0.5).epsilon(0.05));
  CHECK(most == Approx(0.5).epsilon(0.05));
}

TEST_CASE("augment: light, contrast and colour are scaled", "[data][augment]") {
  const Tensor images = numbered({3, 3, 4, 4});
  const Augment bright{{.brightness = 0.5}}, contrast{{.contrast = 0.5}}, vivid{{.saturation = 0.5}};
  const std::vector<double> x = images.values();
  const auto drawn = [](const Augment& augment) { return augment.draw(0, arange(0, 3)); };
  const auto factor = [&](const Augment& augment, std::size_t image, std::size_t column) {
    return drawn(augment).values()[image * Augment::numbers() + column];
  };
  for (const std::string& mode : testing::available_modes()) {
    const Device device(mode);
    const std::vector<double> light = bright(images, drawn(bright)).values();
    const std::vector<double> far = contrast(images, drawn(contrast)).values();
    const std::vector<double> colour = vivid(images, drawn(vivid)).values();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t image = i / 48, pixel = i % 16;
      const double mean = 48.0 * static_cast<double>(image) + 23.5;
      const double grey =
          0.299 * x[image * 48 + pixel] + 0.587 * x[image * 48 + 16 + pixel] + 0.114 * x[image * 48 + 32 + pixel];
      CHECK(light[i] == Approx(x[i] * factor(bright, image, 5)));
      CHECK(far[i] == Approx(mean + (x[i] - mean) * factor(contrast, image, 6)));
      CHECK(colour[i] == Approx(grey + (x[i] - grey) * factor(vivid, image, 7)));
    }
  }
  CHECK(factor(bright, 0, 5) != factor(bright, 1, 5));
  // Bytes stay bytes.
  const Tensor bytes = full({3, 3, 2, 2}, 250, DType::uint8);
  for (const double value : bright(bytes, drawn(bright)).values()) {
    CHECK(value <= 255);
    CHECK(value == std::floor(value));
  }
  CHECK_THAT(said<ShapeError>([&] { vivid(zeros({3, 1, 4, 4}), drawn(vivid)); }), ContainsSubstring("1 channels"));
}

TEST_CASE("augment: images that are normalised are coloured and covered as they were", "[data][augment]") {
  Generator generator(8);
  const Tensor images = rand({4, 3, 6, 5}, generator);
  data::AugmentOptions options{.shift = 1, .brightness = 0.4, .contrast = 0.3, .saturation = 0.5, .cutout = 3};
  options.cover = 0.25;
  const data::Augment plain(options);
  const Tensor drawn = plain.draw(2, arange(0, 4));
  options.mean = {0.5, 0.4, 0.3};
  options.deviation = {0.2, 0.25, 0.3};
  const data::Augment normalized(options);
  const Tensor mean = tensor({0.5f, 0.4f, 0.3f}, {1, 3, 1, 1}), deviation = tensor({0.2f, 0.25f, 0.3f}, {1, 3, 1, 1});
  const Tensor found = normalized((images - mean) / deviation, drawn) * deviation + mean;
  const Tensor expected = plain(images, drawn);
  CHECK(operators::allclose(found, expected, 0, 1e-6));
  CHECK_FALSE(operators::allclose(found, plain((images - mean) / deviation, drawn) * deviation + mean, 0, 1e-3));
  options.mean.pop_back();
  CHECK_THROWS_AS(data::Augment(options), ShapeError);
}

TEST_CASE("augment: a square is covered", "[data][augment]") {
  const Augment augment{{.cutout = 4, .cover = 7, .seed = 1}};
  for (const DType dtype : {DType::float32, DType::uint8}) {
    const Tensor images = ones({200, 2, 9, 9}, dtype);
    const Tensor covered = augment(images, augment.draw(0, arange(0, 200)));
    CHECK(covered.dtype() == dtype);
    int largest = 0;
    for (const Tensor& image : covered) {
      const std::vector<double> values = image.values();
      const auto count = std::count(values.begin(), values.end(), 7.0);
      CHECK(count >= 2 * 2 * 2);
      CHECK(count <= 2 * 4 * 4);
      CHECK(std::count(values.begin(), values.end(), 1.0) == 162 - count);
      CHECK(std::equal(values.begin(), values.begin() + 81, values.begin() + 81));  // in all channels
      largest += count == 32;
    }
    CHECK(largest > 20);
  }
}

TEST_CASE("augment: two images and their labels are mixed", "[data][augment]") {
  const Augment augment{{.mix = 0.4, .seed = 3}};
  const Tensor images = numbered({3, 1, 2, 2}), labels = tensor<std::int64_t>({4, 0, 1});
  const Tensor drawn = augment.draw(0, arange(0, 3));
  const std::vector<double> how = drawn.values();
  const auto [x, shares] = augment.mixed(images, labels, 5, drawn);
  CHECK(shares.shape() == Shape{3, 5});
  for (std::size_t i = 0; i < 3; ++i) {
    const double own = how[i * Augment::numbers() + 10];
    for (std::size_t j = 0; j < 4; ++j)
      CHECK(x.values()[4 * i + j] ==
            Approx(own * images.values()[4 * i + j] + (1 - own) * images.values()[4 * (2 - i) + j]));
    double sum = 0;
    for (std::size_t j = 0; j < 5; ++j) sum += shares.values()[5 * i + j];
    CHECK(sum == Approx(1));
    CHECK(shares.values()[5 * i + static_cast<std::size_t>(labels.values()[i])] == Approx(i == 1 ? 1 : own));
  }
  // Beta(a, a): mean 1/2, variance 1 / (4 (2a + 1)).
  for (const double alpha : {0.2, 1.0, 2.0}) {
    const std::vector<double> many = Augment{{.mix = alpha}}.draw(0, arange(0, 20000)).values();
    double sum = 0, squares = 0;
    for (std::size_t i = 10; i < many.size(); i += Augment::numbers()) {
      sum += many[i];
      squares += (many[i] - 0.5) * (many[i] - 0.5);
    }
    CHECK(sum / 20000 == Approx(0.5).margin(0.01));
    CHECK(squares / 20000 == Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.03));
  }
}

TEST_CASE("augment: nothing requested is nothing done", "[data][augment]") {
  const Tensor images = numbered({2, 1, 3, 3});
  const Augment none;
  CHECK(none(images, none.draw(0, arange(0, 2))).values() == images.values());
  const Augment mirror{{.mirror = true}};
  CHECK(mirror(zeros({0, 3, 4, 4}), mirror.draw(0, arange(0, 0))).shape() == Shape{0, 3, 4, 4});
}

TEST_CASE("augment: what does not fit is said", "[data][augment]") {
  const Augment augment{{.shift = 4}};
  const Tensor drawn = augment.draw(0, arange(0, 2));
  CHECK_THAT(said<ShapeError>([&] {
               augment(zeros({2, 3, 4, 9}), drawn);
             }),
             ContainsSubstring("images of 4x9 cannot be moved by 4 pixels"));
  CHECK_THAT(said<ShapeError>([&] {
               augment(zeros({3, 3, 9, 9}), drawn);
             }),
             ContainsSubstring("3 images, and numbers [2,11], expected [3,11]"));
  CHECK_THAT(said<ShapeError>([&] { augment(zeros({3, 9, 9}), drawn); }), ContainsSubstring("images are [3,9,9]"));
  CHECK_THROWS_AS(Augment({.shift = -1}), ShapeError);
  CHECK_THROWS_AS(Augment({.cutout = -1}), ShapeError);
  CHECK_THROWS_AS(Augment({.rotation = 181}), NumericError);
  CHECK_THROWS_AS(Augment({.contrast = 1.5}), NumericError);
  CHECK_THROWS_AS(Augment({.mix = 3}), NumericError);
  const Augment turning{{.rotation = 10}};
  CHECK_THROWS_AS(turning(zeros({1, 1, 4, 4}, DType::int64), turning.draw(0, arange(0, 1))), DTypeError);
}

}  // namespace tern::data

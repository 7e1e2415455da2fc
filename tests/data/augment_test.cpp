#include "tern/data/augment.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/summary.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/indexing.hpp"
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
  CHECK(augment.draw(0, arange(0, 3)).values() == std::vector<double>{3, 4, 1, -3, -3, 1, 1, 1, 0});
}

TEST_CASE("augment: every shift as often as the others, half of the images mirrored", "[data][augment]") {
  const Augment augment{{.shift = 2, .mirror = true}};
  constexpr std::int64_t count = 20000;
  const std::vector<double> drawn = augment.draw(0, arange(0, count)).values();
  for (std::size_t column = 0; column < 2; ++column) {
    std::map<double, int> often;
    for (std::size_t i = column; i < drawn.size(); i += 3) ++often[drawn[i]];
    REQUIRE(often.size() == 5);
    for (const auto& [shift, times] : often) {
      CHECK(std::abs(shift) <= 2);
      CHECK(times == Approx(count / 5).epsilon(0.06));
    }
  }
  double turned = 0;
  for (std::size_t i = 2; i < drawn.size(); i += 3) turned += drawn[i];
  CHECK(turned == Approx(count / 2).epsilon(0.03));
}

TEST_CASE("augment: nothing asked for is nothing done", "[data][augment]") {
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
             ContainsSubstring("3 images, and numbers [2,3], expected [3,3]"));
  CHECK_THAT(said<ShapeError>([&] { augment(zeros({3, 9, 9}), drawn); }), ContainsSubstring("images are [3,9,9]"));
  CHECK_THROWS_AS(Augment({.shift = -1}), ShapeError);
}

}  // namespace tern::data

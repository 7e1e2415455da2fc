#include "tern/data/synthetic_digits.hpp"

#include <array>
#include <set>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/sha256.hpp"

namespace tern::data {

namespace {

std::string sum_of(const Dataset& digits) { return io::sha256(std::as_bytes(digits.images.read<std::uint8_t>())); }

}  // namespace

TEST_CASE("synthetic digits: the same bits everywhere", "[data]") {
  const Dataset digits = synthetic_digits(500, {.seed = 1});
  CHECK(digits.synthetic);
  CHECK(digits.source == "synthetic digits, seed 1");
  CHECK(digits.images.shape() == Shape{500, 1, 28, 28});
  CHECK_NOTHROW(digits.check());
  CHECK(sum_of(digits) == "c952133c95320a0b6e725f75d8c56d50162adff1a14367d508f5dbf165c719d2");
  CHECK(sum_of(synthetic_digits(500, {.seed = 2})) != sum_of(digits));
}

TEST_CASE("synthetic digits: an image depends on its number alone", "[data]") {
  const Dataset all = synthetic_digits(60), part = synthetic_digits(25, {.first = 35});
  CHECK(all.images.slice(0, 35, 60).to_vector<std::uint8_t>() == part.images.to_vector<std::uint8_t>());
  CHECK(all.labels.slice(0, 35, 60).to_vector<std::int64_t>() == part.labels.to_vector<std::int64_t>());
  CHECK(synthetic_digits(0).size() == 0);
  CHECK_THROWS_AS(synthetic_digits(-1), ShapeError);
}

TEST_CASE("synthetic digits: classes are balanced and mixed, images differ and hold ink", "[data]") {
  const Dataset digits = synthetic_digits(1000);
  const auto labels = digits.labels.to_vector<std::int64_t>();
  std::array<int, 10> counts{};
  int ascending = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ++counts[static_cast<std::size_t>(labels[i])];
    if (i > 0 && labels[i] == (labels[i - 1] + 1) % 10) ++ascending;
  }
  for (const int count : counts) CHECK(count == 100);
  CHECK(ascending < 200);
  const auto pixels = digits.images.to_vector<std::uint8_t>();
  std::set<std::vector<std::uint8_t>> different;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::vector<std::uint8_t> image(pixels.begin() + static_cast<std::ptrdiff_t>(i * 784),
                                          pixels.begin() + static_cast<std::ptrdiff_t>((i + 1) * 784));
    double ink = 0;
    for (const std::uint8_t pixel : image) ink += pixel / 255.0;
    CHECK(ink > 15);
    CHECK(ink < 330);
    different.insert(image);
  }
  CHECK(different.size() == 1000);
}

TEST_CASE("synthetic digits: neither trivial nor hopeless for the nearest mean image", "[data]") {
  const Dataset train = synthetic_digits(3000), test = synthetic_digits(1000, {.first = 1 << 20});
  std::vector<double> means(10 * 784);
  const auto train_pixels = train.images.to_vector<std::uint8_t>(), test_pixels = test.images.to_vector<std::uint8_t>();
  const auto train_labels = train.labels.to_vector<std::int64_t>(), test_labels = test.labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < 3000; ++i)
    for (std::size_t p = 0; p < 784; ++p)
      means[static_cast<std::size_t>(train_labels[i]) * 784 + p] += train_pixels[i * 784 + p] / 300.0;
  int right = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    std::array<double, 10> distance{};
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t p = 0; p < 784; ++p) {
        const double d = means[c * 784 + p] - test_pixels[i * 784 + p];
        distance[c] += d * d;
      }
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == test_labels[i];
  }
  CHECK(right > 550);
  CHECK(right < 900);
}

}  // namespace tern::data

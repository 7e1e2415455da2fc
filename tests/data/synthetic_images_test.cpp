#include "tern/data/synthetic_images.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/data/loader.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"

namespace tern::data {

namespace {

std::vector<float> image_of(const SyntheticImages& images, std::int64_t index) {
  std::vector<float> pixels(static_cast<std::size_t>(element_count(images.shape())));
  REQUIRE(images.read(index, {}, pixels) == images.label(index));
  return pixels;
}

}  // namespace

TEST_CASE("synthetic images: an image is a function of the seed and its number", "[data]") {
  const SyntheticImages images({.count = 100, .size = 19, .classes = 7, .seed = 3});
  CHECK(images.size() == 100);
  CHECK(images.shape() == Shape{3, 19, 19});
  for (std::int64_t i = 0; i < 100; ++i) REQUIRE(images.label(i) == i % 7);
  const auto third = image_of(images, 3);
  CHECK(image_of(images, 3) == third);
  CHECK(image_of(SyntheticImages({.count = 5, .size = 19, .classes = 7, .seed = 3, .first = 2}), 1) == third);
  CHECK(image_of(images, 10) != third);  // of the same class
  CHECK(image_of(SyntheticImages({.size = 19, .classes = 7, .seed = 4}), 3) != third);
  // The loader's seed, epoch and workers change the order alone.
  const auto sum = [&](std::uint64_t seed, std::int64_t epoch, int workers) {
    double total = 0;
    for (const Batch& batch : DataLoader(images, {.batch_size = 8, .seed = seed, .workers = workers}).epoch(epoch))
      for (const float value : batch.images.to_vector<float>()) total += std::round(value * 1024);
    return total;
  };
  CHECK(sum(1, 0, 1) == sum(9, 4, 3));
}

TEST_CASE("synthetic images: pixels are about normal", "[data]") {
  double sum = 0, squares = 0;
  std::int64_t count = 0;
  const SyntheticImages images({.count = 64, .size = 32});
  for (std::int64_t i = 0; i < images.size(); ++i)
    for (const float value : image_of(images, i)) {
      REQUIRE(std::abs(value) < 5);
      sum += value;
      squares += static_cast<double>(value) * value;
      ++count;
    }
  const double mean = sum / static_cast<double>(count);
  CHECK(std::abs(mean) < 0.3);
  CHECK(std::abs(std::sqrt(squares / static_cast<double>(count) - mean * mean) - 1) < 0.3);
}

TEST_CASE("synthetic images: a small net tells the classes apart on images that it has not seen", "[data]") {
  const auto set = [](std::int64_t first, std::int64_t count) {
    return SyntheticImages({.count = count, .size = 16, .classes = 10, .first = first});
  };
  Generator generator(1);
  nn::Linear linear(3 * 16 * 16, 10, {}, generator);
  optim::SGD sgd{linear.parameters(), {.learning_rate = 0.01, .momentum = 0.9}};
  const DataLoader loader(set(0, 500), {.batch_size = 50});
  for (std::int64_t epoch = 0; epoch < 6; ++epoch)
    for (const Batch& batch : loader.epoch(epoch)) {
      const Tensor loss = operators::cross_entropy(linear(batch.images.flatten(1)), batch.labels);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
    }
  const Dataset unseen = collect(set(500, 200));
  CHECK(nn::accuracy(linear(unseen.images.flatten(1)), unseen.labels) > 0.95);
}

TEST_CASE("synthetic images: options are checked", "[data]") {
  CHECK_THROWS_AS(SyntheticImages({.count = -1}), ShapeError);
  CHECK_THROWS_AS(SyntheticImages({.size = 0}), ShapeError);
  CHECK_THROWS_AS(SyntheticImages({.classes = 0}), ShapeError);
  CHECK_THROWS_AS(SyntheticImages({.first = -1}), ShapeError);
  CHECK_THROWS_AS(SyntheticImages({.noise = -1}), NumericError);
  CHECK(SyntheticImages({.count = 0}).size() == 0);
  CHECK(image_of(SyntheticImages({.size = 1, .classes = 1}), 0).size() == 3);
}

}  // namespace tern::data

#include "tern/data/dataset.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using testing::said;

namespace {

Dataset small_set() {
  return {.images = arange(0, 12, 1, DType::uint8).reshape({3, 2, 2}),
          .labels = tensor<std::int64_t>({2, 0, 1}),
          .classes = 3,
          .source = "small"};
}

}  // namespace

TEST_CASE("dataset: take gives the first examples", "[data]") {
  const Dataset set = small_set();
  CHECK(set.size() == 3);
  CHECK(Dataset().size() == 0);
  const Dataset two = set.take(2);
  CHECK(two.images.shape() == Shape{2, 2, 2});
  CHECK(two.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 0});
  CHECK(two.source == "small");
  CHECK(set.take(0).size() == 0);
  CHECK(set.take(100).size() == 3);
  CHECK_THROWS_AS(set.take(-1), ShapeError);
}

TEST_CASE("dataset: tensors that do not fit are named", "[data]") {
  CHECK_NOTHROW(small_set().check());
  Dataset set = small_set();
  set.labels = tensor<std::int64_t>({2, 3, 1});
  CHECK_THAT(said<NumericError>([&] { set.check(); }),
             ContainsSubstring("small: label 3 at position 1 is outside [0, 3)"));
  set.labels = tensor<std::int64_t>({0, 1, -1});
  CHECK_THAT(said<NumericError>([&] { set.check(); }), ContainsSubstring("label -1 at position 2"));
  set.classes = 0;
  CHECK_THROWS_AS(set.check(), NumericError);
  set = small_set();
  set.labels = tensor<std::int64_t>({0, 1});
  CHECK_THAT(said<ShapeError>([&] { set.check(); }), ContainsSubstring("found [3,2,2] and [2]"));
  set.labels = tensor<std::uint8_t>({0, 1, 2});
  CHECK_THROWS_AS(set.check(), DTypeError);
  set = small_set();
  set.images = set.images.to(DType::float64);
  CHECK_THROWS_AS(set.check(), DTypeError);
  set.images = {};
  CHECK_THROWS_AS(set.check(), ShapeError);
}

TEST_CASE("to_float: scales bytes and leaves floats alone", "[data]") {
  const Tensor bytes = tensor<std::uint8_t>({0, 51, 255});
  CHECK(to_float(bytes).to_vector<float>() == std::vector<float>{0.f, 0.2f, 1.f});
  const auto scaled = to_float(bytes, 0.5, 0.25).to_vector<float>();
  CHECK(scaled == std::vector<float>{-2.f, static_cast<float>((0.2 - 0.5) / 0.25), 2.f});
  const Tensor floats = tensor({1.f, 2.f});
  CHECK(to_float(floats, 3, 4).is(floats));
  CHECK(to_float(bytes.slice(0, 0, 3, 2)).to_vector<float>() == std::vector<float>{0.f, 1.f});
  CHECK_THROWS_AS(to_float(tensor({1.0})), DTypeError);
  CHECK_THROWS_AS(to_float(bytes, 0, 0), NumericError);
}

TEST_CASE("split: holds out a share of every class, the same rows every time", "[data]") {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 100; ++i) labels.push_back(i < 60 ? 0 : i < 99 ? 1 : 2);
  const Dataset whole{.images = arange(0, 100, 1, DType::float32).reshape({100, 1}),
                      .labels = tensor(labels, {100}),
                      .classes = 3,
                      .source = "set"};
  const Split parts = split(whole, 0.2, 7);
  CHECK(parts.train.size() == 80);
  CHECK(parts.validation.size() == 20);
  const auto counted = [](const Dataset& set, std::int64_t label) {
    const auto all = set.labels.to_vector<std::int64_t>();
    return std::count(all.begin(), all.end(), label);
  };
  CHECK(counted(parts.validation, 0) == 12);
  CHECK(counted(parts.validation, 1) == 8);
  CHECK(counted(parts.validation, 2) == 0);  // its one example is needed for training
  // Every row is in one part, in the order of the whole, with its own label.
  std::vector<float> rows = parts.train.images.to_vector<float>();
  const auto held = parts.validation.images.to_vector<float>();
  CHECK(std::is_sorted(rows.begin(), rows.end()));
  CHECK(std::is_sorted(held.begin(), held.end()));
  for (std::size_t i = 0; i < held.size(); ++i)
    CHECK(parts.validation.labels.to_vector<std::int64_t>()[i] == labels[static_cast<std::size_t>(held[i])]);
  rows.insert(rows.end(), held.begin(), held.end());
  std::sort(rows.begin(), rows.end());
  CHECK(rows == whole.images.flatten().to_vector<float>());
  CHECK(split(whole, 0.2, 7).validation.images.to_vector<float>() == held);
  CHECK(split(whole, 0.2, 8).validation.images.to_vector<float>() != held);
  CHECK(split(whole, 0, 7).validation.size() == 0);
  CHECK(split(whole, 0.999, 7).train.size() == 3);
  CHECK_THROWS_AS(split(whole, 1, 7), NumericError);
  CHECK_THROWS_AS(split(whole, -0.1, 7), NumericError);
}

TEST_CASE("select: the examples at some rows, whatever the scope", "[data]") {
  const Dataset set{.images = tensor<std::uint8_t>({1, 2, 3}, {3, 1}),
                    .labels = tensor<std::int64_t>({0, 1, 0}),
                    .classes = 2,
                    .source = "set"};
  const Dataset part = set.select(tensor<std::int64_t>({2, 1}));
  CHECK(part.images.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{3, 2});
  CHECK(part.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  CHECK_THROWS_AS(set.select(tensor<std::int64_t>({3})), NumericError);
}

}  // namespace tern::data

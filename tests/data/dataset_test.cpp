#include "tern/data/dataset.hpp"

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/core/create.hpp"

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

}  // namespace tern::data

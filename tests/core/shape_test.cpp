#include "tern/core/shape.hpp"

#include <limits>

#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;

TEST_CASE("shape: holds up to eight sizes and prints them", "[core]") {
  CHECK(message(Shape{}) == "[]");
  CHECK(message(Shape{32, 3, 28, 28}) == "[32,3,28,28]");
  CHECK(Shape{2, 3} == Shape(std::vector<std::int64_t>{2, 3}));
  CHECK(!(Shape{2, 3} == Shape{2, 3, 1}));
  CHECK(!(Shape{2, 3} == Shape{3, 2}));
  CHECK(Shape::filled(3, 7) == Shape{7, 7, 7});
  CHECK(Shape{1, 2, 3, 4, 5, 6, 7, 8}.rank() == Shape::max_rank);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
}

TEST_CASE("shape: element counts and strides", "[core]") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({7}) == 7);
  CHECK(element_count({2, 0, 3}) == 0);
  CHECK(element_count({2, 3, 5}) == 30);
  CHECK(byte_count({2, 3}, 8) == 48);
  CHECK(contiguous_strides({2, 3, 5}) == Shape{15, 5, 1});
  CHECK(contiguous_strides({}) == Shape{});
  CHECK(contiguous_strides({2, 0, 3}) == Shape{3, 3, 1});
  CHECK(element_count({std::int64_t{1} << 31, 4}) == std::int64_t{1} << 33);
}

TEST_CASE("shape: what does not fit 64 bits is an error, never a wrong number", "[core]") {
  constexpr std::int64_t huge = std::int64_t{1} << 32;
  CHECK_THROWS_AS(element_count({huge, huge}), ShapeError);
  CHECK_THROWS_AS(element_count({huge, huge, 0}), ShapeError);
  CHECK_THROWS_AS(element_count({std::numeric_limits<std::int64_t>::max(), 2}), ShapeError);
  CHECK_THROWS_AS(byte_count({std::int64_t{1} << 61}, 8), ShapeError);
  if constexpr (sizeof(std::size_t) == 8)
    CHECK(byte_count({std::int64_t{1} << 59}, 8) == std::size_t{1} << 62);
  else
    CHECK_THROWS_AS(byte_count({std::int64_t{1} << 29}, 8), OutOfMemory);  // not 0, its lower 32 bits
  CHECK_THROWS_AS(element_count({3, -1}), ShapeError);
  CHECK_THROWS_AS(Tensor({huge, huge}), ShapeError);
  CHECK_THROWS_AS(Tensor({-3}), ShapeError);
}

TEST_CASE("shape: more memory than there is is OutOfMemory, and the process goes on", "[core]") {
  CHECK_THROWS_AS(Tensor({std::int64_t{1} << 50}).write<float>(), OutOfMemory);
  CHECK(ones({3}).to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("shape: broadcasting", "[core]") {
  CHECK(broadcast("op", {}, {}) == Shape{});
  CHECK(broadcast("op", {3, 1}, {1, 5}) == Shape{3, 5});
  CHECK(broadcast("op", {5}, {2, 3, 5}) == Shape{2, 3, 5});
  CHECK(broadcast("op", {0, 3}, {1, 1}) == Shape{0, 3});
  CHECK(broadcast("op", {1}, {0}) == Shape{0});
  CHECK_THROWS_AS(broadcast("op", {0}, {2}), ShapeError);
  CHECK_THROWS_WITH(broadcast("my_op", {2, 3}, {4}),
                    ContainsSubstring("my_op: ") && ContainsSubstring("[2,3] and [4]"));
}

TEST_CASE("shape: dimensions counted from the end", "[core]") {
  CHECK(normalize_dim("op", -1, 3) == 2);
  CHECK(normalize_dim("op", 0, 3) == 0);
  CHECK_THROWS_AS(normalize_dim("op", 3, 3), ShapeError);
  CHECK_THROWS_AS(normalize_dim("op", -4, 3), ShapeError);
  CHECK_THROWS_AS(normalize_dim("op", 0, 0), ShapeError);
}

// Numbers of one type that become numbers of another, and sizes at the ends of what 64 bits hold.

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                       least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;  // no double
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("numbers: integers keep 64 bits", "[core]") {
  for (const std::int64_t value : {odd, -odd, most, least, most - 1}) {
    CHECK(scalar(value).item<std::int64_t>() == value);
    CHECK(full({2}, value, DType::int64).to_vector<std::int64_t>() == std::vector{value, value});
    Tensor x = zeros({3}, DType::int64);
    x.fill_(value);
    CHECK(x.to_vector<std::int64_t>() == std::vector{value, value, value});
    x.slice(0, 1, 2).fill_(least);
    CHECK(x.to_vector<std::int64_t>() == std::vector{value, least, value});
    CHECK(op::pad(full({1}, 5, DType::int64), {{0, 1, 0}}, value).to_vector<std::int64_t>() ==
          std::vector{value, std::int64_t{5}});
  }
  CHECK(arange(odd, odd + 3).to_vector<std::int64_t>() == std::vector{odd, odd + 1, odd + 2});
  CHECK(arange(most - 2, most).to_vector<std::int64_t>() == std::vector{most - 2, most - 1});
  CHECK(arange(least, most, most).to_vector<std::int64_t>() == std::vector{least, std::int64_t{-1}, most - 1});
  CHECK(arange(most, least, least).to_vector<std::int64_t>() == std::vector{most, std::int64_t{-1}});
  CHECK(scalar<std::int64_t>(300).item<std::uint8_t>() == 255);
  CHECK(scalar(not_a_number).item<int>() == 0);
  CHECK(scalar(-1e30).item<std::int64_t>() == least);
  CHECK(scalar(0.5).item<bool>());
  CHECK(scalar(true).item<int>() == 1);
  CHECK(std::isnan(scalar(std::numeric_limits<float>::quiet_NaN()).item()));
}

TEST_CASE("numbers: conversions saturate alike wherever they happen", "[core]") {
  struct Case {
    double value;
    DType dtype;
    std::int64_t expected;
  };
  for (const auto& [value, dtype, expected] :
       {Case{300, DType::uint8, 255}, Case{-5, DType::uint8, 0}, Case{not_a_number, DType::uint8, 0},
        Case{not_a_number, DType::int32, 0}, Case{1e20, DType::int32, 2147483647},
        Case{-1e20, DType::int32, -2147483648}, Case{not_a_number, DType::int64, 0}, Case{1e30, DType::int64, most},
        Case{-infinity, DType::int64, least}, Case{2.9, DType::int64, 2}, Case{-2.9, DType::int32, -2},
        Case{not_a_number, DType::boolean, 1}, Case{0.25, DType::boolean, 1}}) {
    INFO(message(value, " to ", dtype));
    CHECK(full({}, value, dtype).item<std::int64_t>() == expected);
    CHECK(zeros({}, dtype).fill_(value).item<std::int64_t>() == expected);
    CHECK(op::pad(zeros({0}, dtype), {{0, 1, 0}}, value).to(DType::int64).item<std::int64_t>() == expected);
    for (const char* mode : {"sequential", "vectorized"}) {
      const Device device(mode);
      CHECK(scalar(value).to(dtype).item<std::int64_t>() == expected);
      CHECK(zeros({}, dtype).copy_(scalar(value)).item<std::int64_t>() == expected);
    }
  }
  // From wider integers too.
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device(mode);
    const Tensor wide = tensor<std::int64_t>({300, -1, 7, most, least});
    CHECK(wide.to(DType::uint8).values() == Values{255, 0, 7, 255, 0});
    CHECK(wide.to(DType::int32).values() == Values{300, -1, 7, 2147483647, -2147483648.0});
    CHECK(wide.to(DType::boolean).values() == Values{1, 1, 1, 1, 1});
    CHECK(tensor<std::int32_t>({-1, 256}).to(DType::uint8).values() == Values{0, 255});
  }
  CHECK(full({2}, 300, DType::uint8).values() == full({2}, 300).to(DType::uint8).values());
  CHECK(full({1}, 1e300, DType::float16).item() == infinity);
}

TEST_CASE("numbers: ranges that never end, or are too long, are refused", "[core]") {
  CHECK_THROWS_AS(arange(0, 1e300), ShapeError);
  CHECK_THROWS_AS(arange(0, 2e19), ShapeError);
  CHECK_THROWS_AS(arange(0, 10, not_a_number), ShapeError);
  CHECK_THROWS_AS(arange(0, infinity), ShapeError);
  CHECK_THROWS_AS(arange(0, 10, infinity), ShapeError);
  CHECK_THROWS_AS(arange(0, most), ShapeError);
  CHECK_THROWS_AS(arange(least, most), ShapeError);
  Generator generator(1);
  CHECK_THROWS_AS(randperm(most, generator), ShapeError);
  CHECK_THROWS_AS(randperm(-5, generator), ShapeError);
  CHECK_THROWS_AS(randperm(least, generator), ShapeError);
  CHECK(randperm(0, generator).numel() == 0);
  for (const Shape& shape :
       {Shape{0, std::int64_t{1} << 62, std::int64_t{1} << 62}, Shape{0, most, 3}, Shape{most, 2}}) {
    CHECK_THROWS_AS(zeros(shape), ShapeError);
    CHECK_THROWS_AS(element_count(shape), ShapeError);
    CHECK_THROWS_AS(zeros({0}).expand(shape), ShapeError);
  }
  CHECK(zeros({0, std::int64_t{1} << 60}).numel() == 0);
}

TEST_CASE("numbers: drawn integers are exact and stay in their range", "[core]") {
  Generator generator(3);
  for (const std::int64_t value : randint(odd, odd + 1, {20}, generator).to_vector<std::int64_t>()) CHECK(value == odd);
  for (const std::int64_t value : randint(most - 3, most, {50}, generator).to_vector<std::int64_t>())
    CHECK((value >= most - 3 && value < most));
  bool below = false, above = false;
  for (const std::int64_t value : randint(least, most, {50}, generator).to_vector<std::int64_t>())
    (value < 0 ? below : above) = true;
  CHECK((below && above));
  CHECK_THROWS_AS(randint(0, 70000, {4}, generator, DType::float16), NumericError);
  CHECK_THROWS_AS(randint(0, 258, {4}, generator, DType::uint8), NumericError);
  CHECK_THROWS_AS(randint(-1, 2, {4}, generator, DType::uint8), NumericError);
  CHECK_THROWS_AS(randint(0, odd + 1, {4}, generator, DType::float64), NumericError);
  CHECK_NOTHROW(randint(0, 256, {4}, generator, DType::uint8));
  CHECK_NOTHROW(randint(-2048, 2049, {4}, generator, DType::float16));
  CHECK_THROWS_AS(randint(3, 3, {4}, generator), ShapeError);
}

TEST_CASE("numbers: rand never returns its upper end", "[core]") {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64})
    for (const auto& [low, high] : {std::pair{0.0, 1.0}, {1.0, 2.0}, {-1.0, 0.0}, {-2.0, -1.0}, {255.0, 256.0}}) {
      Generator generator(5);
      INFO(message(dtype, " [", low, ", ", high, ")"));
      const Values drawn = rand({200000}, generator, low, high, dtype).values();
      CHECK(*std::ranges::max_element(drawn) < high);
      CHECK(*std::ranges::min_element(drawn) >= low);
    }
  Generator generator(5);
  CHECK(rand({2}, generator, 1, 1).values() == Values{1, 1});
  CHECK_THROWS_AS(rand({2}, generator, 1, 0), NumericError);
  CHECK_THROWS_AS(rand({2}, generator, 0, infinity), NumericError);
  CHECK_THROWS_AS(rand({2}, generator, -1e308, 1e308), NumericError);
  CHECK_THROWS_AS(rand({2}, generator, not_a_number, 1), NumericError);
  CHECK_THROWS_AS(rand({2}, generator, -3, 3, DType::int64), DTypeError);
  CHECK_THROWS_WITH(randn({2}, generator, 0, 1, DType::uint8), "randn: uint8 holds integers; use randint");
}

TEST_CASE("numbers: sizes and steps at the ends of 64 bits", "[core]") {
  const Tensor x = arange(0, 6, 1, DType::float32);
  CHECK(x.slice(0, 0, 5, most).values() == Values{0});
  CHECK(x.slice(0, 1, 5, most - 3).values() == Values{1});
  CHECK(x.slice(0, 2, 2, most).numel() == 0);
  CHECK(x.slice(0, least, 3).values() == Values{0, 1, 2});
  CHECK(x.slice(0, 4, most).values() == Values{4, 5});
  CHECK(x.slice(0, most, least, least).values() == Values{5});
  CHECK(x.slice(0, most, least, -2).values() == Values{5, 3, 1});
  CHECK_THROWS_AS(op::pad(x, {{0, most, 1}}), ShapeError);
  CHECK_THROWS_AS(op::pad(x, {{0, most / 2, 0}, {0, most / 2, 10}}), ShapeError);
  CHECK_THROWS_AS(op::split(x, {most, most, 8}, 0), ShapeError);
  CHECK_THROWS_AS(op::split(x, {most}, 0), ShapeError);
  const Tensor image = zeros({1, 1, 4, 4});
  CHECK_THROWS_AS(op::max_pool2d(image, 2, {.padding = most}), ShapeError);
  CHECK_THROWS_AS(op::avg_pool2d(image, 2, {.padding = Pair{1, most / 2 + 1}}), ShapeError);
  CHECK_THROWS_AS(op::avg_pool2d(image, most), ShapeError);
  CHECK_THROWS_AS(op::conv2d(image, zeros({1, 1, 2, 2}), {}, {.padding = most}), ShapeError);
  CHECK_THROWS_AS(op::adaptive_avg_pool2d(image, Pair{std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(op::var(x, {}, -1), NumericError);
  CHECK_THROWS_AS(op::var(x, {}, least), NumericError);
  CHECK_THROWS_AS(op::one_hot(zeros({4}, DType::int64), most), ShapeError);
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device(mode);
    CHECK(std::isnan(op::var(x, {}, most).item()));
    CHECK(std::isnan(op::var(x, {}, 6).item()));
    CHECK(op::var(x, {}, 5).item() == Approx(17.5));
  }
}

TEST_CASE("numbers: a view of a storage stays inside", "[core]") {
  const auto storage = std::make_shared<Storage>(24);
  const auto view = [&](const Shape& shape, const Shape& strides, std::int64_t offset) {
    return Tensor(storage, DType::float32, shape, strides, offset);
  };
  CHECK_NOTHROW(view({2, 3}, {3, 1}, 0));
  CHECK_NOTHROW(view({6}, {-1}, 5));
  CHECK_NOTHROW(view({0, 9}, {9, 9}, 70));
  CHECK_NOTHROW(view({}, {}, 5));
  CHECK_THROWS_AS(view({}, {}, 6), ShapeError);
  CHECK_THROWS_AS(view({2, 3}, {3, 1}, 1), ShapeError);
  CHECK_THROWS_AS(view({2, 3}, {4, 1}, 0), ShapeError);
  CHECK_THROWS_AS(view({6}, {-1}, 4), ShapeError);
  CHECK_THROWS_AS(view({2}, {1}, -1), ShapeError);
  CHECK_THROWS_AS(view({2, 3}, {1}, 0), ShapeError);
  CHECK_THROWS_AS(view({3, 3}, {most, most}, 0), ShapeError);
  CHECK_THROWS_AS(view({-1}, {1}, 0), ShapeError);
  CHECK_THROWS_AS(Tensor(nullptr, DType::float32, {1}, {1}, 0), Error);
}

TEST_CASE("numbers: nothing is written through a view whose elements share places", "[core]") {
  Tensor x = zeros({1, 3}).expand({4, 3});
  CHECK_THROWS_WITH(x.copy_(arange(0, 12).reshape({4, 3})), ContainsSubstring("copy_") && ContainsSubstring("[4,3]"));
  CHECK_THROWS_AS(x.fill_(1), ShapeError);
  CHECK_THROWS_AS(x.reshape({2, 2, 3}).slice(0, 0, 1).fill_(1), ShapeError);
  CHECK_THROWS_AS(x.transpose(0, 1).copy_(ones({3, 4})), ShapeError);
  CHECK(x.values() == Values(12, 0));
  CHECK_NOTHROW(x.slice(0, 1, 2).fill_(1));
  CHECK(x.values() == Values(12, 1));
  const auto storage = std::make_shared<Storage>(24);
  CHECK_THROWS_AS(Tensor(storage, DType::float32, {3, 3}, {1, 1}, 0).fill_(0), ShapeError);
  CHECK_NOTHROW(Tensor(storage, DType::float32, {6}, {-1}, 5).fill_(2));
}

TEST_CASE("numbers: a copy from the same elements in another order is a copy of what they were", "[core]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device(mode);
    for (const std::int64_t n : {2, 5, 33, 70}) {
      Tensor square = arange(0, n * n, 1, DType::float32).reshape({n, n});
      const Values expected = square.transpose(0, 1).values();
      square.copy_(square.transpose(0, 1));
      CHECK(square.values() == expected);
      Tensor line = arange(0, n, 1, DType::float32);
      line.slice(0, 1, n).copy_(line.slice(0, 0, n - 1));
      CHECK(line.values()[static_cast<std::size_t>(n - 1)] == static_cast<double>(n - 2));
    }
  }
}

TEST_CASE("numbers: a product with a number keeps the sign of 0", "[core]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device(mode);
    const Tensor x = full({5}, -0.0);
    for (const double value : (x * 2.0).values()) CHECK(std::signbit(value));
    for (const double value : (full({5}, 0.0) * -3.0).values()) CHECK(std::signbit(value));
    for (const double value : (full({5}, 0.0) * 3.0).values()) CHECK(!std::signbit(value));
    for (const double value : (x - 0.0).values()) CHECK(std::signbit(value));
    for (const double value : (x + 0.0).values()) CHECK(!std::signbit(value));
  }
}

TEST_CASE("numbers: bounds of clamp the wrong way round give the upper one", "[core]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device(mode);
    Tensor x = tensor<float>({-5, 0, 1, 2, 9, std::numeric_limits<float>::quiet_NaN()}).set_requires_grad();
    const Tensor y = op::clamp(x, 3, 1);
    const Values values = y.values();
    for (std::size_t i = 0; i < 5; ++i) CHECK(values[i] == 1);
    CHECK(std::isnan(values[5]));
    y.backward(ones({6}));
    CHECK(x.grad().values() == Values(6, 0));
    CHECK_THROWS_AS(op::clamp(x, not_a_number, 1), NumericError);
    CHECK_THROWS_AS(op::clamp(x, 0, not_a_number), NumericError);
    // At its bounds the gradient passes.
    Tensor edge = tensor<float>({-1, -0.5f, 0, 1, 1.5f}).set_requires_grad();
    op::clamp(edge, -0.5, 1).backward(full({5}, 3));
    CHECK(edge.grad().values() == Values{0, 3, 3, 3, 0});
  }
}

TEST_CASE("numbers: a tensor lives in any number of memories", "[core]") {
  static const char* const names[]{"plenty1", "plenty2", "plenty3", "plenty4", "plenty5", "plenty6"};
  static std::vector<std::unique_ptr<tern::testing::FakeMemory>> memories;
  const Tensor x = tensor<float>({1, 2, 3});
  for (const char* name : names) {
    Mode mode = tern::mode("sequential");
    mode.memory = memories.emplace_back(std::make_unique<tern::testing::FakeMemory>(name)).get();
    const Device device(register_mode(name, mode));
    CHECK((x + x).values() == Values{2, 4, 6});
    CHECK(x.storage().valid_in(*mode.memory));
  }
  for (const auto& memory : memories) CHECK(x.storage().valid_in(*memory));
  Tensor(x).fill_(4);
  for (const auto& memory : memories) CHECK(!x.storage().valid_in(*memory));
  CHECK(x.values() == Values{4, 4, 4});
}

TEST_CASE("numbers: a mode of your own runs once it is registered", "[core]") {
  const Mode mine = mode("sequential");
  CHECK_THROWS_WITH(Device(mine), ContainsSubstring("register_mode"));
  CHECK(current_scope().mode->name == "vectorized");
  CHECK_NOTHROW(Device(mode("sequential")));
  static_assert(!std::is_constructible_v<Device, Mode&&>);
}

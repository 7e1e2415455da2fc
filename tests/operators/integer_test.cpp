// What integers do where doubles could not say: they wrap around, and keep all 64 bits.

#include <limits>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

template <class T>
std::vector<T> elements(const Tensor& x) {
  const auto all = x.contiguous().read<T>();
  return {all.begin(), all.end()};
}

template <class T>
void check_wraps() {
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const Tensor x = tensor<T>({low, high, 3}), one = tensor<T>({1, 1, 1});
  CHECK(elements<T>(op::add(x, one)) == std::vector<T>{static_cast<T>(low + 1), low, 4});
  CHECK(elements<T>(op::sub(x, one)) == std::vector<T>{high, static_cast<T>(high - 1), 2});
  CHECK(elements<T>(op::mul(x, tensor<T>({2, 2, 5}))) == std::vector<T>{0, static_cast<T>(-2), 15});
  CHECK(elements<T>(op::neg(x)) == std::vector<T>{low, static_cast<T>(low + 1), static_cast<T>(-3)});
  CHECK(elements<T>(op::abs(x)) == std::vector<T>{low, high, 3});
}

}  // namespace

TEST_CASE("integers: wrap around and keep their bits", "[operators][integers][mode]") {
  for (const std::string& mode : available_modes()) {
    INFO(mode);
    const Device device{mode};
    check_wraps<std::int32_t>();
    check_wraps<std::int64_t>();
    const Tensor bytes = tensor<std::uint8_t>({250, 3, 0});
    CHECK(elements<std::uint8_t>(bytes + 10) == std::vector<std::uint8_t>{4, 13, 10});
    CHECK(elements<std::uint8_t>(op::neg(bytes)) == std::vector<std::uint8_t>{6, 253, 0});
    const Tensor there = tensor<std::int64_t>({0, 0, 1, 2});
    CHECK(elements<std::uint8_t>(op::scatter_add(bytes, 0, there, tensor<std::uint8_t>({9, 250, 253, 7}))) ==
          std::vector<std::uint8_t>{253, 0, 7});
    constexpr std::int32_t low = std::numeric_limits<std::int32_t>::min(), high = -(low + 1);
    CHECK(elements<std::int32_t>(op::scatter_add(tensor<std::int32_t>({high, low, 5}), 0, there,
                                                 tensor<std::int32_t>({high, 2, -1, -7}))) ==
          std::vector<std::int32_t>{0, high, -2});
    // The least number by -1 has no quotient; it wraps around, too.
    const Tensor ends = tensor<std::int64_t>({least, most, least, -7});
    const Tensor by = tensor<std::int64_t>({-1, -1, 2, 2});
    CHECK(elements<std::int64_t>(op::div(ends, by)) == std::vector<std::int64_t>{least, -most, least / 2, -3});
    CHECK(elements<std::int64_t>(op::fmod(ends, by)) == std::vector<std::int64_t>{0, 0, 0, -1});
    CHECK(elements<std::int64_t>(op::floor_divide(ends, by)) == std::vector<std::int64_t>{least, -most, least / 2, -4});
    CHECK(elements<std::int64_t>(op::remainder(ends, by)) == std::vector<std::int64_t>{0, 0, 0, 1});
    // Neighbours that are one double.
    const Tensor near = tensor<std::int64_t>({most - 1, most, most - 2, least});
    CHECK(op::max(near).item<std::int64_t>() == most);
    CHECK(op::argmax(near).item<std::int64_t>() == 1);
    CHECK(elements<std::int64_t>(op::argsort(near)) == std::vector<std::int64_t>{3, 2, 0, 1});
    CHECK(elements<std::int64_t>(op::argsort(near, 0, true)) == std::vector<std::int64_t>{1, 0, 2, 3});
    CHECK(elements<bool>(op::less(near, scalar(most))) == std::vector<bool>{true, false, true, true});
    CHECK(op::sum(near).item<std::int64_t>() ==
          static_cast<std::int64_t>(3ull * most - 3ull + static_cast<std::uint64_t>(least)));
    CHECK(op::prod(tensor<std::int64_t>({most, most})).item<std::int64_t>() == 1);
    // A sum of more than its elements' dtype holds.
    CHECK(op::sum(full({1000}, 3000000, DType::int32)).item<std::int64_t>() == 3000000000);
    CHECK(op::sum(ones({70000}, DType::boolean)).item<std::int64_t>() == 70000);
    CHECK(op::prod(full({5}, 255, DType::uint8)).item<std::int64_t>() == 1078203909375);
  }
}

TEST_CASE("integers: a number beside them is one of theirs", "[operators][integers]") {
  const Tensor bytes = ones({2}, DType::uint8), longs = ones({2}, DType::int64);
  CHECK_THROWS_AS(bytes + 256, DTypeError);
  CHECK_THROWS_AS(bytes - -1.0, DTypeError);
  CHECK_THROWS_AS(longs * 0.5, DTypeError);
  CHECK_THROWS_AS(longs + 0x1p63, DTypeError);
  CHECK((longs < std::numeric_limits<double>::quiet_NaN()).values() == std::vector<double>{0, 0});
  CHECK_THROWS_AS(longs + std::numeric_limits<double>::quiet_NaN(), DTypeError);
  CHECK_NOTHROW(longs + -0x1p63);
  CHECK_THROWS_AS(op::sub(ones({2}, DType::boolean), ones({2}, DType::boolean)), DTypeError);
}

TEST_CASE("integers: a mode without their tables leaves them to the reference", "[operators][integers]") {
  Mode mine = mode("vectorized");
  mine.int32.reset();
  mine.boolean.reset();
  register_mode("without integers", mine);
  const Device device{"without integers"};
  const Tensor x = tensor<std::int32_t>({1, 2, 3});
  CHECK(elements<std::int32_t>(x + x) == std::vector<std::int32_t>{2, 4, 6});
  CHECK(op::sum(x).item<std::int64_t>() == 6);
  CHECK(op::all(x > 0).item<bool>());
}

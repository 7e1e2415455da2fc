#include "tern/core/dtype.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "support/array.hpp"
#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using testing::stored;

namespace {

/// The value of sign, exponent and mantissa bits, by arithmetic alone.
double decoded(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits >> (mantissa_bits + exponent_bits) ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

template <class T>
T from_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// Every pattern decodes to its value and encodes back; between two neighbours, what is nearer wins, and the middle
/// goes to the even one.
template <class T>
void check_all_patterns(int exponent_bits, int mantissa_bits) {
  std::int64_t wrong = 0;
  const auto expect = [&](bool condition) { wrong += !condition; };
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double value = decoded(bits, exponent_bits, mantissa_bits);
    const auto as_float = static_cast<float>(from_bits<T>(bits));
    if (std::isnan(value)) {
      expect(std::isnan(as_float) && std::isnan(static_cast<float>(T(as_float))));
      continue;
    }
    expect(static_cast<double>(as_float) == value && std::signbit(as_float) == (bits >> 15 != 0));
    expect(T(as_float).bits == bits);
    // The next pattern of larger magnitude.
    const double next = decoded(bits + 1, exponent_bits, mantissa_bits);
    if (std::isinf(value) || std::isinf(next) || std::isnan(next)) continue;
    const auto middle = static_cast<float>((value + next) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    expect(T(middle).bits == even);
    expect(T(std::nextafter(middle, as_float)).bits == bits);
    expect(T(std::nextafter(middle, static_cast<float>(next))).bits == bits + 1);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("dtype: names and sizes", "[core]") {
  CHECK(name_of(DType::boolean) == "bool");
  CHECK(name_of(DType::bfloat16) == "bfloat16");
  CHECK(size_of(DType::float64) == 8);
  CHECK(size_of(DType::float16) == 2);
  CHECK(size_of(DType::boolean) == 1);
  CHECK(is_floating(DType::bfloat16));
  CHECK(!is_floating(DType::int32));
  CHECK(dtype_of<std::uint8_t> == DType::uint8);
}

TEST_CASE("dtype: bfloat16, all 65,536 patterns", "[core]") { check_all_patterns<BFloat16>(8, 7); }
TEST_CASE("dtype: float16, all 65,536 patterns", "[core]") { check_all_patterns<Float16>(5, 10); }

TEST_CASE("dtype: the edges of the small floats", "[core]") {
  CHECK(static_cast<float>(Float16(65504.0f)) == 65504.0f);
  CHECK(static_cast<float>(Float16(65519.0f)) == 65504.0f);
  CHECK(std::isinf(static_cast<float>(Float16(65520.0f))));
  CHECK(static_cast<float>(Float16(0x1p-25f)) == 0);
  CHECK(static_cast<float>(Float16(0x1.8p-25f)) == 0x1p-24f);
  CHECK(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
  CHECK(std::signbit(static_cast<float>(Float16(-0.0f))));
  // A NaN whose payload lies in the half that is cut off stays one.
  const auto quiet = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(static_cast<float>(BFloat16(quiet))));
  CHECK(std::isnan(static_cast<float>(Float16(quiet))));
}

TEST_CASE("dtype: cast of all float16 and bfloat16 values through every floating dtype", "[core]") {
  for (const DType small : {DType::float16, DType::bfloat16}) {
    Tensor all({65536}, small);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      if (small == DType::float16)
        all.write<Float16>()[bits] = from_bits<Float16>(bits);
      else
        all.write<BFloat16>()[bits] = from_bits<BFloat16>(bits);
    }
    const std::vector<double> values = all.values();
    for (const DType wide : {DType::float32, DType::float64}) {
      const Tensor back = all.to(wide).to(small);
      const std::vector<double> again = back.values();
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        wrong += !(values[i] == again[i] || (std::isnan(values[i]) && std::isnan(again[i])));
      INFO(message(small, " through ", wide));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("dtype: cast rules", "[core]") {
  const Tensor x = tensor<double>({1.9, -1.9, 1e10, -1e10, std::nan(""), 300, -1, 0});
  CHECK(x.to(DType::int32).values() == std::vector<double>{1, -1, 2147483647, -2147483648.0, 0, 300, -1, 0});
  CHECK(x.to(DType::uint8).values() == std::vector<double>{1, 0, 255, 0, 0, 255, 0, 0});
  CHECK(x.to(DType::boolean).values() == std::vector<double>{1, 1, 1, 1, 1, 1, 1, 0});
  CHECK(tensor<std::int32_t>({-1, 256, 300}).to(DType::uint8).values() == std::vector<double>{0, 255, 255});
  CHECK(tensor<std::int64_t>({std::int64_t{1} << 32}).to(DType::int32).values() == std::vector<double>{2147483647});
  CHECK(tensor<bool>({true, false}).to(DType::float16).values() == std::vector<double>{1, 0});
  CHECK(tensor<std::int64_t>({(std::int64_t{1} << 53) + 1}).to(DType::int64).to_vector<std::int64_t>()[0] ==
        (std::int64_t{1} << 53) + 1);
}

TEST_CASE("dtype: names, sizes and types of each", "[core]") {
  std::size_t count = 0;
  for_each_element_type([&]<class T>() {
    ++count;
    const DType dtype = dtype_of<T>;
    INFO(name_of(dtype));
    CHECK(size_of(dtype) == sizeof(T));
    CHECK(facts_of(dtype).dtype == dtype);
    CHECK(!facts_of(dtype).safetensors.empty());
    CHECK(with_type_of(dtype, []<class Visited>(Visited) { return std::is_same_v<T, Visited>; }));
    CHECK(is_floating(dtype) == !std::is_integral_v<T>);
    CHECK(kernels::computes<T> == is_floating(dtype));
    CHECK(zeros({2}, dtype).values() == std::vector<double>{0, 0});
  });
  CHECK(count == std::size(dtype_facts));
}

TEST_CASE("dtype: int8 is created, moved, converted and printed", "[core]") {
  const Tensor x = tensor<double>({-300, -128, -1.9, 0, 1, 127, 300, std::nan("")}).to(DType::int8);
  CHECK(x.values() == std::vector<double>{-128, -128, -1, 0, 1, 127, 127, 0});
  CHECK(x.slice(0, 2, 3).item() == -1);
  for (const DTypeFacts& facts : dtype_facts) {
    INFO(facts.name);
    const Tensor small = tensor<double>({0, 1, 0, 1}).to(facts.dtype);
    CHECK(small.to(DType::int8).to(facts.dtype).values() == small.values());
  }
  CHECK(x.to(DType::uint8).values() == std::vector<double>{0, 0, 0, 0, 1, 127, 127, 0});
  CHECK(tensor<std::int64_t>({1000, -1000}).to(DType::int8).values() == std::vector<double>{127, -128});
  CHECK(tensor<std::uint8_t>({127, 128, 255}).to(DType::int8).values() == std::vector<double>{127, 127, 127});
  CHECK(full({2}, -7, DType::int8).to_vector<std::int8_t>() == std::vector<std::int8_t>{-7, -7});
  CHECK(operators::cat({x.slice(0, 0, 1), x.slice(0, 5, 6)}, 0).values() == std::vector<double>{-128, 127});
  CHECK(x.reshape({2, 4}).transpose(0, 1).contiguous().values() ==
        std::vector<double>{-128, 1, -128, 127, -1, 127, 0, 0});
  CHECK(message(tensor<std::int8_t>({-3, 65})) == "int8 [2] in host\n[-3 65]");
  Device debug{"debug"};
  CHECK(x.to(DType::float32).to(DType::int8).values() == x.values());
}

TEST_CASE("dtype: int8 has no arithmetic", "[core]") {
  const Tensor x = ones({3}, DType::int8);
  CHECK_THROWS_AS(operators::add(x, x), DTypeError);
  CHECK_THROWS_AS(operators::mul(x, 2), DTypeError);
  CHECK_THROWS_AS(operators::less(x, x), DTypeError);
  CHECK_THROWS_AS(operators::sum(x), DTypeError);
  CHECK_THROWS_AS(operators::max(x), DTypeError);
  CHECK_THROWS_AS(operators::relu(x), DTypeError);
  CHECK_THROWS_AS(operators::argsort(x), DTypeError);
  CHECK_THROWS_AS(operators::neg(x), DTypeError);
  CHECK_THROWS_WITH(operators::add(x, x), "add: inputs are int8, which only stores; convert with to(...)");
}

// Elements that no tensor has: a wider dtype carries their values.

#include "onnx/narrow.hpp"

#include <cmath>
#include <limits>

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Model;
using test::node;
using Values = std::vector<double>;

constexpr std::int64_t int16 = 5, e4m3fn = 17, e4m3fnuz = 18, e5m2 = 19, e5m2fnuz = 20, uint4 = 21, int4 = 22,
                       float4 = 23, e8m0 = 24, uint2 = 25, int2 = 26;
constexpr double infinity = std::numeric_limits<double>::infinity();

Values cast(std::int64_t type, const Tensor& x, std::vector<onnx::AttributeProto> attributes = {}) {
  Model model(25);
  model.input("x", {std::to_string(x.numel())}, x.dtype()).output("y");
  attributes.push_back(attribute("to", type));
  const graph::Graph graph = model.add(node("Cast", {"x"}, {"y"}, std::move(attributes))).read();
  return graph.run({x})[0].values();
}

onnx::TensorProto proto(const std::string& name, std::int64_t type, std::int64_t count,
                        std::vector<std::int64_t> integers) {
  onnx::TensorProto made;
  made.name = name;
  made.type = type;
  made.dims = {count};
  made.integers = std::move(integers);
  return made;
}

}  // namespace

TEST_CASE("onnx: casts to float8 and float4 keep what the type has, and round to the even neighbour", "[onnx]") {
  for (const std::int64_t type : {e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, float4}) {
    INFO(onnx::name_of_element(type));
    const onnx::Narrow& narrow = *onnx::narrow_of(type);
    Values all;  // from 0 on, in ascending order
    for (unsigned bits = 0; bits < 1u << (narrow.bits - 1); ++bits)
      if (const double value = onnx::decoded(narrow, bits); std::isfinite(value)) all.push_back(value);
    REQUIRE(std::ranges::is_sorted(all));
    CHECK(all.back() == narrow.largest);
    Values numbers, expected;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const double sign : {1.0, -1.0}) {
        numbers.push_back(sign * all[i]);
        expected.push_back(sign * all[i]);
        if (i + 1 == all.size()) continue;
        const double middle = (all[i] + all[i + 1]) / 2;
        for (const double near : {middle, middle * (1 - 0x1p-40), middle * (1 + 0x1p-40)}) {
          numbers.push_back(sign * near);
          const bool up = near == middle ? i % 2 == 1 : near > middle;  // neighbours of even bits are the even ones
          expected.push_back(sign * all[up ? i + 1 : i]);
        }
      }
    CHECK(cast(type, tern::tensor(numbers, {std::ssize(numbers)})) == expected);
    const Values beyond =
        cast(type, tern::tensor({infinity, -infinity, 1e300, std::numeric_limits<double>::quiet_NaN()}));
    CHECK(beyond[0] == narrow.largest);
    CHECK(beyond[1] == -narrow.largest);
    CHECK(beyond[2] == narrow.largest);
    if (type == float4) continue;
    CHECK(std::isnan(beyond[3]));
    const Values open = cast(type, tern::tensor({infinity, -1e300}), {attribute("saturate", std::int64_t{0})});
    if (type == e5m2)
      CHECK(open == Values{infinity, -infinity});
    else
      CHECK((std::isnan(open[0]) && std::isnan(open[1])));
  }
}

TEST_CASE("onnx: casts to float8e8m0 give powers of two by their rule", "[onnx]") {
  const Tensor x = tern::tensor({1.0, 1.2, 1.5, 1.7, 0x1p-127, 0x1.8p127});
  CHECK(cast(e8m0, x) == Values{1, 2, 2, 2, 0x1p-127, 0x1p127});
  CHECK(cast(e8m0, x, {attribute("round_mode", std::string("down"))}) == Values{1, 1, 1, 1, 0x1p-127, 0x1p127});
  CHECK(cast(e8m0, x, {attribute("round_mode", std::string("nearest"))}) == Values{1, 1, 2, 2, 0x1p-127, 0x1p127});
  CHECK_THROWS_WITH(cast(e8m0, x, {attribute("round_mode", std::string("odd"))}),
                    Catch::ContainsSubstring("round_mode 'odd'") && Catch::ContainsSubstring("nearest"));
}

TEST_CASE("onnx: casts to integers of few bits lose the upper ones", "[onnx]") {
  const Tensor x = tern::tensor<std::int32_t>({-9, -8, -2, 1, 7, 8, 17, 40000});
  CHECK(cast(int4, x) == Values{7, -8, -2, 1, 7, -8, 1, 0});
  CHECK(cast(uint4, x) == Values{7, 8, 14, 1, 7, 8, 1, 0});
  CHECK(cast(int2, x) == Values{-1, 0, -2, 1, -1, 0, 1, 0});
  CHECK(cast(uint2, x) == Values{3, 0, 2, 1, 3, 0, 1, 0});
  CHECK(cast(int16, x) == Values{-9, -8, -2, 1, 7, 8, 17, -25536});
  CHECK(cast(int4, tern::tensor({-2.9F, 3.9F})) == Values{-2, 3});
}

TEST_CASE("onnx: weights of four bits are unpacked, and become float32 by their scales", "[onnx]") {
  Model model(21);
  model.input("x", {"1", "3"}).output("y").initializer("scale", full({}, 0.5));
  model.proto.graph.initializers.push_back(proto("w", int4, 3, {0x2f, 0x08}));  // -1, 2, -8
  model.add(node("DequantizeLinear", {"w", "scale"}, {"v"})).add(node("Mul", {"x", "v"}, {"y"}));
  CHECK(model.read().run({ones({1, 3})})[0].values() == Values{-0.5, 1, -4});

  Model computes(21);
  computes.input("x", {"1", "3"}).output("y");
  computes.proto.graph.initializers.push_back(proto("w", int4, 3, {0x2f, 0x08}));
  computes.add(node("Mul", {"x", "w"}, {"y"}));
  CHECK_THROWS_WITH(computes.read(), Catch::ContainsSubstring("computes with elements of int4") &&
                                         Catch::ContainsSubstring("Mul of 'y'") &&
                                         Catch::ContainsSubstring("cast them to float32"));
  computes.proto.graph.initializers[0].integers.push_back(0);
  CHECK_THROWS_AS(computes.read(), FileError);
  // Sizes whose bits overflow are not those of an empty tensor.
  for (const std::int64_t type : {int4, int16, e5m2}) {
    onnx::TensorProto huge = proto("w", type, std::int64_t{1} << 62, {});
    CHECK_THROWS_AS(onnx::to_tensor(huge, ""), FileError);
    huge.has_raw = true;
    CHECK_THROWS_AS(onnx::to_tensor(huge, ""), FileError);
  }
}

TEST_CASE("onnx: int16 wraps around in arithmetic", "[onnx]") {
  Model model(25);
  model.input("x", {"3"}, DType::int32).output("y").output("less");
  model.proto.graph.inputs[0].element = int16;
  model.add(node("Add", {"x", "x"}, {"y"})).add(node("Less", {"x", "y"}, {"less"}));
  const std::vector<Tensor> results = model.read().run({tern::tensor<std::int32_t>({30000, -30000, 5})});
  CHECK(results[0].values() == Values{-5536, 5536, 10});
  CHECK(results[1].values() == Values{0, 1, 1});
}

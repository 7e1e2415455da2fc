// Where PyTorch's numbers, or what it takes and refuses, are easily missed.

#include <cmath>
#include <limits>
#include <set>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Check>
void everywhere(Check check) {
  std::vector<std::string> modes = testing::available_modes();
  modes.emplace_back("debug");
  for (const std::string& mode : modes) {
    INFO(mode);
    const Device device(mode);
    check();
  }
}

}  // namespace

TEST_CASE("torch: rms_norm of 16 bits has the epsilon of float32", "[operators][torch]") {
  everywhere([] {
    const Tensor x = tensor<double>({.01, .02, .03, -.02}, {1, 4});
    const Values expected{.471, .941, 1.414, -.941};
    for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
      const Values y = op::rms_norm(x.to(dtype), {4}).values();
      for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] == Approx(expected[i]).epsilon(0.01));
    }
  });
}

TEST_CASE("torch: integers are compared with any number", "[operators][torch]") {
  everywhere([] {
    const Tensor x = tensor<std::int64_t>({-3, 2, 3, std::numeric_limits<std::int64_t>::max()});
    CHECK(op::less(x, 2.5).values() == Values{1, 1, 0, 0});
    CHECK(op::greater_equal(x, 2.5).values() == Values{0, 0, 1, 1});
    CHECK(op::equal(x, 2.5).values() == Values{0, 0, 0, 0});
    CHECK(op::not_equal(x, 2.5).values() == Values{1, 1, 1, 1});
    CHECK(op::less(x, infinity).values() == Values{1, 1, 1, 1});
    CHECK(op::less_equal(x, -infinity).values() == Values{0, 0, 0, 0});
    CHECK(op::equal(x, std::nan("")).values() == Values{0, 0, 0, 0});
    CHECK(op::not_equal(x, std::nan("")).values() == Values{1, 1, 1, 1});
    CHECK(op::less(x, 0x1p63).values() == Values{1, 1, 1, 1});
    CHECK(op::equal(x, 0x1p63).values() == Values{0, 0, 0, 0});
    CHECK(op::greater(x, -1e30).values() == Values{1, 1, 1, 1});
    CHECK(op::less(tensor<std::uint8_t>({1, 255}), 300).values() == Values{1, 1});
    CHECK(op::greater(tensor<std::uint8_t>({1, 255}).to(DType::boolean), 0.5).values() == Values{1, 1});
  });
}

TEST_CASE("torch: what it refuses is refused", "[operators][torch]") {
  everywhere([] {
    const Tensor none;
    CHECK_THROWS_AS(op::batch_norm(ones({1, 3}), none, none, none, none), ShapeError);
    CHECK_NOTHROW(op::batch_norm(ones({2, 3}), none, none, none, none));
    CHECK_THROWS_AS(op::flip(ones({2, 3}), {0, 0}), ShapeError);
    CHECK_THROWS_AS(op::flip(ones({2, 3}), {1, -1}), ShapeError);
    CHECK_THROWS_AS(op::group_norm(ones({1, 0, 2}), 1), ShapeError);
    CHECK_THROWS_AS(op::group_norm(ones({1, 2, 0}), 1), ShapeError);
    CHECK_NOTHROW(op::group_norm(ones({0, 2, 3}), 1));
    CHECK_THROWS_AS(op::local_response_norm(ones({2, 3})), ShapeError);
  });
}

TEST_CASE("torch: running statistics may have gaps", "[operators][torch]") {
  everywhere([] {
    const Tensor x = tensor<float>({1, 2, 3, 6, 5, 0}, {3, 2}), none;
    const auto run = [&](Tensor mean, Tensor var, bool training) {
      const Values y = op::batch_norm(x, none, none, mean, var, {.training = training}).values();
      Values all = y;
      for (const Tensor& statistics : {mean, var})
        for (const double value : statistics.contiguous().values()) all.push_back(value);
      return all;
    };
    for (const bool training : {true, false}) {
      Tensor wide = tensor<float>({1, 7, 2, 7, 3, 7, 4, 7}, {4, 2});
      const Tensor apart = wide.slice(1, 0, 1).squeeze(1);
      CHECK(run(apart.slice(0, 0, 2), apart.slice(0, 2, 4), training) ==
            run(tensor<float>({1, 2}), tensor<float>({3, 4}), training));
      CHECK(wide.slice(1, 1, 2).contiguous().values() == Values(4, 7));
    }
  });
}

TEST_CASE("torch: gradients that are added up over a batch are not rounded before", "[operators][torch]") {
  everywhere([] {
    // Each product is 1.51171875, of which bfloat16 makes 1.515625: seven of those would be 10.625.
    const Tensor grad = full({7, 1, 1}, 1 + 0x1p-7, DType::bfloat16);
    Tensor column = ones({2, 1}, DType::bfloat16).set_requires_grad();
    op::matmul(full({7, 1, 2}, 1.5, DType::bfloat16), column).backward(grad);
    CHECK(column.grad().values() == Values{10.5625, 10.5625});
    Tensor row = ones({1, 2}, DType::bfloat16).set_requires_grad();
    op::matmul(row, full({7, 2, 1}, 1.5, DType::bfloat16)).backward(grad);
    CHECK(row.grad().values() == Values{10.5625, 10.5625});
  });
}

TEST_CASE("torch: nan_to_num knows the ends of each dtype", "[operators][torch]") {
  everywhere([] {
    const Tensor x = tensor<double>({std::nan(""), infinity, -infinity, 2});
    CHECK(op::nan_to_num(x).values() ==
          Values{0, std::numeric_limits<double>::max(), -std::numeric_limits<double>::max(), 2});
    CHECK(op::nan_to_num(x.to(DType::float32)).values()[1] == static_cast<double>(std::numeric_limits<float>::max()));
    CHECK(op::nan_to_num(x.to(DType::float16)).values() == Values{0, 65504, -65504, 2});
    CHECK(op::nan_to_num(x.to(DType::bfloat16)).values()[2] == -0x1.FEp127);
    const Tensor whole = tensor<std::int64_t>({1, -2});
    CHECK(op::nan_to_num(whole).values() == whole.values());
  });
}

TEST_CASE("torch: add_all adds integers", "[operators][torch]") {
  everywhere([] {
    const Tensor x = tensor<std::int32_t>({1, -2});
    CHECK(op::add_all({x, x, x, x, x, x}).values() == Values{6, -12});
    CHECK(op::add_all({x}).values() == x.values());
    CHECK(op::add_all({op::less(x, 0), op::less(x, 5)}).values() == Values{1, 1});
  });
}

TEST_CASE("torch: add_all rounds a sum of 16 bits once", "[operators][torch]") {
  everywhere([] {
    const Tensor one = ones({3}, DType::bfloat16), zero = zeros({3}, DType::bfloat16);
    const Tensor quarter = full({3}, 0x1p-9, DType::bfloat16), half = full({3}, 0x1p-8, DType::bfloat16);
    for (const std::size_t count : {5, 8, 9}) {  // 1 + 1/4 of a unit is 1, and 1 + 1/2 of one as well
      std::vector<Tensor> addends(count, zero);
      addends[0] = one, addends[1] = quarter, addends.back() = half;
      CHECK(op::add_all(addends).values() == Values(3, 1 + 0x1p-7));
    }
  });
}

TEST_CASE("torch: binary_cross_entropy of certain probabilities costs 100", "[operators][torch]") {
  everywhere([] {
    Tensor p = tensor<double>({0, 1, 0, 1}).set_requires_grad();
    const Tensor loss = op::binary_cross_entropy(p, tensor<double>({1, 0, 0, 1}), {.reduce = Reduce::none});
    CHECK(loss.detach().values() == Values{100, 100, 0, 0});
    loss.backward(ones({4}, DType::float64));
    CHECK(p.grad().values() == Values{-1e12, 1e12, 0, 0});
    CHECK(std::isnan(op::binary_cross_entropy(tensor<double>({1.5}), tensor<double>({0})).item<double>()));
  });
}

TEST_CASE("torch: std of equal numbers is 0 in every mode, whatever the place of their mean", "[operators][torch]") {
  everywhere([] {
    for (const double value : {0.1, 1e30, -0.7}) {
      Tensor x = full({3, 5}, value).set_requires_grad();
      const Tensor y = op::std(x, 1);
      y.backward(ones({3}));
      CHECK(y.detach().values() == Values(3, 0));
      CHECK(x.grad().values() == Values(15, 0));
    }
    CHECK(op::std(tensor<float>({-1e38f, 1e38f})).values()[0] == Approx(1.41421356e38));
  });
}

TEST_CASE("torch: multinomial draws positions as their weights say", "[operators][torch]") {
  Generator generator(7);
  const Tensor weights = tensor<float>({1, 0, 3, 4});
  const Tensor drawn = op::multinomial(weights, 20000, true, generator);
  CHECK(drawn.shape() == Shape{20000});
  CHECK(drawn.dtype() == DType::int64);
  Values counts(4);
  for (const double position : drawn.values()) ++counts[static_cast<std::size_t>(position)];
  CHECK(counts[1] == 0);
  for (const std::size_t i : {0u, 2u, 3u}) CHECK(counts[i] / 20000 == Approx(weights.values()[i] / 8).margin(0.015));
  // Without replacement, the first one alike, and none twice.
  Values firsts(4);
  for (int i = 0; i < 8000; ++i) {
    const Values three = op::multinomial(weights, 3, false, generator).values();
    ++firsts[static_cast<std::size_t>(three[0])];
    if (i < 50) CHECK(std::set<double>(three.begin(), three.end()) == std::set<double>{0, 2, 3});
  }
  for (const std::size_t i : {0u, 2u, 3u}) CHECK(firsts[i] / 8000 == Approx(weights.values()[i] / 8).margin(0.025));
  // Row by row, and again from the same seed.
  Generator once(3), again(3);
  const Tensor rows = tensor<double>({{0, 1, 0}, {2, 0, 0}});
  CHECK(op::multinomial(rows, 2, true, once).values() == Values{1, 1, 0, 0});
  (void)op::multinomial(rows, 2, true, again);
  CHECK(op::multinomial(weights, 30, true, once).values() == op::multinomial(weights, 30, true, again).values());
  CHECK(op::multinomial(weights, 30, true, once).values() != op::multinomial(weights, 30, true, generator).values());
  CHECK_THROWS_AS(op::multinomial(weights, 4, false, generator), NumericError);
  CHECK_THROWS_AS(op::multinomial(tensor<float>({1, -1}), 1, true, generator), NumericError);
  CHECK_THROWS_AS(op::multinomial(tensor<float>({0, 0}), 1, true, generator), NumericError);
  CHECK_THROWS_AS(op::multinomial(tensor<float>({std::numeric_limits<float>::infinity(), 0}), 1, true, generator),
                  NumericError);
  CHECK_THROWS_AS(op::multinomial(ones({1, 2, 3}), 1, true, generator), ShapeError);
  CHECK_THROWS_AS(op::multinomial(weights, 0, true, generator), ShapeError);
  CHECK_THROWS_AS(op::multinomial(ones({2}, DType::int32), 1, true, generator), DTypeError);
}

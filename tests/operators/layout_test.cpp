// Elementwise operators on images whose channels lie side by side: results lie so too, and nothing is copied on the
// way.

#include <functional>
#include <limits>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

const Shape shape{2, 5, 3, 4};
const Shape by_channels{5 * 3 * 4, 1, 4 * 5, 5};

/// x with the strides of [N, H, W, C].
Tensor channels_last(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}); }

/// Different numbers from -4 to 8, some of them 0 and 6.
Tensor numbers(std::int64_t first, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>((i * 7 + first) % 25 - 8) / 2);
  return tensor(values, shape).to(dtype);
}

struct Use {
  const char* name;
  std::function<Tensor(const Tensor& a, const Tensor& b)> call;  // a, b: of one layout
  bool gradient = true;
  bool own_gradient = true;  // computed, not the one that came: a leaf gets a copy of that
};

const std::vector<Use>& elementwise_uses() {
  const Tensor per_channel = tensor<double>({1, -2, 0.5, 3, -0.25}, {5, 1, 1});
  static const std::vector<Use> uses{
      {"equal", [](const Tensor& a, const Tensor& b) { return op::equal(a, b); }, false},
      {"greater a number", [](const Tensor& a, const Tensor&) { return op::greater(a, 0.5); }, false},
      {"isnan", [](const Tensor& a, const Tensor&) { return op::isnan(a); }, false},
      {"logical_and", [](const Tensor& a, const Tensor& b) { return op::logical_and(a, b); }, false},
      {"where", [](const Tensor& a, const Tensor& b) { return op::where(op::less(a, b), a, b); }},
      {"where a number", [](const Tensor& a, const Tensor& b) { return op::where(op::less(a, b), a, 2); }},
      {"masked_fill", [](const Tensor& a, const Tensor& b) { return op::masked_fill(a, op::less(b, 0), 1); }},
      {"masked_fill of planes",
       [](const Tensor& a, const Tensor&) {
         return op::masked_fill(a, op::less(tensor<double>({1, -1, 0}, {3, 1}), 0), 1);
       }},
      {"add", [](const Tensor& a, const Tensor& b) { return op::add(a, b); }, true, false},
      {"add to channels",
       [per_channel](const Tensor& a, const Tensor&) { return op::add(a, per_channel.to(a.dtype())); }, true, false},
      {"mul_add",
       [per_channel](const Tensor& a, const Tensor& b) { return op::mul_add(per_channel.to(a.dtype()), a, b); }, true,
       false},
      {"mul by planes",
       [](const Tensor& a, const Tensor& b) {
         return op::mul(b.max({2, 3}, true), a);
       }},
      {"maximum", [](const Tensor& a, const Tensor& b) { return op::maximum(a, b); }},
      {"minimum a number", [](const Tensor& a, const Tensor&) { return op::minimum(a, 0.5); }},
      {"div", [](const Tensor& a, const Tensor& b) { return op::div(a, op::add(op::abs(b), 1)); }},
      {"pow", [](const Tensor& a, const Tensor& b) { return op::pow(op::add(op::abs(a), 1), b); }},
      {"remainder", [](const Tensor& a, const Tensor&) { return op::remainder(a, 3); }},
      {"clamp", [](const Tensor& a, const Tensor&) { return op::clamp(a, -1, 2); }},
      {"sign", [](const Tensor& a, const Tensor&) { return op::sign(a); }, true, false},
      {"relu", [](const Tensor& a, const Tensor&) { return op::relu(a); }},
      {"relu6", [](const Tensor& a, const Tensor&) { return op::relu6(a); }},
      {"hardsigmoid", [](const Tensor& a, const Tensor&) { return op::hardsigmoid(a); }},
      {"hardswish", [](const Tensor& a, const Tensor&) { return op::hardswish(a); }},
      {"silu", [](const Tensor& a, const Tensor&) { return op::silu(a); }},
      {"mish", [](const Tensor& a, const Tensor&) { return op::mish(a); }},
      {"elu", [](const Tensor& a, const Tensor&) { return op::elu(a); }},
      {"celu", [](const Tensor& a, const Tensor&) { return op::celu(a); }},
      {"selu", [](const Tensor& a, const Tensor&) { return op::selu(a); }},
      {"gelu_tanh", [](const Tensor& a, const Tensor&) { return op::gelu_tanh(a); }},
      {"logsigmoid", [](const Tensor& a, const Tensor&) { return op::logsigmoid(a); }},
      {"prelu",
       [per_channel](const Tensor& a, const Tensor&) { return op::prelu(a, per_channel.reshape({5}).to(a.dtype())); }},
      {"log1p", [](const Tensor& a, const Tensor&) { return op::log1p(op::abs(a)); }},
      {"expm1", [](const Tensor& a, const Tensor&) { return op::expm1(a); }},
      {"softmax of channels", [](const Tensor& a, const Tensor&) { return op::softmax(a, 1); }},
      {"log_softmax of rows", [](const Tensor& a, const Tensor&) { return op::log_softmax(a, 3); }},
      {"to other numbers", [](const Tensor& a, const Tensor&) { return a.to(DType::float64).to(DType::bfloat16); }},
  };
  return uses;
}

/// check() in every mode that is here, for each dtype.
void everywhere(const std::function<void(DType)>& check) {
  std::vector<std::string> modes = testing::available_modes();
  modes.emplace_back("debug");
  for (const std::string& mode : modes)
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      INFO(message(mode, ' ', dtype));
      const Device device(mode);
      check(dtype);
    }
}

}  // namespace

TEST_CASE("layout: elementwise results keep channels_last, and their gradients", "[operators][layout]") {
  everywhere([](DType dtype) {
    for (const Use& use : elementwise_uses()) {
      INFO(use.name);
      const auto run = [&](bool last) {
        const auto laid = [&](const Tensor& x) { return (last ? channels_last(x) : x.clone()); };
        Tensor a = laid(numbers(0, dtype)).set_requires_grad(use.gradient), b = laid(numbers(3, dtype));
        Tensor y = use.call(a, b);
        CHECK(y.strides() == (last ? by_channels : contiguous_strides(shape)));
        if (use.gradient) {
          y.backward(laid(numbers(11, y.dtype())));
          if (use.own_gradient) CHECK(a.grad().strides() == (last ? by_channels : contiguous_strides(shape)));
        }
        return std::vector{
            y.detach().to(DType::float64).contiguous().to_vector<double>(),
            use.gradient ? a.grad().to(DType::float64).contiguous().to_vector<double>() : std::vector<double>{}};
      };
      const auto first = run(false), last = run(true);
      const double within = dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 1e-5 : 0.02;
      for (std::size_t part = 0; part < first.size(); ++part) {
        REQUIRE(first[part].size() == last[part].size());
        for (std::size_t i = 0; i < first[part].size(); ++i)
          CHECK(last[part][i] == Approx(first[part][i]).epsilon(within).margin(within));
      }
    }
  });
}

TEST_CASE("layout: inputs of two layouts give a result in the order of its shape", "[operators][layout]") {
  everywhere([](DType dtype) {
    const Tensor a = channels_last(numbers(0, dtype)), b = numbers(3, dtype);
    CHECK(op::less(a, b).strides() == contiguous_strides(shape));
    CHECK(op::where(op::less(a, b), a, b).strides() == contiguous_strides(shape));
    CHECK(op::add(a, b).values() == op::add(a.contiguous(), b).values());
    CHECK(op::where(op::less(a, b), a, b).values() == op::minimum(a.contiguous(), b).values());
  });
}

TEST_CASE("layout: some channels of an image keep their order", "[operators][layout]") {
  everywhere([](DType dtype) {
    const Tensor x = numbers(0, dtype), last = channels_last(x);
    const auto half = [](const Tensor& whole) { return op::slice(whole, 1, 1, 4); };
    const Shape dense{3 * 3 * 4, 1, 4 * 3, 3}, joined{6 * 3 * 4, 1, 4 * 6, 6};
    const Use uses[]{
        {"add", [](const Tensor& a, const Tensor& b) { return op::add(a, b); }},
        {"add to a dense one", [](const Tensor& a, const Tensor& b) { return op::mul(a, op::add(b, 1)); }},
        {"less", [](const Tensor& a, const Tensor& b) { return op::less(a, b); }},
        {"softmax", [](const Tensor& a, const Tensor&) { return op::softmax(a, 1); }},
        {"to", [](const Tensor& a, const Tensor&) { return a.to(DType::int32); }},
    };
    for (const Use& use : uses) {
      INFO(use.name);
      const Tensor y = use.call(half(last), half(channels_last(numbers(3, dtype))));
      CHECK(y.strides() == dense);
      const Tensor expected = use.call(half(x).contiguous(), half(numbers(3, dtype)).contiguous());
      CHECK(op::allclose(y.to(DType::float64), expected.to(DType::float64), 1e-6, 1e-6));
    }
    const Tensor both = op::cat({half(last), half(last)}, 1);
    CHECK(both.strides() == joined);
    CHECK(both.values() == op::cat({half(x), half(x)}, 1).values());
    // One channel, one pixel and rows in another order have the order of their shape.
    CHECK(op::add(op::slice(last, 1, 1, 2), 1).is_contiguous());
    const Tensor wide = op::permute(last, {0, 1, 3, 2});
    CHECK(op::add(wide, wide).values() == op::add(wide.contiguous(), wide.contiguous()).values());
  });
}

TEST_CASE("layout: a padded image keeps channels_last", "[operators][layout]") {
  everywhere([](DType dtype) {
    const Tensor x = numbers(0, dtype), wide = op::pad(channels_last(x), {{2, 1, 0}, {3, 0, 2}}, 7);
    CHECK(wide.strides() == Shape{5 * 4 * 6, 1, 6 * 5, 5});
    CHECK(wide.values() == op::pad(x, {{2, 1, 0}, {3, 0, 2}}, 7).values());
  });
}

TEST_CASE("layout: planes and channels are reduced as they lie", "[operators][layout]") {
  everywhere([](DType dtype) {
    for (const Dims& dims : {Dims{2, 3}, Dims{0, 2, 3}, Dims{1}, Dims{0, 1}, Dims{3}, Dims{1, 2, 3}, Dims{}})
      for (const bool keep : {false, true}) {
        INFO(Shape(dims.begin(), dims.end()) << keep);
        const auto run = [&](bool last) {
          const Tensor x = numbers(0, dtype);
          Tensor laid = (last ? channels_last(x) : x.clone()).set_requires_grad();
          const Tensor total = op::add(op::sum(laid, dims, keep), op::mul(op::max(laid, dims, keep), 2));
          const Tensor y = op::add(total, op::var(laid, dims, 1, keep));
          y.backward(ones(y.shape(), dtype));
          std::vector<double> all = y.detach().values();
          for (const double value : laid.grad().contiguous().values()) all.push_back(value);
          all.push_back(static_cast<double>(y.rank()));
          return all;
        };
        const auto first = run(false), last = run(true);
        REQUIRE(first.size() == last.size());
        for (std::size_t i = 0; i < first.size(); ++i) CHECK(last[i] == Approx(first[i]).epsilon(0.02).margin(0.02));
      }
  });
}

TEST_CASE("layout: relu6 has the gradient 0 at both of its ends, and 1 beside them", "[operators][layout]") {
  everywhere([](DType dtype) {
    const double below_six = dtype == DType::bfloat16 ? 5.96875 : 6 - 0x1p-20;
    Tensor x = tensor<double>({-1, -0.0, 0, 0x1p-120, 0.5, below_six, 6, 6.5, std::numeric_limits<double>::infinity()})
                   .to(dtype)
                   .set_requires_grad();
    const Tensor y = op::relu6(x);
    y.backward(ones(y.shape(), dtype));
    CHECK(y.detach().values() == std::vector<double>{0, 0, 0, 0x1p-120, 0.5, below_six, 6, 6, 6});
    CHECK(x.grad().values() == std::vector<double>{0, 0, 0, 1, 1, 1, 0, 0, 0});
  });
}

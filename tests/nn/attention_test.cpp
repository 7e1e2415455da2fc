// MultiheadAttention beside its definition, written out in loops.

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

constexpr std::int64_t width = 6, heads = 2, part = width / heads;

/// One head after the other, in double: queries [L, width], keys and values [S, width].
std::vector<double> attention(const std::vector<double>& x, const std::vector<double>& memory, const nn::State& state,
                              bool causal) {
  const auto rows = static_cast<std::int64_t>(x.size()) / width,
             seen = static_cast<std::int64_t>(memory.size()) / width;
  const auto at = [](const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  const auto project = [&](const std::vector<double>& in, std::int64_t which) {
    const std::vector<double> weight = state.at("in_proj_weight").values(), bias = state.at("in_proj_bias").values();
    std::vector<double> out;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.size()) / width; ++i)
      for (std::int64_t o = which * width; o < (which + 1) * width; ++o) {
        out.push_back(at(bias, o));
        for (std::int64_t k = 0; k < width; ++k) out.back() += at(in, i * width + k) * at(weight, o * width + k);
      }
    return out;
  };
  const std::vector<double> q = project(x, 0), k = project(memory, 1), v = project(memory, 2);
  std::vector<double> joined(x.size(), 0);
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<double> scores;
      double total = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        double product = 0;
        for (std::int64_t e = head * part; e < (head + 1) * part; ++e)
          product += at(q, i * width + e) * at(k, j * width + e);
        scores.push_back(causal && j > i ? 0 : std::exp(product / std::sqrt(static_cast<double>(part))));
        total += scores.back();
      }
      for (std::int64_t j = 0; j < seen; ++j)
        for (std::int64_t e = head * part; e < (head + 1) * part; ++e)
          joined[static_cast<std::size_t>(i * width + e)] += at(scores, j) / total * at(v, j * width + e);
    }
  const std::vector<double> weight = state.at("out_proj.weight").values(), bias = state.at("out_proj.bias").values();
  std::vector<double> out;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t o = 0; o < width; ++o) {
      out.push_back(at(bias, o));
      for (std::int64_t e = 0; e < width; ++e) out.back() += at(joined, i * width + e) * at(weight, o * width + e);
    }
  return out;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Biases that are not 0.
void fill_biases(nn::Module& module, Generator& generator) {
  const NoGrad no_grad;
  for (const auto& [name, tensor] : module.named_parameters())
    if (tensor.rank() == 1) Tensor(tensor).copy_(randn(tensor.shape(), generator, 0, 1, tensor.dtype()));
}

}  // namespace

TEST_CASE("nn: MultiheadAttention is its definition", "[nn][attention]") {
  Generator generator(11);
  for (const bool causal : {false, true}) {
    nn::MultiheadAttention attend(width, heads, {.is_causal = causal, .dtype = DType::float64}, generator);
    fill_biases(attend, generator);
    const Tensor x = randn({2, 5, width}, generator, 0, 1, DType::float64);
    const Tensor y = attend(x);
    REQUIRE(y.shape() == x.shape());
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto row = [i](const Tensor& all) { return all.slice(0, i, i + 1).values(); };
      CHECK(largest_difference(row(y), attention(row(x), row(x), attend.state(), causal)) < 1e-12);
    }
    CHECK(largest_difference(attend(x.slice(0, 1, 2).squeeze(0)).values(), y.slice(0, 1, 2).values()) < 1e-12);
  }
}

TEST_CASE("nn: MultiheadAttention of other keys and values, and by a mask", "[nn][attention]") {
  Generator generator(12);
  nn::MultiheadAttention attend(width, heads, {.dtype = DType::float64}, generator);
  fill_biases(attend, generator);
  const Tensor x = randn({1, 3, width}, generator, 0, 1, DType::float64),
               memory = randn({1, 4, width}, generator, 0, 1, DType::float64);
  CHECK(largest_difference(attend.attend(x, memory, memory).values(),
                           attention(x.values(), memory.values(), attend.state(), false)) < 1e-12);
  // What the mask hides may be anything.
  Tensor changed = memory.clone();
  changed.slice(1, 2, 4).fill_(1000);
  const Tensor mask = tensor<bool>({true, true, false, false});
  CHECK(attend.attend(x, changed, changed, {.mask = mask}).values() ==
        attend.attend(x, memory, memory, {.mask = mask}).values());
}

TEST_CASE("nn: MultiheadAttention has torch's names and starts, and trains", "[nn][attention]") {
  Generator generator(13);
  nn::MultiheadAttention attend(8, 4, {}, generator);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : attend.named_parameters()) names.push_back(message(name, tensor.shape()));
  CHECK(names == std::vector<std::string>{"in_proj_weight[24,8]", "in_proj_bias[24]", "out_proj.weight[8,8]",
                                          "out_proj.bias[8]"});
  CHECK(operators::sum(operators::abs(attend.state().at("in_proj_bias"))).item() == 0);
  CHECK(operators::sum(operators::abs(attend.state().at("out_proj.bias"))).item() == 0);
  const double bound = std::sqrt(6.0 / 32),
               largest = operators::max(operators::abs(attend.state().at("in_proj_weight"))).item();
  CHECK((largest <= bound && largest > 0.9 * bound));
  operators::sum(operators::square(attend(randn({2, 3, 8}, generator)))).backward();
  for (const Tensor& parameter : attend.parameters()) CHECK(parameter.grad().defined());
  CHECK(nn::summary(attend, {2, 3, 8}).layers.back().flops == 2 * 48 * 24 + 2 * 2 * (2 * 3 * 3 * 8));
  CHECK(attend.describe() == "MultiheadAttention(8, 4)");
  CHECK(nn::MultiheadAttention(8, 2, {.bias = false}, generator).parameters().size() == 2);
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 3), ShapeError);
  CHECK_THROWS_WITH(attend(ones({2, 3, 7})), Catch::ContainsSubstring("[2,3,7]"));
}

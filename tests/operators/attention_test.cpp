// Attention over several tiles of queries and keys in every layout and in 16 bits, which the catalogue samples less.

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"

namespace {

using namespace tern;
namespace op = tern::operators;

struct Sizes {
  Shape lead;
  std::int64_t queries, keys, width, values;
};

/// The result, and the gradients of queries, keys and values. `by_tokens`: all lie as a linear layer makes them, heads
/// behind rows.
std::vector<std::vector<double>> run(const std::string& mode, const std::vector<Tensor>& inputs, const Tensor& grad,
                                     DType dtype, bool causal, bool by_tokens) {
  const Device device{mode};
  std::vector<Tensor> own;
  for (const Tensor& input : inputs) own.push_back(input.to(dtype).detach().set_requires_grad());
  const auto turned = [&](const Tensor& x) { return by_tokens ? x.transpose(-2, -3) : x; };
  const Tensor y =
      turned(op::scaled_dot_product_attention(turned(own[0]), turned(own[1]), turned(own[2]), {.is_causal = causal}));
  y.backward(grad.to(dtype));
  std::vector<std::vector<double>> results{y.detach().to(DType::float64).values()};
  for (const Tensor& input : own) results.push_back(input.grad().to(DType::float64).values());
  return results;
}

/// The largest difference beside the largest number: gradients of a single weight are 0 but for rounding.
double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double apart = 0, size = 0x1p-6;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    if (!(difference <= apart)) apart = difference;
    size = std::max(size, std::abs(expected[i]));
  }
  return apart / size;
}

void compare_with_float32(const std::string& mode, const std::vector<Sizes>& all) {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
    WARN("skipped: mode " << mode << " is not available");
    return;
  }
  for (const Sizes& sizes : all)
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
      for (const bool causal : {false, true}) {
        const bool by_tokens = causal != (dtype == DType::bfloat16);
        Generator generator{5};
        const auto drawn = [&](std::int64_t rows, std::int64_t columns) {
          Shape shape = sizes.lead;
          shape.push_back(rows);
          shape.push_back(columns);
          if (by_tokens) std::swap(shape[shape.rank() - 3], shape[shape.rank() - 2]);
          return randn(shape, generator).to(dtype).to(DType::float32);
        };
        const std::vector<Tensor> inputs{drawn(sizes.queries, sizes.width), drawn(sizes.keys, sizes.width),
                                         drawn(sizes.keys, sizes.values)};
        const Tensor grad = drawn(sizes.queries, sizes.values);
        const auto got = run(mode, inputs, grad, dtype, causal, by_tokens);
        const auto expected = run("sequential", inputs, grad, DType::float32, causal, by_tokens);
        const double unit = dtype == DType::float32 ? 0x1p-18 : dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11;
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO(name_of(dtype) << ' ' << inputs[0].shape() << ' ' << inputs[1].shape() << (causal ? " causal" : "")
                              << (by_tokens ? " by tokens" : "") << ", result " << i);
          CHECK(distance(got[i], expected[i]) < 3 * unit);
        }
        CHECK(run(mode, inputs, grad, dtype, causal, by_tokens) == got);
      }
}

}  // namespace

TEST_CASE("attention: dtypes and layouts over several tiles agree, in cuda", "[operators][cuda]") {
  std::vector<Sizes> all{{{2}, 70, 130, 64, 64},   {{3}, 197, 197, 40, 48}, {{2}, 130, 77, 80, 80},
                         {{2}, 49, 49, 128, 72},   {{2}, 129, 65, 32, 24},  {{2}, 5, 67, 29, 3},
                         {{1}, 1, 577, 64, 64},    {{1}, 257, 200, 96, 96}, {{2, 2}, 66, 66, 72, 128},
                         {{200}, 130, 40, 48, 64}, {{400}, 65, 65, 16, 16}};
  all.push_back({{200}, 128, 33, 128, 96});
  compare_with_float32("cuda", all);
}

TEST_CASE("attention: dtypes and layouts agree", "[operators]") {
  for (const char* mode : {"sequential", "vectorized"})
    compare_with_float32(mode, {{{2}, 70, 130, 64, 64}, {{3}, 19, 33, 40, 48}, {{2}, 9, 7, 5, 3}});
}

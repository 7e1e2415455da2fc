// Attention over several tiles of queries and keys in every layout and in 16 bits, which the catalogue samples less.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"
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
                                     DType dtype, bool causal, bool by_tokens, std::string_view algorithm = {},
                                     std::optional<Precision> precision = {}) {
  const Device device{mode, {.precision = precision}};
  std::optional<ForcedAlgorithm> forced;
  if (!algorithm.empty()) forced.emplace("attention", algorithm);
  std::vector<Tensor> own;
  for (const Tensor& input : inputs) own.push_back(input.to(dtype).detach().set_requires_grad());
  const auto turned = [&](const Tensor& x) { return by_tokens ? x.transpose(-2, -3) : x; };
  const Tensor y =
      turned(op::scaled_dot_product_attention(turned(own[0]), turned(own[1]), turned(own[2]), {.is_causal = causal}));
  y.backward(grad.to(dtype));
  std::vector<std::vector<double>> results{y.detach().to(DType::float64).values()};
  for (const Tensor& input : own) results.push_back(input.grad().to(DType::float64).values());
  if (forced) CHECK((forced->taken() == 2 || (algorithm == "warpgroups" && forced->missed() == 2)));
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

bool has(const std::string& mode) {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::find(modes.begin(), modes.end(), mode) != modes.end()) return true;
  WARN("skipped: mode " << mode << " is not available");
  return false;
}

/// In units of rounding: how far results and gradients may be from those of float32.
double unit_of(DType dtype) { return dtype == DType::float32 ? 0x1p-18 : dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11; }

/// By each of these algorithms, an empty one being the mode's choice, beside another mode.
void compare_with_float32(const std::string& mode, const std::vector<Sizes>& all, const std::string& reference,
                          const std::vector<std::string>& algorithms) {
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
        const auto expected = run(reference, inputs, grad, DType::float32, causal, by_tokens);
        for (const std::string& by : algorithms) {
          const auto got = run(mode, inputs, grad, dtype, causal, by_tokens, by);
          for (std::size_t i = 0; i < got.size(); ++i) {
            INFO(name_of(dtype) << ' ' << inputs[0].shape() << ' ' << inputs[1].shape() << (causal ? " causal" : "")
                                << (by_tokens ? " by tokens" : "") << ", result " << i << ' ' << by);
            CHECK(distance(got[i], expected[i]) < 3 * unit_of(dtype));
          }
          CHECK(run(mode, inputs, grad, dtype, causal, by_tokens, by) == got);
        }
      }
}

}  // namespace

TEST_CASE("attention: dtypes and layouts over several tiles agree, in cuda", "[operators][cuda]") {
  if (!has("cuda") || !has("vectorized")) return;
  std::vector<Sizes> all{{{2}, 70, 130, 64, 64},   {{3}, 197, 197, 40, 48}, {{2}, 130, 77, 80, 80},
                         {{2}, 49, 49, 128, 72},   {{2}, 129, 65, 32, 24},  {{2}, 5, 67, 29, 3},
                         {{1}, 1, 577, 64, 64},    {{1}, 257, 200, 96, 96}, {{2, 2}, 66, 66, 72, 128},
                         {{200}, 130, 40, 48, 64}, {{400}, 65, 65, 16, 16}};
  all.push_back({{200}, 128, 33, 128, 96});
  for (const std::int64_t queries : {1, 3, 4}) {  // with one and with several blocks of keys
    all.push_back({{2, 3}, queries, 700, 128, 40});
    all.push_back({{3}, queries, 333, 61, 30});
    all.push_back({{900}, queries, 50, 32, 32});
  }
  all.push_back({{1}, 900, 70, 64, 64});  // many queries of few keys
  // Blocks that share the loop over keys, over queries, or over both.
  all.push_back({{1}, 40, 900, 72, 96});
  all.push_back({{2}, 700, 700, 96, 40});
  // Heads enough that backward by warpgroups computes the weights once, in each of its shapes.
  for (const Sizes& sizes : std::vector<Sizes>{{{128}, 130, 120, 64, 40},
                                               {{264}, 130, 120, 64, 64},
                                               {{130}, 130, 250, 48, 64},
                                               {{130}, 130, 120, 90, 72},
                                               {{130}, 130, 120, 90, 128},
                                               {{264}, 130, 120, 30, 32}})
    all.push_back(sizes);
  // Beside vectorized, which the next test compares with sequential, as these sizes take long there. By name, too,
  // since this card and these sizes do not choose all.
  compare_with_float32("cuda", all, "vectorized", {"", "fused", "warpgroups"});
}

TEST_CASE("attention: warpgroups in each of their shapes agree with float32, in cuda", "[operators][cuda]") {
  if (!has("cuda") || !has("vectorized")) return;
  // Rows that threads copy and rows that the copy engine brings, by 64, 128 and 256, many and few, and a shared loop.
  compare_with_float32("cuda",
                       {{{270}, 190, 260, 40, 16},
                        {{66}, 1000, 1030, 40, 8},
                        {{5}, 130, 333, 40, 64},
                        {{70}, 330, 420, 24, 32},
                        {{70}, 330, 420, 23, 30},
                        {{200}, 120, 210, 72, 64},
                        {{70}, 100, 520, 72, 80},
                        {{300}, 60, 130, 96, 80},
                        {{3}, 190, 1000, 72, 64},
                        {{200}, 128, 140, 128, 96},
                        {{66}, 1000, 1030, 100, 8},
                        {{4}, 200, 300, 128, 96}},
                       "vectorized", {"warpgroups"});
}

TEST_CASE("attention: large scores by warpgroups agree with float32, in cuda", "[operators][cuda]") {
  if (!has("cuda") || !has("vectorized")) return;
  Generator generator{9};
  const auto drawn = [&](std::int64_t rows, double factor) {
    return op::mul(randn({3, rows, 64}, generator), factor).to(DType::bfloat16).to(DType::float32);
  };
  const std::vector<Tensor> inputs{drawn(150, 500), drawn(200, 1), drawn(200, 1)};
  const Tensor grad = drawn(150, 1);
  for (const bool causal : {false, true}) {
    const auto got = run("cuda", inputs, grad, DType::bfloat16, causal, false, "warpgroups");
    const auto expected = run("vectorized", inputs, grad, DType::float32, causal, false);
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("result " << i << (causal ? " causal" : ""));
      CHECK(distance(got[i], expected[i]) < 4 * unit_of(DType::bfloat16));
    }
  }
}

TEST_CASE("attention: TF32 over several tiles agrees with float32, in cuda", "[operators][cuda]") {
  if (!has("cuda") || !has("vectorized")) return;
  for (const Sizes& sizes : std::vector<Sizes>{{{2}, 130, 150, 32, 30},
                                               {{3}, 130, 90, 64, 41},
                                               {{2}, 70, 130, 72, 96},
                                               {{150}, 140, 66, 96, 96},
                                               {{2}, 65, 200, 128, 80},
                                               {{1}, 40, 900, 96, 72},
                                               {{2}, 700, 700, 96, 40}})
    for (const bool causal : {false, true}) {
      Generator generator{5};
      const auto drawn = [&](std::int64_t rows, std::int64_t columns) {
        return randn({sizes.lead[0], rows, columns}, generator);
      };
      const std::vector<Tensor> inputs{drawn(sizes.queries, sizes.width), drawn(sizes.keys, sizes.width),
                                       drawn(sizes.keys, sizes.values)};
      const Tensor grad = drawn(sizes.queries, sizes.values);
      const auto by = [&](const std::string& mode, Precision precision) {
        return run(mode, inputs, grad, DType::float32, causal, false, "", precision);
      };
      const auto got = by("cuda", Precision::tf32), expected = by("vectorized", Precision::strict);
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO(inputs[0].shape() << ' ' << inputs[1].shape() << (causal ? " causal" : "") << ", result " << i);
        CHECK(distance(got[i], expected[i]) < 3 * 0x1p-10);
      }
      CHECK(by("cuda", Precision::tf32) == got);
    }
}

TEST_CASE("attention: up to 32 queries without gradients, in cuda", "[operators][cuda]") {
  if (!has("cuda")) return;
  for (const std::int64_t queries : {5, 32, 33})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      Generator generator{3};
      std::vector<Tensor> inputs;
      for (const Shape& shape : {Shape{3, queries, 72}, Shape{3, 500, 72}, Shape{3, 500, 40}})
        inputs.push_back(randn(shape, generator).to(dtype).to(DType::float32));
      const auto attended = [&](const std::string& mode, DType of) {
        const Device device{mode};
        const Tensor y = op::scaled_dot_product_attention(inputs[0].to(of), inputs[1].to(of), inputs[2].to(of));
        return y.to(DType::float64).values();
      };
      CHECK(distance(attended("cuda", dtype), attended("sequential", DType::float32)) < 3 * unit_of(dtype));
      CHECK(attended("cuda", dtype) == attended("cuda", dtype));
    }
}

TEST_CASE("attention: heads that share keys where they lie, in cuda", "[operators][cuda]") {
  if (!has("cuda")) return;
  constexpr std::int64_t heads = 6, groups = 2, keys = 150, width = 48;
  const auto grouped = [&](const std::string& mode, const std::vector<Tensor>& inputs, DType dtype, bool causal) {
    const Device device{mode};
    std::vector<Tensor> own;
    for (const Tensor& input : inputs) own.push_back(input.to(dtype).detach().set_requires_grad());
    const auto turned = [](const Tensor& x) { return x.transpose(1, 2); };
    const Tensor y =
        turned(op::grouped_attention(turned(own[0]), turned(own[1]), turned(own[2]), {.is_causal = causal}));
    y.backward(inputs[0].to(dtype));
    std::vector<std::vector<double>> results{y.detach().to(DType::float64).values()};
    for (const Tensor& input : own) results.push_back(input.grad().to(DType::float64).values());
    return results;
  };
  for (const std::int64_t queries : {2, 40, 260})
    for (const DType dtype : {DType::float32, DType::bfloat16})
      for (const bool causal : {false, true}) {
        Generator generator{7};
        std::vector<Tensor> inputs;
        for (const Shape& shape :
             {Shape{2, queries, heads, width}, Shape{2, keys, groups, width}, Shape{2, keys, groups, width}})
          inputs.push_back(randn(shape, generator).to(dtype).to(DType::float32));
        const auto got = grouped("cuda", inputs, dtype, causal);
        const auto expected = grouped("sequential", inputs, DType::float32, causal);
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO(name_of(dtype) << ' ' << queries << " queries" << (causal ? ", causal" : "") << ", result " << i);
          CHECK(distance(got[i], expected[i]) < 3 * unit_of(dtype));
        }
        CHECK(grouped("cuda", inputs, dtype, causal) == got);
      }
}

TEST_CASE("attention: dtypes and layouts agree", "[operators]") {
  for (const char* mode : {"sequential", "vectorized"})
    if (has(mode))
      compare_with_float32(mode,
                           {{{2}, 70, 130, 64, 64}, {{3}, 19, 33, 40, 48}, {{2}, 9, 7, 5, 3}, {{2, 3}, 2, 67, 37, 29}},
                           "sequential", {""});
}

TEST_CASE("attention: heads in rows of tokens have the bits of heads that lie apart, in vectorized", "[operators]") {
  struct Case {
    std::int64_t N, heads, groups, queries, keys, width, values;
  };
  for (const Case& of :
       {Case{3, 34, 34, 1, 700, 48, 40}, Case{2, 6, 6, 4, 131, 64, 67}, Case{2, 8, 2, 3, 90, 37, 32},
        Case{2, 9, 9, 49, 49, 72, 64}, Case{1, 12, 3, 130, 301, 40, 48}, Case{1, 2, 2, 66, 300, 33, 5}})
    for (const bool causal : {false, true}) {
      const auto results = [&](bool by_tokens, int threads) {
        const Device device{"vectorized", {.threads = threads}};
        Generator generator{3};
        const auto turned = [&](const Tensor& x) { return by_tokens ? x.transpose(1, 2) : x; };
        const auto drawn = [&](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
          return turned(randn({of.N, heads, rows, columns}, generator)).contiguous();
        };
        std::vector<Tensor> leaves{drawn(of.heads, of.queries, of.width), drawn(of.groups, of.keys, of.width),
                                   drawn(of.groups, of.keys, of.values)};
        for (Tensor& leaf : leaves) leaf.set_requires_grad();
        const Tensor y =
            of.heads == of.groups
                ? op::scaled_dot_product_attention(turned(leaves[0]), turned(leaves[1]), turned(leaves[2]),
                                                   {.is_causal = causal})
                : op::grouped_attention(turned(leaves[0]), turned(leaves[1]), turned(leaves[2]), {.is_causal = causal});
        turned(y).backward(drawn(of.heads, of.queries, of.values));
        std::vector<std::vector<double>> values{y.detach().values()};
        for (const Tensor& leaf : leaves) values.push_back(turned(leaf.grad()).values());
        return values;
      };
      INFO(of.heads << " heads of " << of.queries << " queries and " << of.keys << " keys"
                    << (causal ? ", causal" : ""));
      const auto expected = results(false, 1);
      CHECK((results(true, 1) == expected));  // in parentheses: Catch would print all numbers
      CHECK((results(true, 3) == expected));
    }
}

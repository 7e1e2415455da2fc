// Weights that the vectorized mode packed or transformed, and keeps for the next inference.

#include <cmath>
#include <thread>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"
#include "vectorized/convolution/kept.hpp"

using namespace tern;
namespace op = tern::operators;
using vectorized::convolution::kept_count;
using vectorized::convolution::KeptCount;
using vectorized::convolution::limit_kept;

namespace {

struct Convolution {
  Tensor x, weight, bias;
  op::Conv2dOptions options;

  explicit Convolution(std::uint64_t seed = 1, std::int64_t groups = 1) : options{.padding = 1, .groups = groups} {
    Generator generator(seed);
    x = randn({1, 16, 13, 14}, generator);
    weight = randn({16, 16 / groups, 3, 3}, generator);
    bias = randn({16}, generator);
  }
  std::vector<double> operator()() const { return op::conv2d(x, weight, bias, options).values(); }
  /// Of weights that nobody has seen.
  std::vector<double> fresh() const { return op::conv2d(x, weight.clone(), bias, options).values(); }
};

/// Bounds what is kept to the end of the block.
class Limit {
 public:
  explicit Limit(std::size_t bytes) : before_(limit_kept(bytes)) {}
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { limit_kept(before_); }

 private:
  std::size_t before_;
};

constexpr std::size_t megabytes = std::size_t{1} << 20;

}  // namespace

TEST_CASE("kept weights: the third inference finds what the second one made, with the same bits", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  for (const char* algorithm : {"rows", "winograd", "depthwise", "lines", "taps", "dots"}) {
    INFO(algorithm);
    const ForcedAlgorithm forced{"conv2d", algorithm};
    const Convolution convolution(1, algorithm == std::string("depthwise") ? 16 : 1);
    const std::vector<double> expected = convolution.fresh();
    const KeptCount before = kept_count();
    CHECK(convolution() == expected);
    CHECK(kept_count().bytes <= before.bytes);  // a note, and what is gone is forgotten
    CHECK(convolution() == expected);
    const KeptCount filled = kept_count();
    CHECK(filled.bytes > before.bytes);
    CHECK(filled.found == before.found);
    CHECK(convolution() == expected);
    CHECK(convolution() == expected);
    CHECK(kept_count().found == before.found + 2);
    CHECK(kept_count().bytes == filled.bytes);
  }
}

TEST_CASE("kept weights: a change in place is seen", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  Convolution convolution;
  for (int i = 0; i < 3; ++i) convolution();
  const std::size_t kept = kept_count().bytes;
  for (int change = 0; change < 4; ++change) {
    const std::vector<double> before = convolution();
    if (change == 0) convolution.weight.write<float>()[5] = 7;
    if (change == 1) convolution.weight.fill_(0.5);
    if (change == 2) convolution.weight.copy_(Convolution(2).weight);
    if (change == 3) op::slice(convolution.weight, 0, 3, 4).fill_(2);  // by a view
    const std::vector<double> expected = convolution.fresh();
    CHECK(expected != before);
    for (int i = 0; i < 3; ++i) CHECK(convolution() == expected);
    CHECK(kept_count().bytes == kept);  // the older version is gone
  }
}

TEST_CASE("kept weights: weights that lie where others lay are others", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  const std::size_t before = kept_count().bytes;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Convolution convolution(seed);
    const std::vector<double> expected = convolution.fresh();
    for (int i = 0; i < 3; ++i) CHECK(convolution() == expected);
  }
  const Convolution another;
  another();
  CHECK(kept_count().bytes <= before);  // what was made of weights that are gone is forgotten
  // Two parts of one storage, whose versions are equal.
  Generator generator(5);
  const Tensor both = randn({32, 16, 3, 3}, generator);
  Convolution first, second;
  first.weight = op::slice(both, 0, 0, 16), second.weight = op::slice(both, 0, 16, 32);
  const std::vector<double> of_first = first.fresh(), of_second = second.fresh();
  for (int i = 0; i < 3; ++i) {
    CHECK(first() == of_first);
    CHECK(second() == of_second);
  }
}

TEST_CASE("kept weights: each problem and algorithm has its own", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  Convolution convolution;
  std::vector<std::vector<double>> expected;
  const auto each = [&](const auto& use) {
    for (const char* algorithm : {"rows", "winograd", "im2col", "lines", "taps", "dots"}) {
      const ForcedAlgorithm forced{"conv2d", algorithm};
      for (const std::int64_t padding : {0, 1}) {
        convolution.options.padding = padding;
        for (const std::int64_t dilation : {1, 2}) {
          convolution.options.dilation = dilation;
          use();
        }
      }
    }
  };
  each([&] { expected.push_back(convolution.fresh()); });
  for (int i = 0; i < 3; ++i) {
    std::size_t next = 0;
    each([&] { CHECK(convolution() == expected[next++]); });
  }
}

// Where a weight is not finite, padding may not be skipped, and `depthwise` derives something else from its weights.
TEST_CASE("kept weights: an infinite weight with and without padding", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  const ForcedAlgorithm forced{"conv2d", "depthwise"};
  const auto comparable = [](std::vector<double> values) {
    for (double& value : values)
      if (std::isnan(value)) value = 12345;
    return values;
  };
  Convolution convolution(1, 16);
  convolution.weight.slice(0, 3, 4).fill_(HUGE_VAL);
  for (const std::int64_t padding : {0, 1, 0, 1}) {
    INFO(padding);
    convolution.options.padding = padding;
    const std::vector<double> expected = comparable(convolution.fresh());
    for (int call = 0; call < 4; ++call) CHECK(comparable(convolution()) == expected);
  }
}

TEST_CASE("kept weights: all batches and sizes of images share them", "[device]") {
  const Device device{"vectorized"};
  const NoGrad none;
  const Limit limit(64 * megabytes);
  for (const char* algorithm : {"rows", "winograd", "depthwise", "lines", "taps", "dots"}) {
    INFO(algorithm);
    const ForcedAlgorithm forced{"conv2d", algorithm};
    Convolution convolution(1, algorithm == std::string("depthwise") ? 16 : 1);
    for (int i = 0; i < 2; ++i) convolution();
    const KeptCount filled = kept_count();
    const Tensor whole = convolution.x;
    for (const std::int64_t batch : {2, 5})
      for (const std::int64_t width : {5, 12}) {
        Generator generator(7);
        convolution.x = randn({batch, whole.size(1), 9, width}, generator);
        CHECK(convolution() == convolution.fresh());
      }
    CHECK(kept_count().found >= filled.found + 4);
    CHECK(kept_count().bytes == filled.bytes);
  }
}

TEST_CASE("kept weights: nothing is kept above the bound, nor while gradients are recorded", "[device]") {
  const Device device{"vectorized"};
  Convolution convolution;
  const std::vector<double> expected = convolution.fresh();
  {
    const NoGrad none;
    const Limit limit(0);
    for (int i = 0; i < 3; ++i) CHECK(convolution() == expected);
    CHECK(kept_count().bytes == 0);
  }
  const Limit limit(64 * megabytes);
  convolution.weight.set_requires_grad();
  const KeptCount before = kept_count();
  for (int i = 0; i < 3; ++i) CHECK(convolution() == expected);
  CHECK(kept_count().found == before.found);
  CHECK(kept_count().bytes == before.bytes);
}

TEST_CASE("kept weights: threads that infer with one network have the bits of one", "[device]") {
  const Limit limit(64 * megabytes);
  Convolution convolution;
  const std::vector<double> expected = [&] {
    const Device device{"vectorized", {.threads = 1}};
    return convolution.fresh();
  }();
  for (int round = 0; round < 8; ++round) {
    convolution.weight = convolution.weight.clone();
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      threads.emplace_back([&, i] {
        const Device device{"vectorized", {.threads = 1}};
        const NoGrad none;
        for (int call = 0; call < 5; ++call) wrong[i] += convolution() != expected;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(4, 0));
  }
}

TEST_CASE("kept weights: linear layers have the bits of products, for any number of rows", "[device]") {
  const NoGrad none;
  const Limit limit(64 * megabytes);
  Generator generator(3);
  for (const auto& [in, out] : {std::pair{70, 90}, {600, 67}, {130, 1000}})
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Tensor weight = randn({out, in}, generator, 0, 1, dtype), bias = randn({out}, generator, 0, 1, dtype);
      const KeptCount before = kept_count();
      for (const std::int64_t rows : {1, 5, 13, 40, 197})
        for (const int threads : {1, 3}) {
          INFO(rows << " rows of " << in << " to " << out << ", " << threads << " threads");
          const Device device{"vectorized", {.threads = threads}};
          const Tensor x = randn({rows, in}, generator, 0, 1, dtype);
          for (const bool shifts : {true, false}) {
            const auto layer = [&](const Tensor& w) {
              return op::linear(x, w, shifts ? bias : Tensor{}, Activation::relu).values();
            };
            const std::vector<double> expected = layer(weight.clone());  // of weights that nobody has seen: a product
            for (int i = 0; i < 3; ++i) CHECK(layer(weight) == expected);
          }
        }
      CHECK(kept_count().arrays <= before.arrays + 1);  // one for all numbers of rows
      CHECK(kept_count().found > before.found + 10);
    }
  Tensor weight = randn({64, 64}, generator), x = randn({50, 64}, generator);
  const Device device{"vectorized"};
  for (int i = 0; i < 3; ++i) op::linear(x, weight);
  weight.fill_(2);
  CHECK(op::linear(x, weight).values() == op::linear(x, weight.clone()).values());
}

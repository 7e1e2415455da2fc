// inverted_residual in one kernel and by its convolutions: the same bits.

#include <limits>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

/// Channels last, as the layers of a network leave their results.
Tensor last(const Tensor& x) { return op::permute(op::permute(x, {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2}); }

double nans(const Tensor& x) { return op::sum(op::isnan(x).to(DType::float32)).item(); }

struct Residual {
  Tensor x, added;
  op::InvertedResidualWeights weights;
  op::InvertedResidualOptions options;

  Residual(std::int64_t images, std::int64_t side, std::int64_t channels, std::int64_t middle, std::int64_t outputs,
           std::int64_t kernel, std::int64_t stride) {
    Generator generator(7);
    x = last(randn({images, channels, side, side + 1}, generator));
    if (middle > 0) weights.expand = randn({middle, channels, 1, 1}, generator);
    if (middle > 0) weights.expand_bias = randn({middle}, generator);
    const std::int64_t wide = middle > 0 ? middle : channels;
    weights.depthwise = randn({wide, 1, kernel, kernel}, generator);
    weights.depthwise_bias = randn({wide}, generator);
    weights.project = randn({outputs, wide, 1, 1}, generator);
    options.stride = stride;
    options.padding = kernel / 2;
    if (stride == 1) added = last(randn({images, outputs, side, side + 1}, generator));
  }
  std::vector<double> operator()() const { return op::inverted_residual(x, weights, added, options).values(); }
  std::vector<double> composed() const {
    const ForcedAlgorithm forced{"inverted_residual", "composed"};
    std::vector<double> values = (*this)();
    CHECK(forced.taken() == 1);
    return values;
  }
};

}  // namespace

TEST_CASE("inverted residuals: one kernel has the bits of its convolutions, with any number of threads",
          "[operators][algorithms]") {
  const NoGrad none;
  const Residual all[]{{1, 30, 16, 96, 24, 3, 1}, {3, 23, 24, 72, 40, 3, 2}, {2, 7, 160, 960, 320, 3, 1},
                       {1, 33, 48, 0, 16, 3, 1},  {2, 15, 8, 40, 72, 5, 2},  {1, 9, 1030, 64, 8, 3, 1}};
  for (const Residual& residual : all)
    for (const int threads : {1, 2, 3, 8}) {
      INFO(residual.x << " in " << threads << " threads");
      const Device device{"vectorized", {.threads = threads}};
      const std::vector<double> expected = residual.composed();
      const ForcedAlgorithm forced{"inverted_residual", "fused"};
      CHECK(residual() == expected);
      CHECK(forced.taken() == 1);
    }
}

TEST_CASE("inverted residuals: weights over the padding that are not finite make NaN", "[operators][algorithms]") {
  const Device device{"vectorized"};
  const NoGrad none;
  for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Residual residual(1, 12, 16, 32, 16, 3, 1);
    residual.weights.depthwise.slice(0, 5, 6).fill_(value);
    const Tensor fused = op::inverted_residual(residual.x, residual.weights, residual.added, residual.options);
    const Device reference{"sequential"};
    const Tensor expected = op::inverted_residual(residual.x, residual.weights, residual.added, residual.options);
    CHECK(nans(fused) == nans(expected));
    CHECK(nans(fused) > 0);
  }
}

TEST_CASE("inverted residuals: packed weights are kept until one of them changes", "[operators][algorithms]") {
  const Device device{"vectorized"};
  const NoGrad none;
  Residual residual(1, 14, 16, 48, 16, 3, 1);
  for (int i = 0; i < 3; ++i) residual();
  CHECK(residual() == residual.composed());
  for (Tensor* weight : {&residual.weights.expand, &residual.weights.depthwise, &residual.weights.project}) {
    const std::vector<double> before = residual();
    weight->fill_(0.25);
    CHECK(residual() != before);
    CHECK(residual() == residual.composed());
    for (int i = 0; i < 3; ++i) residual();
  }
}

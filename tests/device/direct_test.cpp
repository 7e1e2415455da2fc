// Convolutions with few outputs of a group, channels first: the vectorized mode reads taps where they lie. Sizes drawn
// at random, beside the reference.

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

struct Drawn {
  Tensor x, weight, bias;
  op::Conv2dOptions options;

  std::vector<double> run(const char* mode, int threads) const {
    const Device device{mode, {.threads = threads}};
    return op::conv2d(x, weight, bias, options).values();
  }
};

bool like(double found, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::fabs(found - expected) <= tolerance * (1 + std::fabs(expected));
}

}  // namespace

TEST_CASE("direct: convolutions with few outputs are those of the reference, for any number of threads",
          "[device][direct]") {
  std::mt19937 random(40);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  int runs = 0;
  while (runs < 200) {
    const std::int64_t groups = draw(0, 1) == 0 ? 1 : draw(2, 5), c = draw(1, 6), o = draw(1, draw(0, 3) == 0 ? 40 : 9);
    const std::int64_t H = draw(1, 24), W = draw(1, 70), KH = draw(1, 7), KW = draw(1, 7);
    const auto side = [&](int most) { return draw(0, 2) == 0 ? 1 : draw(1, most); };
    Drawn one;
    one.options = {.stride = {side(4), side(4)},
                   .padding = {draw(0, 4), draw(0, 4)},
                   .dilation = {side(3), side(3)},
                   .groups = groups,
                   .activation = draw(0, 1) == 0 ? Activation::none : Activation::relu};
    if (draw(0, 2) == 0) one.options.padding = 0;
    const auto& q = one.options;
    if (H + 2 * q.padding.h < q.dilation.h * (KH - 1) + 1 || W + 2 * q.padding.w < q.dilation.w * (KW - 1) + 1)
      continue;
    const DType dtype = draw(0, 2) == 0 ? DType::float64 : DType::float32;
    Generator generator(static_cast<std::uint64_t>(++runs));
    one.x = randn({draw(1, 3), groups * c, H, W}, generator, 0, 1, dtype);
    one.weight = randn({groups * o, c, KH, KW}, generator, 0, 1, dtype);
    if (draw(0, 1) == 0) one.bias = randn({groups * o}, generator, 0, 1, dtype);
    if (draw(0, 9) == 0) op::slice(one.weight, 0, 0, 1).fill_(std::numeric_limits<double>::infinity());
    INFO("case " << runs << ": " << name_of(dtype) << ' ' << one.x.shape() << " by " << one.weight.shape()
                 << ", stride " << q.stride.h << 'x' << q.stride.w << ", padding " << q.padding.h << 'x' << q.padding.w
                 << ", dilation " << q.dilation.h << 'x' << q.dilation.w);
    const std::vector<double> expected = one.run("sequential", 1);
    const ForcedAlgorithm planar{"conv2d", "im2col"};
    const std::vector<double> found = one.run("vectorized", 1);
    std::size_t wrong = 0, others = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      wrong += !like(found[i], expected[i], dtype == DType::float64 ? 1e-12 : 2e-4);
    CHECK(wrong == 0);
    for (const int threads : {2, 3, 5}) {
      const std::vector<double> shared = one.run("vectorized", threads);
      for (std::size_t i = 0; i < found.size(); ++i) others += !like(shared[i], found[i], 0);
    }
    CHECK(others == 0);
  }
}

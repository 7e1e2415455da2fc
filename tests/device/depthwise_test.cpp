// The vectorized mode's algorithm of depthwise convolutions, forced in all three passes, beside the reference: sizes
// drawn at random.

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Results = std::vector<std::vector<double>>;

/// How the images lie.
enum class Form { planar, last, channels_of_more, rows_of_more, turned };

Tensor lying(const Tensor& x, Form form) {
  const Tensor last = op::permute(op::permute(x, {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2});
  const std::int64_t C = x.size(1), H = x.size(2);
  switch (form) {
    case Form::planar:
      break;
    case Form::last:
      return last;
    case Form::channels_of_more:
      return op::slice(op::permute(op::permute(op::cat({x, last}, 1), {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2}), 1, 0,
                       C);
    case Form::rows_of_more:
      return op::slice(op::cat({x, x}, 2), 2, 0, H);
    case Form::turned:
      return op::permute(op::permute(x, {0, 1, 3, 2}).contiguous(), {0, 1, 3, 2});
  }
  return x;
}

struct Case {
  Tensor x, weight, bias;
  op::Conv2dOptions options;
  Form form = Form::planar;

  Results run(const char* mode, int threads) const {
    const Device device{mode, {.threads = threads}};
    Tensor in = x.detach().clone().set_requires_grad(), kernel = weight.detach().clone().set_requires_grad();
    Tensor shift = bias.defined() ? bias.detach().clone().set_requires_grad() : bias;
    const Tensor y = op::conv2d(lying(in, form), kernel, shift, options);
    Generator generator(7);
    y.backward(lying(randn(y.shape(), generator, 0, 1, y.dtype()), form));
    Results results{y.values(), in.grad().values(), kernel.grad().values()};
    if (shift.defined()) results.push_back(shift.grad().values());
    return results;
  }
};

/// Bit for bit, but that a NaN is like any other.
bool same(const Results& a, const Results& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j)
      if (a[i][j] != b[i][j] && !(std::isnan(a[i][j]) && std::isnan(b[i][j]))) return false;
  return a.size() == b.size();
}

/// The largest difference, in units of 1 and of the value; infinity where only one is finite.
double difference(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double a = found[i], b = expected[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::fabs(a - b) / (1 + std::fabs(b)));
  }
  return most;
}

}  // namespace

TEST_CASE("depthwise: all three passes are those of the reference, for any number of threads", "[device][depthwise]") {
  std::mt19937 random(39);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  int runs = 0;
  while (runs < 150) {
    const std::int64_t N = draw(1, 3), C = draw(0, 4) == 0 ? draw(2, 130) : draw(2, 37), H = draw(1, 13),
                       W = draw(1, 19);
    const std::int64_t KH = draw(1, 7), KW = draw(1, 7);
    Case one;
    one.options = {.stride = {draw(1, 3), draw(1, 3)},
                   .padding = {draw(0, 4), draw(0, 4)},
                   .dilation = {draw(1, 2), draw(1, 2)},
                   .groups = C,
                   .activation = draw(0, 1) == 0 ? Activation::none : Activation::relu};
    const auto& o = one.options;
    if (H + 2 * o.padding.h < o.dilation.h * (KH - 1) + 1 || W + 2 * o.padding.w < o.dilation.w * (KW - 1) + 1)
      continue;
    const DType dtype = draw(0, 2) == 0 ? DType::float64 : DType::float32;
    one.form = static_cast<Form>(draw(0, 4));
    Generator generator(static_cast<std::uint64_t>(++runs));
    one.x = randn({N, C, H, W}, generator, 0, 1, dtype);
    one.weight = randn({C, 1, KH, KW}, generator, 0, 1, dtype);
    if (draw(0, 1) == 0) one.bias = randn({C}, generator, 0, 1, dtype);
    if (draw(0, 9) == 0) op::slice(one.weight, 0, 1, 2).fill_(std::numeric_limits<double>::infinity());
    INFO("case " << runs << ": " << name_of(dtype) << ' ' << one.x.shape() << " by " << one.weight.shape()
                 << ", stride " << o.stride.h << 'x' << o.stride.w << ", padding " << o.padding.h << 'x' << o.padding.w
                 << ", dilation " << o.dilation.h << 'x' << o.dilation.w << ", form " << static_cast<int>(one.form));
    const ForcedAlgorithm forward{"conv2d", "depthwise"}, to_x{"conv2d_grad_x", "depthwise"},
        to_weight{"conv2d_grad_weight", "depthwise"};
    const Results expected = one.run("sequential", 1);
    const Results found = one.run("vectorized", 1);
    for (const ForcedAlgorithm* const forced : {&forward, &to_x, &to_weight}) {
      CHECK(forced->taken() == 1);
      CHECK(forced->missed() == 0);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i);
      CHECK(difference(found[i], expected[i]) < (dtype == DType::float64 ? 1e-12 : 2e-4));
    }
    for (const int threads : {2, 3, 5}) CHECK(same(one.run("vectorized", threads), found));
  }
}

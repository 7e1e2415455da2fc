// A mode of your own: vectorized mode with one operator replaced. The library is unchanged, and everything built on the
// operator uses the new one: autograd, modules, training.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <tern/tern.hpp>

namespace op = tern::operators;
using tern::Device, tern::Tensor;

namespace {

std::atomic<long> calls = 0;

/// The slot's contract is in tern/kernels/dot.hpp. Sixteen columns at a time, so that a strip of `b` stays in the
/// cache.
void my_matmul(tern::Context&, float* out, const float* a, const float* b, const tern::kernels::Matmul& sizes) {
  ++calls;
  const auto [batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b] = sizes;
  constexpr std::int64_t strip = 16;
  for (std::int64_t matrix = 0; matrix < batch; ++matrix) {
    const float* left = a + matrix * stride_a;
    const float* right = b + matrix * stride_b;
    for (std::int64_t begin = 0; begin < n; begin += strip) {
      const std::int64_t width = std::min(strip, n - begin);
      for (std::int64_t i = 0; i < m; ++i) {
        float sums[strip] = {};
        for (std::int64_t l = 0; l < k; ++l) {
          const float factor = transpose_a ? left[l * m + i] : left[i * k + l];
          for (std::int64_t j = 0; j < width; ++j)
            sums[j] += factor * (transpose_b ? right[(begin + j) * k + l] : right[l * n + begin + j]);
        }
        for (std::int64_t j = 0; j < width; ++j) out[(matrix * m + i) * n + begin + j] = sums[j];
      }
    }
  }
}

/// A module on op::matmul.
class Net : public tern::nn::Module {
 public:
  explicit Net(tern::Generator& generator)
      : first_(parameter("first", tern::randn({20, 32}, generator, 0, 0.2))),
        last_(parameter("last", tern::randn({32, 4}, generator, 0, 0.2))) {}
  Tensor forward(const Tensor& x) const override { return op::matmul(op::relu(op::matmul(x, first_)), last_); }

 private:
  tern::nn::Parameter first_, last_;
};

/// The losses of a short training in one mode.
std::vector<double> train(const char* mode) {
  Device device{mode};
  tern::Generator generator{7};
  const Net net{generator};
  const Tensor x = tern::randn({64, 20}, generator), labels = op::argmax(x.slice(1, 0, 4));
  tern::optim::SGD sgd{net.parameters(), {.learning_rate = 0.5, .momentum = 0.9}};
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) {
    const Tensor loss = op::cross_entropy(net(x), labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

int fail(const char* sentence) {
  std::fprintf(stderr, "own_operator: %s\n", sentence);
  return 1;
}

int run() {
  tern::Mode mine = tern::mode("vectorized");
  mine.description = "vectorized, with a matrix product of its own";
  mine.operators.dot.matmul = my_matmul;
  tern::register_mode("mine", mine);

  tern::Generator generator{1};
  const Tensor a = tern::randn({3, 37, 29}, generator), b = tern::randn({29, 41}, generator);
  const auto product = [&](const char* mode) {
    Device device{mode};
    return op::matmul(a, b).values();
  };
  const auto own = product("mine"), theirs = product("vectorized");
  double largest = 0;
  for (std::size_t i = 0; i < own.size(); ++i) largest = std::max(largest, std::abs(own[i] - theirs[i]));
  std::printf("product of %s and %s: largest difference %.1e\n", "[3,37,29]", "[29,41]", largest);
  if (calls == 0) return fail("the own product was not called");
  if (!(largest < 1e-4)) return fail("the own product differs from vectorized's");

  const long before = calls;
  const auto losses = train("mine"), expected = train("vectorized");
  std::printf("20 training steps: loss %.4f -> %.4f (vectorized: %.4f), %ld own products\n", losses.front(),
              losses.back(), expected.back(), calls - before);
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (!(std::abs(losses[i] - expected[i]) <= 1e-3 * (1 + std::abs(expected[i])))) return fail("the losses differ");
  if (!(losses.back() < 0.5 * losses.front())) return fail("the training did not learn");
  // Two products forward and three backward in each step: the input needs no gradient.
  if (calls - before != 20 * 5) return fail("the training used another product");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const tern::Error& error) {
    std::fprintf(stderr, "own_operator: %s\n", error.what());
    return 1;
  }
}

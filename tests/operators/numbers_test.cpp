// What docs/numbers.md promises, beyond the catalogue's special numbers.

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// An array that ends where the process's memory ends: reading behind it is a signal.
class LastOfPage {
 public:
  explicit LastOfPage(std::int64_t n) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(float);
    size_ = (bytes + page - 1) / page * page + page;
    void* const pages = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expects(pages != MAP_FAILED && mprotect(static_cast<char*>(pages) + size_ - page, page, PROT_NONE) == 0, "no page");
    pages_ = pages;
    data_ = reinterpret_cast<float*>(static_cast<char*>(pages) + size_ - page - bytes);
    for (std::int64_t i = 0; i < n; ++i) data_[i] = static_cast<float>(i % 7) - 3;
  }
  LastOfPage(const LastOfPage&) = delete;
  LastOfPage& operator=(const LastOfPage&) = delete;
  ~LastOfPage() { munmap(pages_, size_); }
  float* data() const { return data_; }

 private:
  void* pages_;
  std::size_t size_;
  float* data_;
};

}  // namespace

TEST_CASE("numbers: a convolution reads nothing behind the end of its arrays", "[numbers]") {
  const Device device{"vectorized"};
  Context& context = current_scope().context;
  const auto& conv = device.mode().operators.conv;
  struct Sizes {
    std::int64_t N, C, H, W, O, K, stride, pad, groups = 1;
  };
  for (const auto& [N, C, H, W, O, K, stride, pad, groups] :
       {Sizes{1, 1, 5, 5, 3, 3, 1, 0}, Sizes{2, 3, 9, 7, 4, 3, 1, 0}, Sizes{1, 3, 12, 31, 8, 5, 2, 0},
        Sizes{3, 2, 6, 6, 2, 1, 1, 0}, Sizes{1, 20, 12, 12, 50, 5, 1, 0}, Sizes{2, 1, 28, 28, 20, 5, 1, 2},
        Sizes{1, 4, 3, 17, 5, 2, 1, 0}, Sizes{1, 9, 7, 6, 9, 3, 1, 1, 9}, Sizes{2, 17, 9, 8, 17, 5, 2, 2, 17}})
    for (const kernels::Layout layout : {kernels::Layout::channels_first, kernels::Layout::channels_last}) {
      const std::int64_t OH = (H + 2 * pad - K) / stride + 1, OW = (W + 2 * pad - K) / stride + 1;
      const kernels::Conv2d shape{.N = N,
                                  .C = C,
                                  .H = H,
                                  .W = W,
                                  .O = O,
                                  .KH = K,
                                  .KW = K,
                                  .OH = OH,
                                  .OW = OW,
                                  .stride_h = stride,
                                  .stride_w = stride,
                                  .pad_h = pad,
                                  .pad_w = pad,
                                  .groups = groups,
                                  .layout = layout};
      const LastOfPage x(N * C * H * W), weight(O * C / groups * K * K), bias(O), y(N * O * OH * OW),
          g(N * O * OH * OW);
      const LastOfPage grad_x(N * C * H * W), grad_weight(O * C / groups * K * K), grad_bias(O);
      conv.conv2d(context, y.data(), x.data(), weight.data(), bias.data(), shape);
      conv.conv2d_backward(context, grad_x.data(), grad_weight.data(), grad_bias.data(), g.data(), x.data(),
                           weight.data(), y.data(), shape);
      CHECK(std::isfinite(y.data()[0]));
    }
}

TEST_CASE("numbers: the padding of depthwise convolutions is multiplied", "[numbers]") {
  const op::Conv2dOptions options{.padding = 3, .groups = 8};
  const auto run = [&](const Tensor& x_in, const Tensor& weight_in, const Tensor& grad) {
    Tensor x = x_in.clone().set_requires_grad(), weight = weight_in.clone().set_requires_grad();
    const Tensor y = op::conv2d(x, weight, {}, options);
    y.backward(grad);
    return std::vector<std::vector<double>>{y.values(), x.grad().values(), weight.grad().values()};
  };
  Generator generator(3);
  const Tensor x = randn({2, 8, 6, 5}, generator), weight = randn({8, 1, 3, 3}, generator);
  const Tensor grad = randn({2, 8, 10, 9}, generator);
  const auto at = [](Tensor tensor, std::int64_t i) -> float& {
    return tensor.write<float>()[static_cast<std::size_t>(i)];
  };
  at(x, 100) = infinity;
  for (const int place : {0, 1, 2}) {
    INFO((place == 0 ? "finite" : place == 1 ? "an infinite weight" : "an infinite gradient, over the padding alone"));
    const Tensor some_weight = weight.clone(), some_grad = grad.clone();
    if (place == 1) at(some_weight, 0) = infinity;
    if (place == 2) at(some_grad, 0) = infinity;
    std::vector<std::vector<double>> found;
    {
      const Device device{"vectorized"};
      found = run(x, some_weight, some_grad);
    }
    const Device reference{"sequential"};
    const auto expected = run(x, some_weight, some_grad);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t j = 0; j < expected[i].size(); ++j) {
        INFO("result " << i << " element " << j);
        if (std::isnan(expected[i][j]))
          REQUIRE(std::isnan(found[i][j]));
        else if (std::isinf(expected[i][j]))
          REQUIRE(found[i][j] == expected[i][j]);
        else
          REQUIRE(found[i][j] == Approx(expected[i][j]).epsilon(1e-3).margin(1e-4));
      }
  }
}

TEST_CASE("numbers: Winograd gives what it cannot carry to another algorithm", "[numbers]") {
  const Device device{"vectorized"};
  Generator generator(3);
  const auto run = [&](const Tensor& x_in, const Tensor& weight_in) {
    Tensor x = x_in.clone().set_requires_grad(), weight = weight_in.clone().set_requires_grad();
    const Tensor y = op::conv2d(x, weight, {}, {.padding = 1});
    op::sum(y).backward();
    return std::vector<std::vector<double>>{y.values(), x.grad().values(), weight.grad().values()};
  };
  const ForcedAlgorithm forward{"conv2d", "winograd"}, to_x{"conv2d_grad_x", "winograd"},
      to_weight{"conv2d_grad_weight", "winograd"};
  const Tensor ones_of_weight = full({16, 16, 3, 3}, 1e-38);
  const std::vector<double> y = op::conv2d(full({1, 16, 12, 12}, 2e38), ones_of_weight).values();
  for (const double value : y) CHECK(value == Approx(288).epsilon(1e-4));
  CHECK(forward.taken() == 1);
  CHECK(forward.missed() == 1);  // rows, afterwards

  Tensor x = randn({2, 16, 13, 12}, generator), weight = randn({16, 16, 3, 3}, generator);
  const auto at = [](Tensor& tensor, std::int64_t i) -> float& {
    return tensor.write<float>()[static_cast<std::size_t>(i)];
  };
  CHECK(run(x, weight).size() == 3);
  CHECK(forward.missed() == 1);  // ordinary numbers: Winograd alone
  at(x, 100) = infinity;
  at(weight, 77) = std::nanf("");
  const auto winograd = run(x, weight);
  const Device reference{"sequential"};
  const auto expected = run(x, weight);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      INFO("result " << i << " element " << j);
      if (std::isnan(expected[i][j]))
        REQUIRE(std::isnan(winograd[i][j]));
      else if (std::isinf(expected[i][j]))
        REQUIRE(winograd[i][j] == expected[i][j]);
      else
        REQUIRE(std::abs(winograd[i][j] - expected[i][j]) < 1e-2);
    }
}

TEST_CASE("numbers: sums of ten million terms in sequential", "[numbers]") {
  const Device device{"sequential"};
  const Tensor a = full({1, 10'000'000}, 1e-3), b = ones({1, 10'000'000});
  CHECK(op::matmul(a, b, {.transpose_b = true}).item() == Approx(1e4).epsilon(1e-6));
  CHECK(op::linear(a, b).item() == Approx(1e4).epsilon(1e-6));
}

TEST_CASE("numbers: AdamW leaves the moments of an infinite parameter alone", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    INFO(mode);
    const Device device{mode};
    Tensor p = full({3}, infinity), m = zeros({3}), v = zeros({3}), step = zeros({}, DType::int64);
    op::adam({p}, {ones({3})}, {m}, {v}, full({}, 0.1), step, {.weight_decay = 0.01, .decoupled = true});
    for (const double value : m.values()) CHECK(value == Approx(0.1));
    for (const double value : v.values()) CHECK(value == Approx(0.001));
  }
}

TEST_CASE("numbers: squares beyond the range", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    INFO(mode);
    const Device device{mode};
    Generator generator(5);
    for (const Shape& shape : {Shape{4, 3, 5, 7}, Shape{64, 19}}) {
      const Tensor small = randn(shape, generator), large = op::mul(small, 1e30);
      const Tensor one = op::batch_norm(op::mul(small, 1e5), {}, {}, {}, {}),
                   other = op::batch_norm(large, {}, {}, {}, {});
      const auto a = one.values(), b = other.values();
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-4);
    }
    // x / (k + alpha / size x^2)^(3 / 4) of one channel
    const Tensor y = op::local_response_norm(full({1, 1, 3, 3}, 1e22), {.size = 1, .alpha = 1, .k = 1});
    for (const double value : y.values()) CHECK(value == Approx(1e-11).epsilon(1e-4));
  }
}

TEST_CASE("numbers: a NaN reaches the gradient of every rectifier", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device{mode};
    for (const auto& rectify : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& x) { return op::relu(x); }, [](const Tensor& x) { return op::elu(x); },
             [](const Tensor& x) { return op::selu(x); }, [](const Tensor& x) { return op::celu(x, 2); },
             [](const Tensor& x) { return op::prelu(x, full({1}, 0.25)); }}) {
      Tensor x = tensor<float>({std::nanf(""), 3});
      x.set_requires_grad();
      const Tensor y = rectify(x);
      y.backward(full({2}, 2));
      INFO(mode << ", " << to_string(y) << to_string(x.grad()));
      CHECK(std::isnan(y.values()[0]));
      CHECK(!(x.grad().values()[0] == 0));
      CHECK(x.grad().values()[1] == Approx(2 * y.values()[1] / 3));
    }
  }
}

TEST_CASE("numbers: rows that are ignored have no part in a weighted, smoothed loss", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    INFO(mode);
    const Device device{mode};
    const auto gradient = [](const Tensor& values, const Tensor& labels) {
      Tensor logits = values.clone();
      logits.set_requires_grad();
      op::cross_entropy(logits, labels, {.ignore_index = 0, .label_smoothing = 0.1, .weight = full({3}, 2)}).backward();
      return logits.grad().values();
    };
    for (const double element : gradient(ones({2, 3}), zeros({2}, DType::int64))) CHECK(element == 0);
    const Tensor bad = tensor<float>({1, 2, 3, infinity, 0, 0}, {2, 3});
    const std::vector<double> one = gradient(bad, tensor<std::int64_t>({1, 0})),
                              alone = gradient(bad.slice(0, 0, 1), tensor<std::int64_t>({1}));
    for (std::size_t i = 0; i < 3; ++i) CHECK(one[i] == alone[i]);
  }
}

TEST_CASE("numbers: a deviation of neighbours keeps its digits", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    const Device device{mode};
    for (const float base : {10.0f, 1e5f, 3e37f, 3.4e38f, 1e-30f}) {
      INFO(mode << ", " << base);
      const float next = std::nextafter(base, 0.0f), third = std::nextafter(next, 0.0f);
      const Tensor x = tensor<float>({base, third, base});
      // {0, -d, 0} deviates by d / sqrt(3).
      CHECK(op::std(x).item() == Approx((double{base} - double{third}) / std::sqrt(3.0)).epsilon(1e-5));
      if (base < 1e38f) CHECK(op::norm(x).item() == Approx(std::sqrt(3.0) * base).epsilon(1e-6));
    }
  }
}

TEST_CASE("numbers: gradients of a deviation and a length near the end of the range", "[numbers]") {
  for (const char* mode : {"sequential", "vectorized"}) {
    INFO(mode);
    const Device device{mode};
    Tensor x = tensor<float>({1, 2, 1.5e38f});
    x.set_requires_grad();
    op::std(x).backward(full({}, 4));
    const std::vector<double> deviation = x.grad().values();
    CHECK(deviation[0] == Approx(-4 * std::sqrt(3.0) / 6));
    CHECK(deviation[1] == Approx(-4 * std::sqrt(3.0) / 6));
    CHECK(deviation[2] == Approx(4 * std::sqrt(3.0) / 3));
    x.zero_grad();
    op::norm(x).backward(full({}, 4));
    const std::vector<double> length = x.grad().values();
    CHECK(length[0] == Approx(4 / 1.5e38));
    CHECK(length[1] == Approx(8 / 1.5e38));
    CHECK(length[2] == Approx(4));
  }
}

TEST_CASE("numbers: a normalised gradient whose factors' product is below the range", "[numbers]") {
  // 1e-18 and 1e-26: two digits are left of their product, seven of the gradient, which is 1e-8.
  const std::vector<float> x{1e18f, -2e18f, 3e18f, -1e18f}, g{1e36f, 2e36f, -1e36f, 3e36f};
  const double count = 4, weight = 1.1e-26f;
  double mean = 0, var = 0, sum = 0, product = 0;
  for (const double value : x) mean += value / count;
  for (const double value : x) var += (value - mean) * (value - mean) / count;
  const double inverse = 1 / std::sqrt(var + 1e-5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += g[i];
    product += g[i] * (x[i] - mean) * inverse;
  }
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name};
    const Tensor in = tensor(x, {4, 1, 1, 1}).set_requires_grad();
    const Tensor y = op::batch_norm(in, full({1}, weight), zeros({1}), {}, {});
    y.backward(tensor(g, {4, 1, 1, 1}));
    const std::vector<double> found = in.grad().values();
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(found[i] ==
            Approx(inverse * weight * (g[i] - sum / count - (x[i] - mean) * inverse * product / count)).epsilon(1e-5));
  }
}

TEST_CASE("numbers: more memory than is free is requested and refused", "[numbers]") {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double total = 0, available = 0;  // KiB
  while (file >> word) {
    if (word == "MemTotal:") file >> total;
    if (word == "MemAvailable:") file >> available;
  }
  REQUIRE(total > available);
  // Between the two the system would promise what it does not have.
  const auto elements = static_cast<std::int64_t>((total + available) / 2 * 1024 / sizeof(float));
  if (elements < (std::int64_t{1} << 28)) return;
  CHECK_THROWS_AS(Tensor({elements}).write<float>(), OutOfMemory);
}

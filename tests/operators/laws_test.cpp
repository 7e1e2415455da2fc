// Laws that tie operators to each other, in every mode; integers make them exact.

#include <cmath>
#include <limits>

#include "support/algorithms.hpp"
#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

/// Integers from -4 to 4 as float32, so that sums of their products are exact.
Tensor integers(const Shape& shape, Generator& generator) {
  return randint(-4, 5, shape, generator).to(DType::float32);
}

bool same(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && a.values() == b.values(); }

double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

template <class Body>
void in_every_mode(const Body& body) {
  for (const std::string& name : testing::available_modes()) {
    INFO("mode " << name);
    const Device device{name};
    Generator generator(17);
    body(generator);
  }
}

}  // namespace

TEST_CASE("laws: arithmetic", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor a = integers({33, 17}, generator), b = integers({17}, generator), c = integers({33, 1}, generator);
    CHECK(same(op::add(a, b), op::add(b, a)));
    CHECK(same(op::mul(op::add(a, b), c), op::add(op::mul(a, c), op::mul(b, c))));
    CHECK(same(op::sub(a, b), op::add(a, op::neg(b))));
    CHECK(same(op::neg(op::maximum(a, b)), op::minimum(op::neg(a), op::neg(b))));
    CHECK(same(op::abs(a), op::maximum(a, op::neg(a))));
    CHECK(same(op::where(op::less(a, b), a, b), op::minimum(a, b)));
    CHECK(distance(op::log(op::exp(a)), a) < 1e-5);
  });
}

TEST_CASE("laws: products", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor a = integers({37, 29}, generator), b = integers({29, 41}, generator),
                 c = integers({29, 41}, generator);
    CHECK(same(op::matmul(a, op::add(b, c)), op::add(op::matmul(a, b), op::matmul(a, c))));
    CHECK(same(op::matmul(a, b).transpose(0, 1), op::matmul(b.transpose(0, 1), a.transpose(0, 1))));
    CHECK(same(op::matmul(a, eye(29, DType::float32)), a));
    CHECK(same(op::matmul(a, b), op::matmul(a.transpose(0, 1), b, {.transpose_a = true})));
    CHECK(same(op::linear(a, b.transpose(0, 1)), op::matmul(a, b)));
    const Tensor batch = integers({3, 5, 29}, generator);
    CHECK(same(op::matmul(batch, b).slice(0, 1, 2).squeeze(0), op::matmul(batch.slice(0, 1, 2).squeeze(0), b)));
  });
}

TEST_CASE("laws: a convolution gives the same results where the mode may choose its algorithm freely", "[laws]") {
  for (const std::string& name : testing::available_modes()) {
    INFO("mode " << name);
    const auto results = [&](bool deterministic, const Shape& input, const Shape& weight, std::int64_t stride) {
      const Device device{name, {.deterministic = deterministic}};
      Generator generator(5);
      Tensor x = randn(input, generator), w = randn(weight, generator), b = randn({weight[0]}, generator);
      std::vector<Tensor> found;
      for (int i = 0; i < 2; ++i) {  // a first use may be a trial
        for (Tensor* leaf : {&x, &w, &b}) {
          leaf->zero_grad();
          leaf->set_requires_grad();
        }
        const Activation activation = stride == 1 ? Activation::relu : Activation::none;
        const Tensor y = op::conv2d(x, w, b, {.stride = stride, .padding = 1, .activation = activation});
        y.backward(y.detach() + 0.5);
        found.insert(found.end(), {y.detach(), x.grad(), w.grad(), b.grad()});
      }
      return found;
    };
    const auto compare = [&](const Shape& input, const Shape& weight, std::int64_t stride) {
      INFO("stride " << stride);
      const std::vector<Tensor> fixed = results(true, input, weight, stride),
                                free = results(false, input, weight, stride);
      for (std::size_t i = 0; i < fixed.size(); ++i) {
        const double largest = op::max(op::abs(fixed[i])).item();
        CHECK(distance(fixed[i], free[i]) < 2e-5 * largest);
      }
    };
    compare({2, 16, 22, 19}, {24, 16, 3, 3}, 1);
    compare({2, 3, 61, 57}, {64, 3, 7, 7}, 2);
  }
}

TEST_CASE("laws: a convolution of few positions and many channels gives the same bits for any number of threads",
          "[laws]") {
  struct Sizes {
    std::int64_t N, C, side, O, kernel, groups, stride;
  };
  // Threads share out positions, or channels where those are too few, or both.
  for (const auto& [N, C, side, O, kernel, groups, stride] :
       {Sizes{1, 128, 13, 192, 3, 1, 1}, Sizes{1, 192, 13, 256, 3, 2, 1}, Sizes{2, 48, 7, 128, 5, 1, 1},
        Sizes{3, 96, 6, 208, 3, 1, 1}, Sizes{1, 256, 7, 96, 1, 1, 1}, Sizes{2, 3, 61, 64, 7, 1, 2}}) {
    INFO(C << " to " << O << " channels, " << kernel << 'x' << kernel << ", stride " << stride << ", groups "
           << groups);
    std::vector<std::vector<double>> first;
    for (const int threads : {1, 2, 3, 8, 21}) {
      const Device device{"vectorized", {.threads = threads}};
      Generator generator(3);
      const Tensor x = randn({N, C, side, side}, generator).set_requires_grad();
      const Tensor weight = randn({O, C / groups, kernel, kernel}, generator).set_requires_grad();
      const Tensor bias = randn({O}, generator).set_requires_grad();
      const Tensor y = op::conv2d(x, weight, bias, {.stride = stride, .padding = kernel / 2, .groups = groups});
      op::sum(op::mul(y, y)).backward();
      const std::vector<std::vector<double>> results{y.values(), x.grad().values(), weight.grad().values(),
                                                     bias.grad().values()};
      if (first.empty()) first = results;
      INFO(threads << " threads");
      CHECK(results == first);
    }
  }
}

TEST_CASE("laws: a convolution is linear, shifts with its input and falls apart into groups", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor x = integers({2, 4, 9, 10}, generator), y = integers({2, 4, 9, 10}, generator);
    const Tensor w = integers({6, 4, 3, 3}, generator);
    CHECK(same(op::conv2d(op::add(x, y), w), op::add(op::conv2d(x, w), op::conv2d(y, w))));
    const Tensor shifted = op::pad(x, {{.dim = 2, .before = 1}, {.dim = 3, .before = 2}});
    CHECK(same(op::conv2d(shifted, w).slice(2, 1, 8).slice(3, 2, 10), op::conv2d(x, w)));
    CHECK(same(op::conv2d(x, w, {}, {.padding = 1}),
               op::conv2d(op::pad(x, {{.dim = 2, .before = 1, .after = 1}, {.dim = 3, .before = 1, .after = 1}}), w)));
    const Tensor grouped = integers({6, 2, 3, 3}, generator);
    const Tensor parts = op::cat(
        {op::conv2d(x.slice(1, 0, 2), grouped.slice(0, 0, 3)), op::conv2d(x.slice(1, 2, 4), grouped.slice(0, 3, 6))},
        1);
    CHECK(same(op::conv2d(x, grouped, {}, {.groups = 2}), parts));
    // A 1x1 kernel is a matrix product, and a kernel as large as the image a linear layer.
    const Tensor one = integers({5, 4, 1, 1}, generator);
    CHECK(same(op::conv2d(x, one).flatten(2), op::matmul(one.reshape({5, 4}), x.flatten(2))));
    const Tensor whole = integers({3, 4, 9, 10}, generator);
    CHECK(same(op::conv2d(x, whole).flatten(1), op::linear(x.flatten(1), whole.flatten(1))));
    CHECK(same(op::conv2d(x, w, {}, {.stride = 2}), op::conv2d(x, w).slice(2, 0, 7, 2).slice(3, 0, 8, 2)));
  });
}

TEST_CASE("laws: pooling and reductions", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor x = integers({3, 4, 8, 12}, generator);
    CHECK(same(op::max_pool2d(x, {8, 12}).flatten(2).squeeze(2), op::max(x, {2, 3})));
    CHECK(same(op::avg_pool2d(x, {2, 4}), op::adaptive_avg_pool2d(x, {4, 3})));
    CHECK(distance(op::global_avg_pool2d(x), op::mean(x, {2, 3}, true)) < 1e-6);
    CHECK(same(op::sum(op::sum(x, {1}), {1}), op::sum(x, {1, 2})));
    CHECK(same(op::sum(x, {0, 1, 2, 3}), op::sum(x)));
    CHECK(same(op::neg(op::max(op::neg(x), {1})), op::min(x, {1})));
    const Tensor flat = x.flatten(1);
    CHECK(same(op::sum(op::mul(op::one_hot(op::argmax(flat, 1), flat.size(1)), flat), {1}), op::max(flat, {1})));
    CHECK(same(op::argmin(flat, 1), op::argmax(op::neg(flat), 1)));
  });
}

TEST_CASE("laws: softmax and its losses", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor x = randn({21, 13}, generator, 0, 3), labels = randint(0, 13, {21}, generator);
    const Tensor probabilities = op::softmax(x);
    CHECK(distance(op::sum(probabilities, {1}), ones({21})) < 1e-6);
    CHECK(distance(op::softmax(op::add(x, 100.0)), probabilities) < 1e-4);
    CHECK(distance(op::log_softmax(x), op::log(probabilities)) < 1e-4);
    CHECK(distance(op::cross_entropy(x, labels), op::nll(op::log_softmax(x), labels)) < 1e-6);
    const Tensor certain = op::mul(op::one_hot(labels, 13), 1e4);
    for (const double loss : op::cross_entropy(certain, labels, {.reduce = Reduce::none}).values()) {
      CHECK(loss >= 0);
      CHECK(!std::signbit(loss));
    }
    // Nothing reaches what a label does not name, not even what is infinite.
    Tensor named = op::log_softmax(x).detach();
    named.set_requires_grad();
    op::nll(named, labels).backward(full({}, std::numeric_limits<double>::infinity()));
    const std::vector<double> gradient = named.grad().values(), where = op::one_hot(labels, 13).values();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      CHECK(gradient[i] == (where[i] == 1 ? -std::numeric_limits<double>::infinity() : 0));
  });
}

TEST_CASE("laws: the gradient that a loss has ready for backward() is the one for a gradient of 1", "[laws]") {
  in_every_mode([](Generator& generator) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      for (const auto& [rows, classes] : {std::pair{1, 10}, {128, 10}, {600, 16}, {40, 100}, {300, 200}, {3, 3000}})
        for (const double smoothing : {0.0, 0.1})
          for (const Reduce reduce : {Reduce::mean, Reduce::sum}) {
            INFO(rows << " rows of " << classes << " " << name_of(dtype) << ", smoothing " << smoothing);
            Tensor logits = randn({rows, classes}, generator).to(dtype).set_requires_grad();
            const Tensor every = randint(0, classes, {rows}, generator);
            // Every third row does not count.
            const Tensor labels = op::where(op::equal(op::remainder(arange(1, 1 + rows), 3), 0), -100, every);
            const auto gradient = [&](const auto& backward) {
              logits.zero_grad();
              backward(op::cross_entropy(logits, labels, {.label_smoothing = smoothing, .reduce = reduce}));
              return logits.grad().clone();
            };
            const Tensor ready = gradient([](const Tensor& loss) { loss.backward(); });
            CHECK(same(ready, gradient([](const Tensor& loss) { loss.backward(ones({}, loss.dtype())); })));
            // Another gradient is not mistaken for it.
            const Tensor twice = gradient([&](const Tensor& loss) { op::mul(loss, 2).backward(); });
            CHECK(same(twice, op::mul(ready, 2)));
          }
  });
}

TEST_CASE("laws: moving elements loses none", "[laws]") {
  in_every_mode([](Generator& generator) {
    const Tensor x = integers({6, 5, 4}, generator);
    CHECK(same(op::cat(op::split(x, {1, 2, 3}, 0), 0), x));
    CHECK(same(op::cat(op::split(x, {2, 2}, 2), -1), x));
    CHECK(same(op::stack({x, x}, 1).slice(1, 1, 2).squeeze(1), x));
    CHECK(same(x.permute({2, 0, 1}).permute({1, 2, 0}), x));
    CHECK(same(op::pad(x, {{.dim = 1, .before = 2, .after = 1}}, 9).slice(1, 2, 7), x));
    CHECK(same(op::index_select(x, 0, arange(0, 6)), x));
    CHECK(same(op::index_select(x, 0, tensor<std::int64_t>({2, 0})), op::cat({x.slice(0, 2, 3), x.slice(0, 0, 1)}, 0)));
    CHECK(same(x.to(DType::int32).to(DType::bfloat16).to(DType::float32), x));
  });
}

TEST_CASE("laws: a view of more than 2^31 elements", "[laws]") {
  in_every_mode([](Generator&) {
    const Tensor huge = tensor<float>({1, 2, 3}).reshape({3, 1}).expand({3, std::int64_t{1} << 32});
    CHECK(huge.numel() == 3 * (std::int64_t{1} << 32));
    CHECK(huge.slice(1, (std::int64_t{1} << 32) - 2, std::int64_t{1} << 32).values() ==
          std::vector<double>{1, 1, 2, 2, 3, 3});
    CHECK(op::add(huge.slice(1, std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1), 1.0).values() ==
          std::vector<double>{2, 3, 4});
  });
}

TEST_CASE("laws: the example values of the documentation", "[laws]") {
  in_every_mode([](Generator&) {
    const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
    CHECK(op::conv2d(x, tensor<float>({1, 0, 0, -1}, {1, 1, 2, 2})).values() == std::vector<double>{-4, -4, -4, -4});
    CHECK(op::max_pool2d(x, 2, {.stride = Pair(1)}).values() == std::vector<double>{5, 6, 8, 9});
    CHECK(op::max_pool2d(x, 2, {.ceil_mode = true}).values() == std::vector<double>{5, 6, 8, 9});
    CHECK(op::avg_pool2d(x, 2, {.stride = Pair(1)}).values() == std::vector<double>{3, 4, 6, 7});
    CHECK(op::var(tensor<float>({1, 2, 3, 4})).item() == Approx(5.0 / 3));
    CHECK(op::cross_entropy(zeros({2, 10}), tensor<std::int64_t>({3, 4})).item() == Approx(std::log(10.0)));
    const Tensor normal =
        op::local_response_norm(tensor<float>({1, 2, 3}, {1, 3, 1}), {.size = 3, .alpha = 3, .beta = 1, .k = 1});
    CHECK(distance(normal, tensor<double>({1.0 / 6, 2.0 / 15, 3.0 / 14}, {1, 3, 1})) < 1e-6);
  });
}

TEST_CASE("laws: a convolution of more groups than a launch has layers", "[laws]") {
  in_every_mode([](Generator& generator) {
    constexpr std::int64_t groups = 70000;
    const Tensor x = integers({1, groups, 2, 1}, generator).set_requires_grad(),
                 weight = integers({groups, 1, 1, 1}, generator).set_requires_grad();
    const Tensor y = op::conv2d(x, weight, {}, {.groups = groups});
    CHECK(same(y, op::mul(x, weight.reshape({1, groups, 1, 1}))));
    op::sum(y).backward();
    CHECK(same(x.grad(), weight.detach().reshape({1, groups, 1, 1}).expand({1, groups, 2, 1})));
    CHECK(same(weight.grad(), op::sum(x.detach(), {2}).reshape({groups, 1, 1, 1})));
  });
}

TEST_CASE("laws: relu comes after the whole sum, however a product is cut", "[laws]") {
  Generator generator(11);
  for (const char* const algorithm : testing::algorithms_of(mode("vectorized"), "linear")) {
    const Device device{"vectorized", {.precision = testing::rounds(algorithm) ? Precision::bf16 : Precision::strict}};
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{80, 80, 1500}, {7, 6, 20'000}, {70, 75, 600}}) {
      INFO(message(algorithm, " ", m, " x ", n, " x ", k));
      const ForcedAlgorithm forced{"linear", algorithm};
      const Tensor x = randn({m, k}, generator), weight = randn({n, k}, generator), bias = randn({n}, generator);
      CHECK(op::linear(x, weight, bias, Activation::relu).values() == op::relu(op::linear(x, weight, bias)).values());
      CHECK(forced.taken() == 2);
    }
  }
}

TEST_CASE("laws: a gradient of a convolution does not depend on which others are wanted", "[laws]") {
  Generator generator(12);
  for (const auto& [C, O, size] : {std::array<std::int64_t, 3>{3, 5, 9}, {16, 24, 19}, {24, 16, 33}}) {
    const Tensor x = randn({2, C, size, size}, generator), weight = randn({O, C, 3, 3}, generator),
                 bias = randn({O}, generator);
    for (const char* name : {"sequential", "vectorized"}) {
      if (name == std::string("sequential") && C > 3) continue;  // has no second algorithm
      const Device device{name};
      const auto gradient = [&](int which) {  // of x, weight or bias, alone or (-1) together
        std::vector<Tensor> leaves{x.clone(), weight.clone(), bias.clone()};
        for (int i = 0; i < 3; ++i)
          if (which < 0 || which == i) leaves[static_cast<std::size_t>(i)].set_requires_grad();
        op::sum(op::conv2d(leaves[0], leaves[1], leaves[2], {.padding = 1, .activation = Activation::relu})).backward();
        return leaves;
      };
      const std::vector<Tensor> together = gradient(-1);
      for (int i = 0; i < 3; ++i) {
        INFO(message(name, ", ", C, " channels, argument ", i));
        const auto at = static_cast<std::size_t>(i);
        const std::vector<double> one = gradient(i)[at].grad().values(), all = together[at].grad().values();
        for (std::size_t j = 0; j < one.size(); ++j) REQUIRE(one[j] == Approx(all[j]).epsilon(1e-4).margin(1e-3));
      }
    }
  }
}

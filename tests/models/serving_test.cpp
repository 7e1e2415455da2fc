// Many threads call one module that is in eval(): each gets the answers that one alone gets. A run of this file under
// ThreadSanitizer sees what they share.

#include <atomic>
#include <latch>
#include <thread>

#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/load.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

constexpr int threads = 8;

/// Calls answer(thread, call) so often in each thread, beginning together; how many threw.
template <class Answer>
int serve(int calls, Answer answer) {
  std::latch begin(threads);
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&, thread] {
      begin.arrive_and_wait();
      for (int call = 0; call < calls; ++call) {
        try {
          answer(thread, call);
        } catch (const std::exception&) {
          ++failed;
        }
      }
    });
  for (std::thread& one : all) one.join();
  return failed;
}

void check_serving(const nn::Module& net, const Shape& shape, const char* mode, int calls) {
  INFO(net.describe() << " in " << mode);
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> expected;
  for (int i = 0; i < threads; ++i) {
    const Device device(mode, {.threads = 1});
    const NoGrad no_grad;
    Generator generator(static_cast<std::uint64_t>(i));
    inputs.push_back(rand(shape, generator));
    expected.push_back(net(inputs.back()).values());
  }
  std::atomic<int> wrong{0};
  const int failed = serve(calls, [&](int thread, int call) {
    const Device device(mode, {.threads = call % 2 + 1});
    const NoGrad no_grad;
    const auto which = static_cast<std::size_t>((thread + call) % threads);
    if (net(inputs[which]).values() != expected[which]) ++wrong;
  });
  CHECK(failed == 0);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("serving: many threads call one module", "[models][serving]") {
  for (const char* mode : {"sequential", "vectorized", "debug"}) {
    const int calls = std::string(mode) == "vectorized" ? 12 : 3;
    models::LeNet lenet(1);
    lenet.eval();
    check_serving(lenet, {2, 1, 28, 28}, mode, calls);

    nn::Sequential net(nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::Relu(), nn::MaxPool2d(2), nn::Dropout(0.5),
                       nn::Flatten(), nn::Linear(36, 8), nn::LayerNorm(Shape{8}), nn::Gelu(), nn::Linear(8, 3));
    net.eval();
    check_serving(net, {3, 2, 8, 8}, mode, calls);

    models::VisionTransformer transformer(
        {.classes = 3, .image_size = 8, .patch = 4, .width = 16, .layers = 2, .heads = 2, .hidden = 32}, 1);
    transformer.eval();
    check_serving(transformer, {2, 3, 8, 8}, mode, mode == std::string("vectorized") ? 12 : 2);
  }
}

TEST_CASE("serving: the first calls of all threads bring the weights over together", "[models][serving]") {
  for (int round = 0; round < 10; ++round) {
    models::LeNet net(1);
    net.eval();
    Tensor never_written({64});  // nothing is allocated before the first one reads it
    const Tensor image = ones({1, 1, 28, 28});
    std::atomic<int> wrong{0};
    const int failed = serve(1, [&](int, int) {
      const Device device("debug");
      const NoGrad no_grad;
      if (net(image).shape() != Shape{1, 10}) ++wrong;
      const Device host("vectorized");
      if (never_written.storage().read_host() == nullptr) ++wrong;
    });
    CHECK(failed == 0);
    CHECK(wrong == 0);
  }
}

TEST_CASE("serving: an error of one thread says where, and the others go on", "[models][serving]") {
  nn::Sequential net(nn::Linear(4, 4), nn::Sequential(nn::Linear(4, 2)));
  net.eval();
  std::atomic<int> named{0};
  const int failed = serve(20, [&](int thread, int) {
    const NoGrad no_grad;
    if (thread % 2 == 0) {
      net(ones({1, 4}));
      return;
    }
    try {
      net(ones({1, 5}));
    } catch (const ShapeError& error) {
      if (std::string(error.what()).find("0, Linear(4, 4") != std::string::npos) ++named;
      throw;
    }
  });
  CHECK(failed == threads / 2 * 20);
  CHECK(named == failed);
}

TEST_CASE("serving: threads that record have gradients of their own inputs", "[models][serving]") {
  models::LeNet net(1);
  net.eval();
  nn::freeze(net, {"*"});
  std::atomic<int> wrong{0};
  const Tensor labels = zeros({1}, DType::int64);
  const auto gradient_of = [&](const Tensor& image) {
    Tensor x = image.clone().set_requires_grad();
    op::cross_entropy(net(x), labels).backward();
    return x.grad().values();
  };
  const Tensor image = full({1, 1, 28, 28}, 0.5);
  const std::vector<double> expected = gradient_of(image);
  const int failed = serve(5, [&](int, int) {
    if (gradient_of(image) != expected) ++wrong;
  });
  CHECK(failed == 0);
  CHECK(wrong == 0);
}

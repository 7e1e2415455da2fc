// What typical mistakes are told, word for word: operator, expected, came, what to try.

#include "support/catch.hpp"
#include "tern/core/create.hpp"
#include "tern/device/device.hpp"
#include "tern/operators/operators.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

struct Mistake {
  const char* message;
  std::function<void()> call;
};

Tensor labels(std::initializer_list<std::int64_t> values) { return tensor<std::int64_t>(values); }

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"conv2d: input has 3 channels, weight [6,1,5,5] expects 1 (input [32,3,28,28])",
       [] { op::conv2d(ones({32, 3, 28, 28}), ones({6, 1, 5, 5})); }},
      {"", [] { op::conv2d(ones({1, 4, 8, 8}), ones({6, 1, 5, 5}), {}, {.groups = 2}); }},
      {"", [] { op::conv2d(ones({28, 28}), ones({6, 1, 5, 5})); }},
      {"", [] { op::conv2d(ones({1, 1, 3, 28}), ones({6, 1, 5, 5})); }},
      {"", [] { op::conv2d(ones({1, 1, 8, 8}), ones({6, 1, 5, 5}), ones({5})); }},
      {"", [] { op::add(ones({2, 3}), ones({4})); }},
      {"", [] { op::add(ones({2}), ones({2}, DType::float64)); }},
      {"", [] { op::relu(ones({2}, DType::int32)); }},
      {"", [] { op::add(Tensor(), ones({2})); }},
      {"", [] { op::where(ones({2}), ones({2}), ones({2})); }},
      {"", [] { op::matmul(ones({2, 3}), ones({4, 5})); }},
      {"", [] { op::matmul(ones({2, 2, 3}), ones({3, 3, 5})); }},
      {"", [] { op::linear(ones({32, 784}), ones({10, 800})); }},
      {"", [] { op::linear(ones({32, 784}), ones({10, 784}), ones({11})); }},
      {"", [] { op::max_pool2d(ones({1, 1, 8, 8}), 3, {.padding = 2}); }},
      {"", [] { op::max_pool2d(ones({1, 1, 40, 40}), 20); }},
      {"", [] { op::avg_pool2d(ones({1, 1, 2, 2}), 3); }},
      {"", [] { op::softmax(ones({2, 3}), 2); }},
      {"", [] { op::sum(ones({2, 3}), {0, -2}); }},
      {"", [] { op::max(ones({3, 0}), {1}); }},
      {"", [] { op::cross_entropy(ones({4, 10}), labels({1, 2, 10, 3})); }},
      {"", [] { op::cross_entropy(ones({4, 10}), ones({4})); }},
      {"", [] { op::cross_entropy(ones({4, 10}), labels({1, 2, 3})); }},
      {"", [] { op::mse(ones({4, 1}), ones({4})); }},
      {"", [] { ones({2, 3}).reshape({4, 2}); }},
      {"", [] { ones({2, 3}).reshape({-1, 4}); }},
      {"", [] { ones({2, 3}).slice(1, 0, 4); }},
      {"", [] { op::cat({ones({2, 3}), ones({4, 5})}, 0); }},
      {"", [] { op::gather(ones({5, 2}), labels({0, 5})); }},
      {"", [] { op::batch_norm(ones({8, 3, 4, 4}), ones({4}), ones({4}), ones({3}), ones({3})); }},
      {"", [] { op::dropout(ones({2}), 1.5, true); }},
      {"", [] { ones({2, 3}).item(); }},
      {"", [] { ones({2, 3}).transpose(0, 1).read<float>(); }},
      {"", [] { ones({2, 3}).to_vector<double>(); }},
      {"", [] { ones({2}, DType::int64).set_requires_grad(); }},
      {"", [] { ones({2}).set_requires_grad().backward(); }},
      {"", [] { ones({}).backward(); }},
      {"", [] { Device{"gpu"}; }}};
  return all;
}

}  // namespace

TEST_CASE("errors: the messages, word for word", "[core]") {
  const Device device{"sequential"};
  for (const Mistake& mistake : mistakes()) {
    std::string said = "nothing";
    try {
      mistake.call();
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said == mistake.message);
  }
}

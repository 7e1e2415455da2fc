// Products whose elements are sums of very many terms: the gradients of weights over many rows and positions.

#include <cstring>
#include <string>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

constexpr std::int64_t rows = 150'000;

Tensor weight_gradient(const Tensor& x, std::int64_t outputs, const Tensor& g) {
  Tensor weight = zeros({outputs, x.size(1)}).set_requires_grad();
  op::linear(x, weight).backward(g);
  return weight.grad();
}

Tensor kernel_gradient(const Tensor& x, const Shape& shape, const Tensor& g, const op::Conv2dOptions& options) {
  Tensor weight = zeros(shape).set_requires_grad();
  op::conv2d(x, weight, {}, options).backward(g);
  return weight.grad();
}

void check_all(const Tensor& x, double expected, double tolerance) {
  for (const double value : x.values()) {
    CHECK(value == Approx(expected).epsilon(tolerance).margin(0));
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.read<float>(), y = b.read<float>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("long products: terms of one sign are added up over all rows", "[operators]") {
  const Device device("vectorized");
  const double sum = static_cast<double>(0.1F) * rows;
  for (const char* algorithm : {"panels", "transposed"})
    for (const std::int64_t inputs : {3, 70}) {  // 3: few elements, computed in slices
      INFO(algorithm << " " << inputs);
      const ForcedAlgorithm weight("linear_grad_weight", algorithm), product("matmul", algorithm);
      const Tensor x = ones({rows, inputs}), g = full({rows, 65}, 0.1F);
      check_all(weight_gradient(x, 65, g), sum, 1e-4);
      check_all(op::matmul(g.transpose(0, 1), x), sum, 1e-4);
      if (inputs > 3) continue;
      // Rows of b in place, and a bias and an activation behind the last chain.
      check_all(op::matmul(full({2, rows}, 0.1F), ones({rows, 40})), sum, 1e-4);
      const Tensor bias = full({70}, -sum - 1.0);
      check_all(op::relu(op::linear(full({65, rows}, 0.1F), ones({70, rows}), bias)), 0, 0);
    }
}

TEST_CASE("long products: terms of one sign are added up over all positions", "[operators]") {
  const Device device("vectorized");
  struct Case {
    const char* algorithm;
    std::int64_t side, channels, outputs, groups;
  };
  for (const auto& [algorithm, side, channels, outputs, groups] :
       {Case{"rows", 1, 20, 12, 1}, Case{"rows", 3, 8, 12, 1}, Case{"winograd", 3, 16, 16, 1},
        Case{"im2col", 3, 8, 12, 1}, Case{"depthwise", 3, 16, 16, 16}}) {
    INFO(algorithm << " " << side);
    const ForcedAlgorithm forced("conv2d_grad_weight", algorithm);
    const Tensor x = ones({40, 62, 62, channels}).permute({0, 3, 1, 2});
    const std::int64_t out = 62 - side + 1;
    const Tensor g = full({40, out, out, outputs}, 0.1F).permute({0, 3, 1, 2});
    const Tensor found = kernel_gradient(x, {outputs, channels / groups, side, side}, g, {.groups = groups});
    check_all(found, static_cast<double>(0.1F) * static_cast<double>(40 * out * out), 1e-4);
  }
}

TEST_CASE("long products: any number of threads gives the same bits", "[operators]") {
  const Tensor x = randn({rows, 70}), g = randn({rows, 90});
  const Tensor image = randn({40, 16, 62, 62}), way = randn({40, 24, 60, 60});
  Tensor weight, matrix, kernel, winograd;
  for (const int threads : {1, 2, 3, 8}) {
    INFO(threads);
    const Device device("vectorized", {.threads = threads});
    const Tensor now_weight = weight_gradient(x, 90, g), now_matrix = op::matmul(g.transpose(0, 1), x);
    const auto by = [&](const char* algorithm) {
      const ForcedAlgorithm forced("conv2d_grad_weight", algorithm);
      return kernel_gradient(image, {24, 16, 3, 3}, way, {});
    };
    const Tensor now_kernel = by("rows"), now_winograd = by("winograd");
    if (threads > 1) {
      CHECK(same_bits(weight, now_weight));
      CHECK(same_bits(matrix, now_matrix));
      CHECK(same_bits(kernel, now_kernel));
      CHECK(same_bits(winograd, now_winograd));
    }
    weight = now_weight, matrix = now_matrix, kernel = now_kernel, winograd = now_winograd;
  }
}

// Products of which several blocks of columns read the tiles of the first factor that the first block keeps.

#include <cstring>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

struct Results {
  Tensor y, grad_x, grad_weight;
};

Results layer(const char* algorithm, int threads, const Tensor& x, const Tensor& weight, const Tensor& g) {
  const Device device("vectorized", {.threads = threads});
  const ForcedAlgorithm forward("linear", algorithm), to_x("linear_grad_x", algorithm),
      to_weight("linear_grad_weight", algorithm);
  const Tensor in = x.clone().set_requires_grad(), matrix = weight.clone().set_requires_grad();
  const Tensor bias = full({weight.size(0)}, 0.5F);
  const Tensor y = op::linear(in, matrix, bias, kernels::Activation::relu);
  y.backward(g);
  CHECK(forward.taken() + to_x.taken() + to_weight.taken() == 3);
  return {y, in.grad(), matrix.grad()};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.read<float>(), y = b.read<float>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("large products: kept tiles leave the bits", "[operators]") {
  struct Sizes {
    std::int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] : {Sizes{2101, 1024, 601},      // several groups of rows, of colliding ones
                                      Sizes{35, 4200, 1024},       // several groups of columns
                                      Sizes{33'000, 1100, 13}}) {  // several chains in each of several groups
    INFO(rows << " rows of " << in << " to " << out);
    Generator generator(1);
    const Tensor x = randn({rows, in}, generator), weight = randn({out, in}, generator),
                 g = randn({rows, out}, generator);
    const Results expected = layer("transposed", 1, x, weight, g);  // copies no tiles
    for (const int threads : {1, 3}) {
      INFO(threads << " threads");
      const Results found = layer("panels", threads, x, weight, g);
      CHECK(same_bits(expected.y, found.y));
      CHECK(same_bits(expected.grad_x, found.grad_x));
      CHECK(same_bits(expected.grad_weight, found.grad_weight));
    }
  }
}

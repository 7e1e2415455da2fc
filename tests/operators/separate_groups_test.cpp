// Few wide groups in strict float32 on cuda, which Winograd's transforms take one after the other (padded.cu): against
// implicit products of all groups.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// y, and the gradient of x, by one algorithm.
std::vector<Tensor> results(const char* algorithm, const std::vector<Tensor>& inputs, const Tensor& g,
                            const op::Conv2dOptions& options) {
  const Device device{"cuda", {.precision = Precision::strict}};
  const ForcedAlgorithm forward("conv2d", algorithm), image("conv2d_grad_x", algorithm);
  const Tensor x = inputs[0].clone().set_requires_grad();
  const Tensor y = op::conv2d(x, inputs[1], inputs[2], options);
  y.backward(g);
  CHECK(forward.taken() == 1);
  CHECK(image.taken() == 1);
  return {y.detach(), x.grad()};
}

}  // namespace

TEST_CASE("padded: groups one after the other agree with all at once", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const Shape& shape : {Shape{4, 512, 28, 28}, Shape{3, 528, 30, 29}}) {
    const std::int64_t C = shape[1], groups = 2;
    const op::Conv2dOptions options{.padding = 1, .groups = groups};
    Generator generator(13);
    const std::vector<Tensor> inputs{randn(shape, generator), randn({C, C / groups, 3, 3}, generator),
                                     randn({C}, generator)};
    const Tensor g = randn(shape, generator);
    const auto expected = results("implicit", inputs, g, options), found = results("padded", inputs, g, options);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO(shape << ", result " << i);
      CHECK(distance(found[i], expected[i].values()) <= 5e-3);  // sums of 2,304 terms or more, up to 250
    }
  }
}

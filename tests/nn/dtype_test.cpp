// Modules converted to another dtype.

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

TEST_CASE("nn: to converts parameters for all handles and keeps statistics in float32", "[nn][dtype]") {
  Generator generator{3};
  nn::Sequential net{nn::Conv2d{3, 8, 3, {.padding = 1}, generator}, nn::BatchNorm2d{8}, nn::Relu{}};
  const nn::Sequential same = net;
  const std::vector<Tensor> before = net.parameters();
  const Tensor x = rand({2, 3, 6, 6}, generator);
  const Tensor wide = net(x);
  wide.backward(ones(wide.shape()));
  CHECK(before[0].grad().defined());

  net.to(DType::bfloat16);
  for (const Tensor& parameter : before) {
    CHECK(parameter.dtype() == DType::bfloat16);
    CHECK(parameter.requires_grad());
    CHECK(!parameter.grad().defined());
  }
  for (const nn::NamedTensor& buffer : same.named_buffers()) CHECK(buffer.tensor.dtype() == DType::float32);
  const Tensor y = same(x.to(DType::bfloat16));
  CHECK(y.dtype() == DType::bfloat16);
  CHECK(op::max(op::abs(op::sub(y.to(DType::float32), wide))).item() < 0.1);
  y.backward(ones(y.shape(), DType::bfloat16));
  CHECK(before[0].grad().dtype() == DType::bfloat16);

  net.to(DType::float64);
  CHECK(before[0].dtype() == DType::float64);
  CHECK(same.named_buffers()[0].tensor.dtype() == DType::float64);
}

TEST_CASE("nn: to refuses integers", "[nn][dtype]") {
  nn::Linear layer{2, 2};
  CHECK_THROWS_AS(layer.to(DType::int32), DTypeError);
  CHECK(layer.parameters()[0].dtype() == DType::float32);
}

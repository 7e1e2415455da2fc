// Matrices at the limits: nearly singular ones, and ones whose squares leave the range.

#include <cmath>

#include "support/catch.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

double apart(const Tensor& a, const Tensor& b) { return op::max(op::abs(a.detach() - b.detach())).item(); }

}  // namespace

TEST_CASE("linalg: a determinant's gradient is the cofactors, however near the matrix is to a singular one",
          "[operators]") {
  // Of rank 2 but for the rounding of its elements: the inverse times the determinant has no right digit.
  Tensor x = tensor<double>({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}).reshape({3, 3}).clone();
  x.set_requires_grad();
  op::det(x).backward();
  const Tensor cofactors = tensor<double>({-3, 6, -3, 6, -12, 6, -3, 6, -3}).reshape({3, 3}) * 0.01;
  CHECK(apart(x.grad(), cofactors) < 1e-15);

  Tensor far = tensor<double>({1e200, 0, 0, 2}).reshape({2, 2}).clone();
  far.set_requires_grad();
  op::det(far).backward();
  CHECK(far.grad().values() == std::vector<double>{2, 0, 0, 1e200});
}

TEST_CASE("linalg: matrices whose squares leave the range are factored", "[operators]") {
  Generator generator(4);
  const Tensor x = op::cast(randn({4, 3}, generator), DType::float64);
  const std::vector<Tensor> svd = op::svd(x), qr = op::qr(x);
  for (const double scale : {0x1p-600, 0x1p600}) {
    INFO(scale);
    const std::vector<Tensor> far = op::svd(x * scale), factors = op::qr(x * scale);
    CHECK(apart(far[1] * (1 / scale), svd[1]) < 1e-13);
    CHECK(apart(factors[0], qr[0]) < 1e-13);
    CHECK(apart(factors[1] * (1 / scale), qr[1]) < 1e-13);
  }
}

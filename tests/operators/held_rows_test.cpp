// Rows by the thousand: a mode may hold them otherwise than the few of the catalogue.

#include <functional>
#include <string>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Function = std::function<Tensor(const Tensor& x)>;

struct Results {
  Tensor y, grad_x;
  Results(const Function& function, const Tensor& x, const Tensor& grad_y) {
    Tensor leaf = x.clone();
    leaf.set_requires_grad();
    const Tensor out = function(leaf);
    out.backward(grad_y);
    y = out.detach(), grad_x = leaf.grad();
  }
};

double distance(const Tensor& many, const Tensor& few) {
  return op::max(op::abs(op::sub(many.slice(0, 2000, 2003), few))).item();
}

void check_many(const char* mode) {
  const Device device(mode);
  for (const std::int64_t width :
       {40, 55, 57, 77, 100, 300, 384, 515, 640, 1000, 1024, 1025, 1353, 1536, 1540, 2047, 2052, 2706}) {
    const Tensor x = randn({2049, width}), grad = randn({2049, width});
    const Tensor weight = rand({width}), bias = randn({width});
    const Tensor some = x.slice(0, 2000, 2003).contiguous(), some_grad = grad.slice(0, 2000, 2003).contiguous();
    const auto check = [&](const char* name, const Function& function) {
      INFO(mode << ": " << name << " of rows of " << width);
      const Results many(function, x, grad), few(function, some, some_grad);
      CHECK(distance(many.y, few.y) < 1e-5);
      CHECK(distance(many.grad_x, few.grad_x) < 1e-5);
    };
    check("softmax", [](const Tensor& in) { return op::softmax(in); });
    check("log_softmax", [](const Tensor& in) { return op::log_softmax(in); });
    check("layer_norm", [&](const Tensor& in) { return op::layer_norm(in, {width}, weight, bias); });
    check("rms_norm", [&](const Tensor& in) { return op::rms_norm(in, {width}, weight); });
  }
}

/// Groups that a cluster of cuda holds: of 134 rows as of two.
void check_long(const char* mode) {
  const Device device(mode);
  for (const std::int64_t side : {91, 96, 129}) {
    const Shape shape{67, 4, side, side};
    const Tensor x = randn(shape), grad = randn(shape), weight = rand({4}), bias = randn({4});
    const auto part = [](const Tensor& whole) { return whole.slice(0, 65, 66).contiguous(); };
    const Function norm = [&](const Tensor& in) { return op::group_norm(in, 2, weight, bias); };
    const Results many(norm, x, grad), few(norm, part(x), part(grad));
    INFO(mode << ": planes of " << side << " squared");
    CHECK(op::max(op::abs(op::sub(part(many.y), few.y))).item() < 1e-5);
    CHECK(op::max(op::abs(op::sub(part(many.grad_x), few.grad_x))).item() < 1e-5);
  }
}

/// Gradients of weight and bias from many rows, against sums of their terms.
void check_parameters(const char* mode) {
  const Device device(mode);
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const std::int64_t width : {64, 200, 515, 1000, 1540, 2052, 3076}) {
      INFO(mode << ": rows of " << width << " " << name_of(dtype));
      const Shape row{width};
      const Tensor x = randn({1100, width}).to(dtype).set_requires_grad(), grad = randn({1100, width}).to(dtype);
      const Tensor weight = rand(row).set_requires_grad(), bias = randn(row).set_requires_grad();
      op::layer_norm(x, row, weight, bias).backward(grad);
      const Tensor wide = grad.to(DType::float32), normal = op::layer_norm(x.detach().to(DType::float32), row);
      const auto apart = [](const Tensor& a, const Tensor& b) { return op::max(op::abs(op::sub(a, b))).item(); };
      CHECK(apart(weight.grad(), op::sum(op::mul(wide, normal), {0})) < 1e-3);
      CHECK(apart(bias.grad(), op::sum(wide, {0})) < 1e-3);
    }
}

}  // namespace

TEST_CASE("held rows: many rows are computed as few", "[operators]") { check_many("vectorized"); }

TEST_CASE("held rows: cuda", "[catalogue][mode][cuda]") {
  for (const std::string& mode : testing::available_modes())
    if (mode == "cuda") {
      check_many("cuda");
      check_long("cuda");
      check_parameters("cuda");
    }
}

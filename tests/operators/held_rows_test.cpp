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

/// Rows that no block holds.
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

double apart(const Tensor& a, const Tensor& b) { return op::max(op::abs(op::sub(a, b))).item(); }

/// Gradients of weight and bias from many rows, against sums of their terms.
void check_parameters(const char* mode) {
  const Device device(mode);
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const std::int64_t rows : {1100, 4100})
      for (const std::int64_t width : {64, 200, 515, 1000, 1540, 2052, 3076}) {
        INFO(mode << ": " << rows << " rows of " << width << " " << name_of(dtype));
        const Shape row{width};
        const Tensor x = randn({rows, width}).to(dtype).set_requires_grad(), grad = randn({rows, width}).to(dtype);
        const Tensor weight = rand(row).set_requires_grad(), bias = randn(row).set_requires_grad();
        op::layer_norm(x, row, weight, bias).backward(grad);
        const Tensor wide = grad.to(DType::float32), normal = op::layer_norm(x.detach().to(DType::float32), row);
        CHECK(apart(weight.grad(), op::sum(op::mul(wide, normal), {0})) < 1e-3);
        CHECK(apart(bias.grad(), op::sum(wide, {0})) < 1e-3);
      }
}

/// The same of groups, which share rows but no columns.
void check_groups(const char* mode) {
  const Device device(mode);
  const Tensor x = randn({700, 96}).set_requires_grad(), grad = randn({700, 96});
  const Tensor weight = rand({96}).set_requires_grad(), bias = randn({96}).set_requires_grad();
  op::group_norm(x, 3, weight, bias).backward(grad);
  CHECK(apart(weight.grad(), op::sum(op::mul(grad, op::group_norm(x.detach(), 3)), {0})) < 1e-3);
  CHECK(apart(bias.grad(), op::sum(grad, {0})) < 1e-3);
}

/// Partial sums of gradients may leave the range of float32.
void check_large(const char* mode) {
  const Device device(mode);
  const Tensor large = op::mul(ones({64, 96}), 3e38), grad = op::cat({large, op::mul(large, -1)}, 0);
  const Tensor x = randn({640, 96}).set_requires_grad(), bias = randn({96}).set_requires_grad();
  op::layer_norm(x, {96}, {}, bias).backward(op::cat({grad, grad, grad, grad, grad}, 0));
  CHECK(op::max(op::abs(bias.grad())).item() == 0);
}

/// Pooling of many images, channels last, and of two of them.
void check_pools(const char* mode) {
  const Device device(mode);
  const auto images = [](const Shape& shape) { return randn(shape).to(DType::bfloat16).permute({0, 3, 1, 2}); };
  const Tensor x = images({40, 33, 31, 64});
  const auto check = [&](const char* name, const Function& function) {
    INFO(mode << ": " << name);
    const Shape out = function(x).shape();
    const Tensor grad = images({out[0], out[2], out[3], out[1]});
    const Results many(function, x, grad), few(function, x.slice(0, 30, 32), grad.slice(0, 30, 32));
    CHECK(many.y.slice(0, 30, 32).values() == few.y.values());
    CHECK(many.grad_x.slice(0, 30, 32).values() == few.grad_x.values());
  };
  for (const std::int64_t stride : {1, 2}) {
    check("max_pool2d", [&](const Tensor& in) { return op::max_pool2d(in, 3, {.stride = stride, .padding = 1}); });
    check("avg_pool2d", [&](const Tensor& in) { return op::avg_pool2d(in, 3, {.stride = stride, .padding = 1}); });
  }
  check("max_pool2d of 7x7", [](const Tensor& in) { return op::max_pool2d(in, 7, {.stride = 1}); });
}

/// Batch normalisation of many positions in 16 bits, against float32.
void check_batch_norm(const char* mode) {
  const Device device(mode);
  const Tensor image = randn({41, 33, 31, 72}).permute({0, 3, 1, 2}).to(DType::bfloat16), other = op::mul(image, 0.5);
  const Tensor grad = randn({41, 33, 31, 72}).permute({0, 3, 1, 2}).to(DType::bfloat16);
  const Tensor scale = rand({72}), shift = randn({72});
  // Where relu's argument is 0 but for rounding, a gradient may pass in one of them.
  const auto far = [](const Tensor& narrow, const Tensor& wide) {
    const Tensor apart = op::abs(op::sub(narrow.to(DType::float32), wide));
    const Tensor over = op::sub(apart, op::add(op::mul(op::abs(wide), 0x1p-7), 2e-3));
    return op::sum(op::greater(over, 0).to(DType::float32)).item();
  };
  for (const bool training : {true, false})
    for (const bool adds : {false, true})
      for (const Activation activation : {Activation::none, Activation::relu}) {
        INFO(mode << ": " << (training ? "training" : "inference") << (adds ? " with a sum" : ""));
        const auto run = [&](DType dtype) {
          const Tensor x = image.to(dtype).clone(), added = adds ? other.to(dtype).clone() : Tensor{};
          const Tensor weight = scale.clone(), bias = shift.clone();
          for (Tensor leaf : {x, weight, bias}) leaf.set_requires_grad();
          if (adds) Tensor(added).set_requires_grad();
          const Tensor y = op::batch_norm(x, weight, bias, op::mul(shift, 0.1), op::add(scale, 0.5),
                                          {.training = training, .activation = activation}, added);
          y.backward(grad.to(dtype));
          return std::vector{y.detach(), x.grad(), adds ? added.grad() : x.grad(), weight.grad(), bias.grad()};
        };
        const std::vector<Tensor> narrow = run(DType::bfloat16), wide = run(DType::float32);
        for (const std::size_t i : {0, 1, 2}) CHECK(far(narrow[i], wide[i]) <= 8);
        for (const std::size_t i : {3, 4}) CHECK(apart(narrow[i], wide[i]) < 4);
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
      check_groups("cuda");
      check_large("cuda");
      check_pools("cuda");
      check_batch_norm("cuda");
    }
}

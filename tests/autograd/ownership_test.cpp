// What a graph keeps, and whose the gradients are.

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/run/profile.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

Tensor leaf(std::initializer_list<double> values) { return tensor<double>(values).set_requires_grad(); }

bool share(const Tensor& a, const Tensor& b) { return &a.storage() == &b.storage(); }

}  // namespace

TEST_CASE("ownership: gradients share elements with nobody", "[autograd]") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4}), g = tensor<double>({5, 6});
  op::add(a, b).backward(g);
  CHECK(!share(a.grad(), b.grad()));
  CHECK(!share(a.grad(), g));
  CHECK(!share(b.grad(), g));
  Tensor(a.grad()).fill_(7);
  CHECK(b.grad().values() == Values{5, 6});
  CHECK(g.values() == Values{5, 6});

  // A leaf's own, several uses of one, parts of one gradient, and a gradient that was there before.
  Tensor c = leaf({1, 2});
  c.backward(g);
  CHECK(!share(c.grad(), g));
  Tensor d = leaf({1}), e = leaf({1});
  op::cat({d, e}, 0).backward(g);
  CHECK(!share(d.grad(), e.grad()));
  CHECK(d.grad().storage().bytes() == 8);
  Tensor f = leaf({1, 2});
  op::add_all({f, a, f}).backward(g);
  CHECK(f.grad().values() == Values{10, 12});
  CHECK(a.grad().values() == Values{12, 13});
  const Tensor before = a.grad();
  op::mul(a, 1.0).backward(g);
  CHECK(before.values() == Values{12, 13});
}

TEST_CASE("ownership: a gradient is no view that repeats its elements", "[autograd]") {
  Tensor x = leaf({1, 2, 3});
  op::sum(x).backward();
  CHECK(x.grad().is_contiguous());
  Tensor(x.grad()).write<double>()[0] = 9;
  CHECK(x.grad().values() == Values{9, 1, 1});
}

TEST_CASE("ownership: gradients that only their leaves have are not copied", "[autograd]") {
  const auto copies = [](const auto& net, const Tensor& x) {
    const Tensor labels = zeros({x.size(0)}, DType::int64);
    const Profile profile;
    op::cross_entropy(net(x), labels).backward();
    std::int64_t all = 0, count = 0;
    for (const ProfileRow& row : profile.table().rows) {
      if (row.backward) all += row.calls;
      if (row.backward && (row.name == "copy" || row.name == "fill")) count += row.calls;
    }
    CHECK(all >= 1);
    return count;
  };
  CHECK(copies(models::LeNet(), ones({2, 1, 28, 28})) == 0);
  CHECK(copies(nn::Sequential(nn::Linear(5, 4), nn::Relu(), nn::Linear(4, 3), nn::Gelu()), ones({2, 5})) == 0);
  // A second backward adds to what is there.
  nn::Linear twice(5, 3);
  CHECK(copies(twice, ones({2, 5})) == 0);
  CHECK(copies(twice, ones({2, 5})) == 0);
}

TEST_CASE("ownership: backward checks the gradient that it is given", "[autograd]") {
  Tensor w = ones({5, 300}).set_requires_grad();
  const Tensor y = op::linear(ones({4, 300}), w);
  CHECK_THROWS_AS(y.backward(ones({4, 5}, DType::float64)), DTypeError);
  CHECK_THROWS_AS(y.backward(ones({4, 5}, DType::uint8)), DTypeError);
  CHECK_THROWS_AS(y.backward(ones({5, 4})), ShapeError);
  CHECK_THROWS_AS(y.backward(Tensor()), Error);
  Tensor g = ones({4, 5}).set_requires_grad();
  y.backward(g);
  CHECK(!w.grad().requires_grad());
  CHECK(w.grad().values() == Values(1500, 4));
  for (const DType wrong : {DType::float64, DType::int32}) {
    Tensor x = ones({2, 2}).set_requires_grad();
    for (const Tensor& out : {op::relu(x), op::leaky_relu(x), op::gelu(x), op::pow(x, 2), op::clamp(x, 0, 2),
                              op::maximum(x, x), op::matmul(x, x), op::softmax(x)})
      CHECK_THROWS_AS(out.backward(ones({2, 2}, wrong)), DTypeError);
  }
}

TEST_CASE("ownership: an operator that returns too few or too many gradients is an error", "[autograd]") {
  for (const std::size_t count : {0, 1, 3}) {
    Tensor a = leaf({1}), b = leaf({2}), out = tensor<double>({3});
    autograd::record("short", out, {a, b}, [count](const Tensor& grad) { return autograd::Gradients(count, grad); });
    CHECK_THROWS_AS(out.backward(), AutogradError);
  }
  Tensor a = leaf({1}), b = leaf({2}), out = tensor<double>({3});
  autograd::record("short", out, {a, b}, [](const Tensor& grad) { return autograd::Gradients{grad}; });
  CHECK_THROWS_WITH(out.backward(), "backward of short: 1 gradients for 2 inputs");
}

TEST_CASE("ownership: a tensor may be given itself, or what leads to it, as its gradient", "[autograd]") {
  std::weak_ptr<Storage> storage, other;
  {
    Tensor x = leaf({1, 2});
    x.set_grad(x);
    storage = x.shared_storage();
    Tensor y = leaf({1, 2}), z = leaf({3, 4});
    y.set_grad(op::mul(y, 2.0));
    z.set_grad(y);
    y.set_grad(z);
    CHECK(!y.grad().requires_grad());
    CHECK(y.grad().values() == Values{3, 4});
    other = y.shared_storage();
  }
  CHECK(storage.expired());
  CHECK(other.expired());
}

TEST_CASE("ownership: add_all of one tensor is a tensor of its own", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor y = op::add_all({x});
  CHECK(!share(x, y));
  y.backward(tensor<double>({3, 4}));
  CHECK(x.grad().values() == Values{3, 4});
  const Tensor image = ones({2, 3, 4, 5}).permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  CHECK(op::add_all({image}).strides() == image.strides());
}

TEST_CASE("ownership: only what backward needs is kept", "[autograd]") {
  // What a graph does not need may change between forward and backward, and is freed when its last handle goes.
  const Tensor x = ones({2, 3}), image = ones({1, 2, 5, 5});
  const auto changes_harmlessly = [](const char* name, const std::function<Tensor()>& forward, Tensor changed) {
    INFO(name);
    const Tensor out = forward();
    {
      const NoGrad no_grad;
      changed.fill_(3);
    }
    CHECK_NOTHROW(out.backward(ones(out.shape())));
  };
  Tensor w = ones({4, 3}).set_requires_grad(), kernel = ones({3, 2, 3, 3}).set_requires_grad();
  Tensor factor = ones({2, 3}), p = ones({2, 3}).set_requires_grad();
  // A weight whose input takes no gradient; a factor whose partner takes none.
  changes_harmlessly(
      "linear", [&] { return op::linear(x, w); }, w);
  changes_harmlessly(
      "conv2d", [&] { return op::conv2d(image, kernel); }, kernel);
  changes_harmlessly(
      "matmul", [&] { return op::matmul(x, w, {.transpose_b = true}); }, w);
  changes_harmlessly(
      "mul", [&] { return op::mul(p, factor); }, p);
  changes_harmlessly(
      "div", [&] { return op::div(p, factor); }, p);

  // An output is needed behind an activation only.
  const auto keeps = [](const Tensor& out) { return op::sum(out); };
  for (const Activation activation : {Activation::none, Activation::relu}) {
    std::weak_ptr<Storage> linear, conv, joined;
    Tensor wide = ones({8, 2, 1, 1}).set_requires_grad();
    const auto forward = [&](const Tensor& out, std::weak_ptr<Storage>& storage) {
      storage = out.shared_storage();
      return keeps(out);
    };
    const Tensor losses[]{forward(op::linear(x, w, {}, activation), linear),
                          forward(op::conv2d(image, kernel, {}, {.activation = activation}), conv),
                          forward(op::conv2d_cat({{image, wide, {}, {.activation = activation}},
                                                  {image, wide, {}, {.activation = activation}}}),
                                  joined)};
    const bool needed = activation != Activation::none;
    CHECK(linear.expired() == !needed);
    CHECK(conv.expired() == !needed);
    CHECK((joined.expired() || needed));
    for (const Tensor& loss : losses) CHECK_NOTHROW(loss.backward());
  }
}

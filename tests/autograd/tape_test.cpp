#include "tern/autograd/tape.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

Tensor leaf(std::initializer_list<double> values) { return tensor<double>(values).set_requires_grad(); }
using Values = std::vector<double>;

}  // namespace

TEST_CASE("autograd: a chain and its leaves", "[autograd]") {
  Tensor x = leaf({1, 2, 3});
  Tensor y = op::sum(op::mul(x, x));
  CHECK(y.requires_grad());
  CHECK(!y.is_leaf());
  CHECK(x.is_leaf());
  y.backward();
  CHECK(x.grad().values() == Values{2, 4, 6});
  CHECK(!x.grad().requires_grad());
}

TEST_CASE("autograd: gradients accumulate until they are zeroed", "[autograd]") {
  Tensor x = leaf({1, 2});
  op::sum(op::mul(x, 3.0)).backward();
  op::sum(op::mul(x, 4.0)).backward();
  CHECK(x.grad().values() == Values{7, 7});
  x.zero_grad();
  CHECK(!x.grad().defined());
  op::sum(x).backward();
  CHECK(x.grad().values() == Values{1, 1});
}

TEST_CASE("autograd: a diamond, and one tensor used often", "[autograd]") {
  Tensor x = leaf({2});
  Tensor a = op::mul(x, 3.0), b = op::mul(x, x);
  Tensor c = op::mul(a, b);              // 3 x^3
  Tensor d = op::add(op::add(c, a), b);  // 3 x^3 + 3 x + x^2
  op::sum(d).backward();
  CHECK(x.grad().values() == Values{9 * 4 + 3 + 4});

  Tensor y = leaf({1.5});
  Tensor power = y;
  for (int i = 0; i < 9; ++i) power = op::mul(power, y);
  op::sum(power).backward();
  CHECK(y.grad().item() == Approx(10 * std::pow(1.5, 9)));
}

TEST_CASE("autograd: the order of creation, not of use, decides", "[autograd]") {
  // A node may only run when everything that uses it has.
  Tensor x = leaf({1});
  Tensor early = op::mul(x, 2.0);
  Tensor late = op::mul(op::mul(op::mul(early, 3.0), 5.0), 7.0);
  op::sum(op::add(early, late)).backward();
  CHECK(x.grad().item() == 2 * (1 + 105));
}

TEST_CASE("autograd: NoGrad records nothing, nests and restores", "[autograd]") {
  Tensor x = leaf({1});
  {
    const NoGrad outer;
    CHECK(!autograd::enabled());
    CHECK(!op::mul(x, 2.0).requires_grad());
    {
      const NoGrad inner;
      CHECK(!autograd::enabled());
    }
    CHECK(!autograd::enabled());
  }
  CHECK(autograd::enabled());
  CHECK(op::mul(x, 2.0).requires_grad());
  try {
    const NoGrad no_grad;
    op::add(x, leaf({1, 2, 3}).reshape({3, 1}).slice(0, 0, 5));
  } catch (const ShapeError&) {
  }
  CHECK(autograd::enabled());
  const NoGrad no_grad;
  CHECK_THROWS_AS(op::sum(x).backward(), AutogradError);
}

TEST_CASE("autograd: a second backward is an error, unless the graph is retained", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor y = op::sum(op::mul(x, x));
  y.backward({.retain_graph = true});
  y.backward({.retain_graph = true});
  CHECK(x.grad().values() == Values{4, 8});
  y.backward();
  CHECK(x.grad().values() == Values{6, 12});
  CHECK_THROWS_AS(y.backward(), AutogradError);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("retain_graph"));
  // A part of a graph that was used is used.
  Tensor shared = op::mul(x, x);
  op::sum(shared).backward();
  CHECK_THROWS_AS(op::sum(op::mul(shared, 2.0)).backward(), AutogradError);
}

TEST_CASE("autograd: a saved tensor that was changed in place is an error", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor factor = tensor<double>({3, 4});
  Tensor y = op::sum(op::mul(x, factor));
  factor.fill_(7);
  CHECK_THROWS_AS(y.backward(), AutogradError);

  Tensor z = op::exp(op::mul(x, 1.0));
  Tensor loss = op::sum(z);
  CHECK_THROWS_AS(z.fill_(0), AutogradError);
  {
    const NoGrad no_grad;
    z.slice(0, 0, 1).fill_(0);
  }
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("changed in place"));
}

TEST_CASE("autograd: a change in place of what was not saved is harmless", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor other = tensor<double>({3, 4});
  Tensor y = op::sum(op::add(x, other));
  other.fill_(7);
  y.backward();
  CHECK(x.grad().values() == Values{1, 1});
}

TEST_CASE("autograd: more than one element needs a gradient of its shape", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor y = op::mul(x, x);
  CHECK_THROWS_AS(y.backward(), AutogradError);
  CHECK_THROWS_AS(y.backward(ones({3}, DType::float64)), ShapeError);
  CHECK_THROWS_AS(y.backward(ones({2}, DType::float32)), Error);
  y.backward(tensor<double>({10, 100}));
  CHECK(x.grad().values() == Values{20, 400});
  CHECK_THROWS_AS(tensor<double>({1}).backward(), AutogradError);
}

TEST_CASE("autograd: a leaf's own backward", "[autograd]") {
  Tensor x = leaf({3});
  x.backward();
  x.backward();
  CHECK(x.grad().values() == Values{2});
}

TEST_CASE("autograd: views pass gradients to their base", "[autograd]") {
  Tensor x = tensor<double>({1, 2, 3, 4, 5, 6}, {2, 3}).set_requires_grad();
  op::sum(op::mul(x.transpose(0, 1).slice(0, 1, 3), 2.0)).backward();
  CHECK(x.grad().values() == Values{0, 2, 2, 0, 2, 2});
  x.zero_grad();
  op::sum(op::mul(x.reshape({3, 2}).slice(1, 0, 1), 5.0)).backward();
  CHECK(x.grad().values() == Values{5, 0, 5, 0, 5, 0});
  x.zero_grad();
  op::sum(op::mul(x.slice(0, 0, 1).expand({4, 3}), 1.0)).backward();
  CHECK(x.grad().values() == Values{4, 4, 4, 0, 0, 0});
  x.zero_grad();
  const std::vector<Tensor> parts = op::split(x, {1, 2}, 1);
  op::sum(parts[1]).backward();
  CHECK(x.grad().values() == Values{0, 1, 1, 0, 1, 1});
}

TEST_CASE("autograd: gradients of broadcast inputs have the inputs' shapes", "[autograd]") {
  Tensor a = ones({2, 3}, DType::float64).set_requires_grad(), b = ones({3}, DType::float64).set_requires_grad(),
         c = ones({}, DType::float64).set_requires_grad(), d = ones({2, 1}, DType::float64).set_requires_grad();
  op::sum(op::mul(op::add(op::mul(a, b), c), d)).backward();
  CHECK(a.grad().shape() == Shape{2, 3});
  CHECK(b.grad().values() == Values{2, 2, 2});
  CHECK(c.grad().shape() == Shape{});
  CHECK(c.grad().item() == 6);
  CHECK(d.grad().values() == Values{6, 6});
}

TEST_CASE("autograd: detach and leaves without a gradient cut the graph", "[autograd]") {
  Tensor x = leaf({2}), y = tensor<double>({3});
  op::sum(op::mul(op::mul(x, x).detach(), x)).backward();
  CHECK(x.grad().values() == Values{4});
  op::sum(op::mul(x, y)).backward();
  CHECK(!y.grad().defined());
  CHECK(!op::mul(y, y).requires_grad());
  CHECK_THROWS_AS(op::mul(x, y).set_requires_grad(), AutogradError);
}

TEST_CASE("autograd: casts pass gradients between floating dtypes", "[autograd]") {
  Tensor x = tensor<float>({1, 2}).set_requires_grad();
  op::sum(op::mul(x.to(DType::float64), 3.0)).backward();
  CHECK(x.grad().dtype() == DType::float32);
  CHECK(x.grad().values() == Values{3, 3});
  CHECK(!x.to(DType::int32).requires_grad());
  x.zero_grad();
  op::sum(op::mul(x.to(DType::bfloat16).to(DType::float32), 2.0)).backward();
  CHECK(x.grad().values() == Values{2, 2});
}

TEST_CASE("autograd: what has no gradient records none", "[autograd]") {
  Tensor x = leaf({1, 3, 2});
  CHECK(!op::argmax(x).requires_grad());
  CHECK(!op::less(x, x).requires_grad());
  CHECK(!op::one_hot(tensor<std::int64_t>({0, 1}), 3).requires_grad());
}

TEST_CASE("autograd: a chain of 100,000 operators needs no deep stack", "[autograd]") {
  Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = op::add(y, 1.0);
    CHECK(y.item() == 100001);
    y.backward();
    CHECK(x.grad().item() == 1);
  }
  // A chain that never runs backward is released as well.
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = op::add(y, 1.0);
  y = Tensor();
  x.zero_grad();
  op::sum(x).backward();
  CHECK(x.grad().item() == 1);
}

TEST_CASE("autograd: backward runs where forward ran", "[autograd]") {
  const Mode& fake = testing::fake_mode();
  Tensor x = ones({4}).set_requires_grad(), w = full({4}, 2).set_requires_grad();
  Tensor loss;
  {
    const Device device(fake);
    loss = op::sum(op::mul(x, w));
  }
  const Device device{"sequential"};
  loss.backward();
  CHECK(current_scope().mode->name == "sequential");
  CHECK(x.grad().storage().valid_in(*fake.memory));
  CHECK(!x.grad().storage().valid_in(host_memory()));
  CHECK(x.grad().values() == Values{2, 2, 2, 2});
}

TEST_CASE("autograd: parts of a graph that ran in different modes", "[autograd]") {
  Tensor x = full({8}, 0.5).set_requires_grad();
  Tensor a, b;
  {
    const Device device(testing::fake_mode());
    a = op::exp(x);
  }
  {
    const Device device{"vectorized"};
    b = op::mul(x, x);
  }
  const Device device(testing::second_fake_mode());
  op::sum(op::mul(a, b)).backward();
  const double expected = std::exp(0.5) * (0.25 + 1);
  for (const double value : x.grad().values()) CHECK(value == Approx(expected));
}

TEST_CASE("autograd: backward runs with the settings of the forward pass", "[autograd]") {
  Tensor x = ones({2}).set_requires_grad();
  Tensor y = x.clone();
  Scope seen;
  const Device outer{"sequential"};
  {
    const Device forward{"sequential", {.threads = 3, .precision = Precision::tf32, .deterministic = false}};
    autograd::record("probe", y, {x}, [&](const Tensor& gradient) {
      seen = current_scope();
      return autograd::Gradients{gradient};
    });
  }
  op::sum(y).backward();
  CHECK(seen.context.precision == Precision::tf32);
  CHECK(!seen.context.deterministic);
  CHECK(seen.context.threads == 3);
  CHECK(current_scope().context.precision == Precision::strict);
}

TEST_CASE("autograd: an exception in backward leaves recording and the scope as they were", "[autograd]") {
  Tensor x = leaf({1, 2});
  Tensor y = op::mul(x, x);
  Tensor out = op::sum(y);
  autograd::record("broken", out, {y}, [](const Tensor&) -> autograd::Gradients { throw NumericError("no"); });
  const std::string before = current_scope().mode->name;
  CHECK_THROWS_AS(out.backward(), NumericError);
  CHECK(autograd::enabled());
  CHECK(current_scope().mode->name == before);
  op::sum(op::mul(x, 2.0)).backward();
  CHECK(x.grad().values() == Values{2, 2});
}

TEST_CASE("autograd: an operator of the user, recorded as the library's are", "[autograd]") {
  const auto twice = [](const Tensor& x) {
    Tensor out = op::mul(x.detach(), 2.0);
    if (autograd::recording(x))
      autograd::record("twice", out, {x}, [](const Tensor& grad) { return autograd::Gradients{op::mul(grad, 2.0)}; });
    return out;
  };
  Tensor x = leaf({1, 5});
  op::sum(op::mul(twice(x), x)).backward();
  CHECK(x.grad().values() == Values{4, 20});
  const auto wrong = [](const Tensor& input) {
    Tensor out = op::mul(input.detach(), 2.0);
    autograd::record("wrong", out, {input},
                     [](const Tensor&) { return autograd::Gradients{zeros({7}, DType::float64)}; });
    return out;
  };
  CHECK_THROWS_WITH(op::sum(wrong(x)).backward(), ContainsSubstring("wrong") && ContainsSubstring("[7]"));
}

TEST_CASE("autograd: what changes the gradient that backward begins with changes no other backward", "[autograd]") {
  const Tensor leaf = full({}, 3.0).set_requires_grad();
  leaf.backward();
  Tensor(leaf.grad()).fill_(7);
  // An operator whose backward works in place.
  const Tensor x = full({}, 2.0).set_requires_grad();
  for (int i = 0; i < 3; ++i) {
    Tensor y = x.detach().clone();
    autograd::record("doubled", y, {x}, [](const Tensor& gradient) {
      Tensor twice = gradient;
      twice.copy_(gradient * 2);
      return autograd::Gradients{twice};
    });
    Tensor(x).set_grad({});
    y.backward();
    CHECK(x.grad().item() == 2);
  }
  const Tensor other = full({}, 2.0).set_requires_grad();
  op::neg(other).backward();
  CHECK(other.grad().item() == -1);
}

// What modules, metrics and states mean where they meet: derived classes, copies, modules of somewhere else.

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

template <class Base>
class Scaled : public Base {
 public:
  template <class... Arguments>
  explicit Scaled(double factor, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), factor_(factor) {}
  Tensor forward(const Tensor& x) const override { return Base::forward(x) * factor_; }

 private:
  double factor_;
};

nn::Linear ones_linear(std::int64_t in, std::int64_t out) {
  nn::Linear linear(in, out);
  for (Tensor& tensor : linear.parameters()) {
    const NoGrad no_grad;
    tensor.fill_(1);
  }
  return linear;
}

/// Calls a module that it does not own.
class Borrower : public nn::Module {
 public:
  explicit Borrower(nn::Linear other) : other_(std::move(other)) {}
  Tensor forward(const Tensor& x) const override { return other_(x); }

 private:
  nn::Linear other_;
};

}  // namespace

TEST_CASE("semantics: Sequential runs the forward of a derived class", "[nn]") {
  const Tensor x = ones({1, 2});
  const nn::Linear linear = ones_linear(2, 1);  // 3 of x
  Scaled<nn::Linear> scaled(10, 2, 1);
  for (Tensor& tensor : scaled.parameters()) {
    const NoGrad no_grad;
    tensor.fill_(1);
  }
  const NoGrad no_grad;
  CHECK(nn::Sequential(linear, Scaled<nn::Relu>(2))(x).item() == 6);
  CHECK(nn::Sequential(scaled, nn::Relu())(x).item() == 30);
  CHECK(nn::Sequential(scaled, Scaled<nn::Relu>(2))(x).item() == 60);
  CHECK(nn::Sequential(linear, Scaled<nn::Sigmoid>(2))(x).item() == Approx(2 / (1 + std::exp(-3.0))));
  CHECK(nn::Sequential(linear, Scaled<nn::Tanh>(2))(x).item() == Approx(2 * std::tanh(3.0)));

  const Tensor image = ones({1, 1, 3, 3});
  Scaled<nn::Conv2d> conv(10, 1, 2, 3);
  for (Tensor& tensor : conv.parameters()) tensor.fill_(1);
  CHECK(nn::Sequential(conv, nn::Relu())(image).values() == Values{100, 100});
  CHECK(nn::cat({{conv, image}, {conv, image}}).values() == Values{100, 100, 100, 100});
  // Under summary(), which does not fuse, as without it.
  CHECK(nn::summary(nn::Sequential(scaled, nn::Relu()), {1, 2}).layers.size() == 2);
}

TEST_CASE("semantics: a module of somewhere else is an error while its parameters would miss their training", "[nn]") {
  const Tensor x = ones({1, 2});
  nn::Linear linear(2, 2);
  const nn::Sequential owner(linear, nn::Relu());
  const Borrower borrower(linear);
  CHECK_THROWS_WITH(borrower(x),
                    Catch::ContainsSubstring("Linear(2, 2)") && Catch::ContainsSubstring("not one of its children"));
  CHECK_THROWS_AS(nn::Sequential(borrower, nn::Relu())(x), Error);
  {
    const NoGrad no_grad;
    CHECK_NOTHROW(borrower(x));
  }
  // Registered further out, at any depth.
  CHECK_NOTHROW(nn::Sequential(borrower, linear)(x));
  CHECK_NOTHROW(nn::Sequential(borrower, nn::Sequential(nn::Sequential(linear)))(x));
  // Frozen.
  for (Tensor& tensor : linear.parameters()) tensor.set_requires_grad(false);
  CHECK_NOTHROW(borrower(x));
}

TEST_CASE("semantics: copies of metrics count for themselves", "[nn]") {
  std::vector<nn::Mean> means(3, nn::Mean{});
  for (int i = 0; i < 3; ++i) means[static_cast<std::size_t>(i)].update(scalar(static_cast<float>(i)));
  for (int i = 0; i < 3; ++i) CHECK(means[static_cast<std::size_t>(i)].value() == i);
  nn::Mean copy = means[2];
  copy.update(scalar(4.0f));
  CHECK(copy.value() == 3);
  CHECK(means[2].value() == 2);
  means[0] = copy;
  means[0].update(scalar(9.0f));
  CHECK(means[0].value() == 5);
  CHECK(copy.value() == 3);

  const Tensor logits = tensor<float>({1, 0, 0, 1}, {2, 2}), labels = tensor<std::int64_t>({0, 0});
  nn::Accuracy one;
  nn::Accuracy two = one;
  one.update(logits, labels);
  CHECK(one.count() == 2);
  CHECK(two.count() == 0);
  nn::ConfusionMatrix three(2);
  nn::ConfusionMatrix four = three;
  three.update(logits, labels);
  CHECK(three.value().values() == Values{1, 1, 0, 0});
  CHECK(four.value().values() == Values{0, 0, 0, 0});
}

TEST_CASE("semantics: a state may hold the elements that it is loaded into", "[nn]") {
  Tensor a = full({2}, 1), b = full({2}, 2);
  nn::load_tensors("test", {{"a", a}, {"b", b}}, {{"a", b}, {"b", a}});
  CHECK(a.values() == Values{2, 2});
  CHECK(b.values() == Values{1, 1});
  Tensor whole = arange(0, 4, 1, DType::float32);
  nn::load_tensors("test", {{"low", whole.slice(0, 0, 2)}, {"high", whole.slice(0, 2, 4)}},
                   {{"low", whole.slice(0, 2, 4)}, {"high", whole.slice(0, 1, 3)}});
  CHECK(whole.values() == Values{2, 3, 1, 2});
  nn::Linear linear(2, 2);
  const Values before = linear.weight().values();
  linear.load_state(linear.state());
  CHECK(linear.weight().values() == before);
}

TEST_CASE("semantics: batch norm needs more than one value per channel", "[nn]") {
  nn::BatchNorm2d norm(3);
  CHECK_THROWS_WITH(norm(ones({1, 3, 1, 1})), Catch::ContainsSubstring("one value per channel"));
  CHECK(norm.state().at("running_var").values() == Values{1, 1, 1});
  CHECK_NOTHROW(norm(ones({2, 3, 1, 1})));
  CHECK_NOTHROW(norm(ones({1, 3, 2, 1})));
  CHECK_THROWS_AS(norm(ones({0, 3, 2, 2})), ShapeError);
  norm.eval();
  CHECK_NOTHROW(norm(ones({1, 3, 1, 1})));
  nn::BatchNorm2d plain(2, {.track_running_stats = false});
  plain.eval();
  CHECK_THROWS_AS(plain(ones({1, 2, 1, 1})), ShapeError);
}

TEST_CASE("semantics: the macro average counts a class that is only predicted", "[nn]") {
  const nn::Classification found = nn::classification(tensor<std::int64_t>({2, 0, 1, 0, 1, 0, 0, 0, 0}, {3, 3}));
  CHECK(found.classes[2].support == 0);
  CHECK(found.macro.recall == Approx((2.0 / 3 + 1 + 0) / 3));
  CHECK(found.macro.precision == Approx((1 + 1 + 0) / 3.0));
  CHECK(found.weighted.recall == Approx(0.75));
}

#include <cmath>

#include "support/catch.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto left = a.values(), right = b.values();
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) largest = std::max(largest, std::abs(left[i] - right[i]));
  return largest;
}

std::vector<std::string> present_modes() {
  std::vector<std::string> names;
  for (const ModeStatus& status : modes())
    if (status.available) names.push_back(status.name);
  return names;
}

}  // namespace

TEST_CASE("nn: layers start as torch's do, with the same bits in every mode", "[nn]") {
  std::vector<std::vector<double>> starts;
  for (const std::string& name : present_modes()) {
    const Device device(name);
    Generator generator(42);
    const nn::Sequential net(nn::Linear(50, 30, {}, generator), nn::Conv2d(4, 6, {3, 5}, {.groups = 2}, generator));
    std::vector<double> all;
    for (const Tensor& tensor : net.parameters()) {
      const auto values = tensor.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    CHECK(generator.position() == 4);
    starts.push_back(all);
  }
  for (const auto& start : starts) CHECK(start == starts[0]);

  Generator generator(42);
  const nn::Linear linear(50, 30, {}, generator);
  const nn::Conv2d conv(4, 6, {3, 5}, {.groups = 2}, generator);
  const auto check = [](const Tensor& tensor, double fan_in) {
    const double bound = 1 / std::sqrt(fan_in);
    double largest = 0, sum = 0;
    for (const double value : tensor.values()) {
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    CHECK(largest <= bound);
    CHECK(largest > 0.8 * bound);
    CHECK(std::abs(sum / static_cast<double>(tensor.numel())) < bound);
  };
  check(linear.weight(), 50);
  check(linear.bias(), 50);
  check(conv.weight(), 2 * 15);
  CHECK(conv.weight().shape() == Shape{6, 2, 3, 5});
  CHECK(nn::Linear(3, 2, {.dtype = DType::float64}).weight().dtype() == DType::float64);
}

TEST_CASE("nn: layers compute what their operators compute", "[nn]") {
  Generator generator(3);
  const Tensor x = randn({2, 4, 7, 6}, generator), rows = randn({5, 6}, generator);
  const nn::Conv2d uneven(4, 6, 3, {.padding = {1, 0}, .end_padding = Pair(0, 2)}, generator);
  CHECK(uneven.describe() == "Conv2d(4, 6, 3x3, padding 1x0 and 0x2)");
  CHECK(nn::Conv2d(4, 6, 3, {.end_padding = Pair(1)}).describe() == "Conv2d(4, 6, 3x3, padding 0x0 and 1x1)");
  CHECK(nn::MaxPool2d(2, {.end_padding = Pair(1, 0)}).describe() == "MaxPool2d(2x2, stride 2x2, padding 0x0 and 1x0)");
  CHECK(uneven(Tensor({2, 4, 5, 6})).shape() == Shape{2, 6, 4, 6});
  const nn::Conv2d conv(4, 6, 3, {.stride = 2, .padding = {1, 0}, .groups = 2}, generator);
  CHECK(conv(x).values() ==
        op::conv2d(x, conv.weight(), conv.bias(), {.stride = 2, .padding = {1, 0}, .groups = 2}).values());
  const nn::Linear linear(6, 3, {.bias = false}, generator);
  CHECK(linear.parameters().size() == 1);
  CHECK(linear(rows).values() == op::linear(rows, linear.weight()).values());
  CHECK(nn::MaxPool2d(2)(x).values() == op::max_pool2d(x, 2).values());
  CHECK(nn::MaxPool2d(3, {.stride = 2, .ceil_mode = true})(x).values() ==
        op::max_pool2d(x, 3, {.stride = 2, .ceil_mode = true}).values());
  CHECK(nn::AvgPool2d(3, {.stride = 1, .padding = 1})(x).values() ==
        op::avg_pool2d(x, 3, {.stride = 1, .padding = 1}).values());
  CHECK(nn::AdaptiveAvgPool2d({3, 2})(x).values() == op::adaptive_avg_pool2d(x, {3, 2}).values());
  CHECK(nn::LocalResponseNorm({.size = 3})(x).values() == op::local_response_norm(x, {.size = 3}).values());
  CHECK(nn::Relu()(x).values() == op::relu(x).values());
  CHECK(nn::LeakyRelu(0.2)(x).values() == op::leaky_relu(x, 0.2).values());
  CHECK(nn::Sigmoid()(x).values() == op::sigmoid(x).values());
  CHECK(nn::Tanh()(x).values() == op::tanh(x).values());
  CHECK(nn::Softplus()(x).values() == op::softplus(x).values());
  CHECK(nn::Gelu()(x).values() == op::gelu(x).values());
  CHECK(nn::Softmax(1)(x).values() == op::softmax(x, 1).values());
  CHECK(nn::Flatten()(x).shape() == Shape{2, 168});
}

TEST_CASE("nn: batch norm follows the training switch", "[nn]") {
  Generator generator(4);
  const Tensor x = randn({8, 3, 4, 4}, generator, 5, 2);
  nn::BatchNorm2d norm(3);
  const auto mean = [](const Tensor& y) { return op::mean(y.detach()).item(); };
  CHECK(std::abs(mean(norm(x))) < 1e-5);
  const nn::State state = norm.state();
  CHECK(state.at("running_mean").values()[0] == Approx(0.5).margin(0.15));
  norm.eval();
  const Tensor y = norm(x);
  CHECK(mean(y) > 1);
  op::sum(y).backward();  // gradients flow with frozen statistics, too
  CHECK(norm.parameters()[1].grad().values()[0] == Approx(8 * 16));
  {
    const NoGrad no_grad;
    CHECK(largest_difference(norm(x), y) < 1e-5);
  }
  CHECK(norm.state().at("running_mean").values() == state.at("running_mean").values());
  nn::BatchNorm2d plain(3, {.affine = false, .track_running_stats = false});
  CHECK(plain.parameters().empty());
  CHECK(plain.state().empty());
  plain.eval();
  CHECK(std::abs(mean(plain(x))) < 1e-5);
  CHECK_THROWS_AS(norm(zeros({2, 4, 3, 3})), ShapeError);
}

TEST_CASE("nn: dropout works in training only", "[nn]") {
  const Tensor x = ones({1000});
  nn::Dropout dropout(0.25);
  manual_seed(9);
  const auto values = dropout(x).values();
  const auto zeroed = std::count(values.begin(), values.end(), 0.0);
  CHECK(zeroed > 200);
  CHECK(zeroed < 300);
  manual_seed(9);
  CHECK(dropout(x).values() == values);
  dropout.eval();
  CHECK(dropout(x).values() == x.values());
  CHECK_THROWS_AS(nn::Dropout(1.5), Error);
}

TEST_CASE("nn: Sequential computes an activation in the layer before it, to the same result", "[nn]") {
  for (const std::string& name : present_modes()) {
    const Device device(name);
    Generator generator(5);
    const nn::Linear linear(6, 5, {}, generator);
    const nn::Conv2d conv(1, 3, 3, {}, generator);
    const Tensor rows = randn({4, 6}, generator), images = randn({2, 1, 8, 8}, generator);
    const auto compare = [](const nn::Module& fused, auto apart, const Tensor& x) {
      const auto run = [&](auto&& forward) {
        for (Tensor& tensor : fused.parameters()) tensor.zero_grad();
        const Tensor y = forward(x);
        op::sum(y * y).backward();
        std::vector<Tensor> results{y.detach()};
        for (const Tensor& tensor : fused.parameters()) results.push_back(tensor.grad());
        return results;
      };
      const auto together = run(fused), separate = run(apart);
      for (std::size_t i = 0; i < together.size(); ++i) CHECK(largest_difference(together[i], separate[i]) < 1e-5);
    };
    compare(
        nn::Sequential(linear, nn::Relu()), [&](const Tensor& x) { return op::relu(linear(x)); }, rows);
    compare(
        nn::Sequential(linear, nn::Sigmoid()), [&](const Tensor& x) { return op::sigmoid(linear(x)); }, rows);
    compare(
        nn::Sequential(conv, nn::Tanh()), [&](const Tensor& x) { return op::tanh(conv(x)); }, images);
    compare(
        nn::Sequential(conv, nn::MaxPool2d(2), nn::Relu(), nn::Relu()),
        [&](const Tensor& x) { return op::relu(op::max_pool2d(conv(x), 2)); }, images);
    const nn::Linear with_tanh(6, 5, {.activation = Activation::tanh}, generator);
    compare(
        nn::Sequential(with_tanh, nn::Relu()), [&](const Tensor& x) { return op::relu(with_tanh.forward(x)); }, rows);
  }
  nn::Sequential net;
  net.add(nn::Linear(2, 3)).add("act", nn::Relu()).add(nn::Linear(3, 1));
  CHECK(net.size() == 3);
  CHECK(net.named_parameters()[2].name == "2.weight");
  CHECK(net(ones({1, 2})).shape() == Shape{1, 1});
  CHECK_THROWS_AS(net[3], Error);
  // One Sequential is copied, a class that derives from it is wrapped.
  CHECK(nn::Sequential(net).is(net));
  CHECK(nn::Sequential(models::Mlp({.layers = {4, 2}}))(ones({3, 1, 2, 2})).shape() == Shape{3, 2});
}

TEST_CASE("nn: Sequential fuses batch norm in training and in evaluation, and what is added later", "[nn]") {
  const Device device("sequential");
  Generator generator(6);
  const Tensor x = randn({3, 2, 5, 4}, generator);
  nn::Sequential net{nn::BatchNorm2d{2}, nn::Relu{}};
  const nn::Sequential early = net;  // another handle, before there is more
  net.add(nn::MaxPool2d{2}).add(nn::Tanh{});
  const auto apart = [&] { return op::tanh(op::max_pool2d(op::relu(net[0](x)), 2)).values(); };
  for (const bool training : {true, false, true}) {
    net.train(training);
    const std::vector<double> found = net(x).values();
    CHECK(found == apart());
    CHECK(early(x).values() == apart());
  }
  net.eval();
  CHECK_THROWS_WITH(net(zeros({3, 3, 5, 4})), Catch::ContainsSubstring("BatchNorm2d: input is [3,3,5,4]"));
  struct Doubled : nn::BatchNorm2d {
    using nn::BatchNorm2d::BatchNorm2d;
    Tensor forward(const Tensor& y) const override { return nn::BatchNorm2d::forward(y) * 2; }
  };
  Doubled doubled(2);
  doubled.eval();
  CHECK(nn::Sequential(doubled, nn::Relu{})(x).values() == op::relu(doubled(x)).values());
}

TEST_CASE("nn: batch norm adds and takes the relu in its kernel", "[nn]") {
  for (const std::string& name : present_modes()) {
    const Device device(name);
    Generator generator(6);
    const Tensor images = randn({3, 8, 5, 4}, generator), more = randn({3, 8, 5, 4}, generator);
    const auto check = [&](const nn::BatchNorm2d& norm) {
      const auto run = [&](auto forward) {
        Tensor x = images.clone().set_requires_grad(), added = more.clone().set_requires_grad();
        for (Tensor& tensor : norm.parameters()) tensor.zero_grad();
        const Tensor y = forward(x, added);
        op::sum(y * y).backward();
        std::vector<Tensor> results{y.detach(), x.grad()};
        if (added.grad().defined()) results.push_back(added.grad());
        for (const Tensor& tensor : norm.parameters()) results.push_back(tensor.grad().clone());
        return results;
      };
      const auto compare = [&](auto together, auto apart) {
        const auto first = run(together), second = run(apart);
        REQUIRE(first.size() == second.size());
        for (std::size_t i = 0; i < first.size(); ++i) CHECK(largest_difference(first[i], second[i]) < 1e-4);
      };
      compare([&](const Tensor& x, const Tensor&) { return norm(x, {}, Activation::relu); },
              [&](const Tensor& x, const Tensor&) { return op::relu(norm(x)); });
      compare([&](const Tensor& x, const Tensor& added) { return norm(x, added, Activation::relu); },
              [&](const Tensor& x, const Tensor& added) { return op::relu(norm(x) + added); });
      compare([&](const Tensor& x, const Tensor&) { return norm(x, more, Activation::relu); },
              [&](const Tensor& x, const Tensor&) { return op::relu(norm(x) + more); });
      compare([&](const Tensor& x, const Tensor& added) { return norm(x, added, Activation::none); },
              [&](const Tensor& x, const Tensor& added) { return norm(x) + added; });
    };
    nn::BatchNorm2d norm(8);
    check(norm);
    norm.eval();
    check(norm);
  }
}

TEST_CASE("nn: bad layer sizes are refused where the layer is made", "[nn]") {
  CHECK_THROWS_AS(nn::Linear(0, 3), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(3, 4, 3, {.groups = 2}), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(2, 4, 0), ShapeError);
  CHECK_THROWS_AS(nn::Linear(2, 3, {.dtype = DType::int64}), DTypeError);
}

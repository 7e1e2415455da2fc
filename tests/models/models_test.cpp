#include "tern/models/models.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/optim/optim.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

/// Trains on one batch until it is known by heart.
double overfit(const nn::Module& net, const Tensor& x, const Tensor& labels, double learning_rate, int steps) {
  optim::SGD sgd(net.parameters(), {.learning_rate = learning_rate, .momentum = 0.9});
  Step step([&](const Tensor& images, const Tensor& digits) {
    Tensor loss = op::cross_entropy(net(images), digits);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  });
  Tensor loss;
  for (int i = 0; i < steps; ++i) loss = step(x, labels);
  return loss.item();
}

void check_gradients(const nn::Module& net, const Tensor& x, const Tensor& labels) {
  op::cross_entropy(net(x), labels).backward();
  for (const auto& [name, tensor] : net.named_parameters()) {
    INFO(name);
    REQUIRE(tensor.grad().defined());
    CHECK(tensor.grad().shape() == tensor.shape());
    double sum = 0;  // of absolute values: finite if all are
    for (const double value : tensor.grad().values()) sum += std::abs(value);
    CHECK(std::isfinite(sum));
    CHECK(sum > 0);
  }
}

Tensor digits(std::int64_t n) { return tensor<std::int64_t>({3, 1, 4, 1, 5, 9, 2, 6}).slice(0, 0, n); }

}  // namespace

TEST_CASE("models: sizes and names", "[models]") {
  for (const std::int64_t h : {196, 392, 784}) {
    const models::Mlp net = h == 196 ? models::mlp_small() : h == 392 ? models::mlp_medium() : models::mlp_big();
    CHECK(net.parameter_count() == 784 * h + h + 2 * (h * h + h) + h * 10 + 10);
  }
  std::vector<std::string> names;
  for (const auto& named : models::Mlp().named_parameters()) names.push_back(named.name);
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias", "6.weight",
                                          "6.bias"});
  const models::LeNet lenet;
  CHECK(lenet.parameter_count() == 431080);
  names.clear();
  for (const auto& named : lenet.named_parameters()) names.push_back(named.name);
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "5.weight", "5.bias", "7.weight",
                                          "7.bias"});
  CHECK(models::Mlp({.layers = {4, 3, 2}, .activation = Activation::tanh, .dropout = 0.5}).size() == 4);
  CHECK_THROWS_AS(models::Mlp({.layers = {4}}), ShapeError);
}

TEST_CASE("models: the seed decides the start", "[models]") {
  CHECK(models::LeNet(1).parameters()[4].values() == models::LeNet(1).parameters()[4].values());
  CHECK(models::LeNet(1).parameters()[4].values() != models::LeNet(2).parameters()[4].values());
  const models::Mlp net(models::MlpOptions{}, 7);
  CHECK(net.parameters()[0].values() == models::mlp_small(7).parameters()[0].values());
}

TEST_CASE("models: gradients reach every parameter and one batch is learnt by heart, in every mode", "[models]") {
  for (const ModeStatus& status : modes()) {
    if (!status.available) continue;
    INFO(status.name);
    const Device device(status.name);
    Generator generator(11);
    const Tensor images = rand({8, 1, 28, 28}, generator);
    const models::Mlp mlp = models::mlp_small(1);
    check_gradients(mlp, images, digits(8));
    CHECK(mlp(images).values() == mlp(images.flatten(1)).values());
    CHECK(overfit(mlp, images, digits(8), 0.1, 60) < 0.02);
    const models::LeNet lenet(1);
    check_gradients(lenet, images.slice(0, 0, 4), digits(4));
    CHECK(overfit(lenet, images.slice(0, 0, 4), digits(4), 0.05, 30) < 0.05);
  }
}

TEST_CASE("models: dropout is part of an Mlp that asks for it", "[models]") {
  models::Mlp net({.layers = {8, 64, 3}, .dropout = 0.5}, 1);
  const Tensor x = ones({2, 8});
  CHECK(net(x).values() != net(x).values());
  net.eval();
  CHECK(net(x).values() == net(x).values());
}

// A Trainer whose activations and gradients are float16.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

using training::Trainer;
using training::TrainerOptions;

namespace {

using Values = std::vector<double>;

data::Dataset points() {
  Generator generator(8);
  return {.images = randn({24, 3}, generator),
          .labels = randn({24, 1}, generator),
          .classes = data::no_classes,
          .source = "points"};
}

/// A small network whose loss has a factor and whose rate has its inverse.
struct Small {
  nn::Sequential net;
  optim::SGD sgd;
  Trainer trainer;
  explicit Small(const TrainerOptions& options, double factor = 1, const parallel::Group& group = parallel::Group())
      : Small(options, factor, group, Generator(1)) {}
  Values weights() const { return net.state().at("0.weight").values(); }
  double scale() const { return trainer.snapshot().part("scaler.").at("scale").item(); }

 private:
  Small(const TrainerOptions& options, double factor, const parallel::Group& group, Generator generator)
      : net(nn::Linear(3, 8, {}, generator), nn::Tanh(), nn::Linear(8, 1, {}, generator)),
        sgd(net.parameters(), {.learning_rate = 0.1 / factor, .momentum = 0.5}),
        trainer(
            net, sgd, data::DataLoader(points(), {.batch_size = 8, .seed = 2}),
            [this, factor](const Tensor& x, const Tensor& y) {
              return parallel::ShardLoss{operators::mse(net(x), y) * factor};
            },
            options, group) {}
};

Values trained(const TrainerOptions& options, Precision precision, double factor = 1) {
  const Device device("sequential", {.precision = precision});
  Small small(options, factor);
  small.trainer.run();
  CHECK(small.trainer.history().back().loss < 0.9 * small.trainer.history().front().loss);
  return small.weights();
}

double apart(const Values& a, const Values& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("trainer: float16 gradients neither vanish nor overflow", "[trainer][mixed]") {
  const Values strict = trained({.epochs = 6}, Precision::strict);
  const TrainerOptions scaled{.epochs = 6, .scaler = optim::GradScalerOptions{.scale = 1024}};
  CHECK(trained(scaled, Precision::strict) == strict);
  CHECK(apart(trained(scaled, Precision::f16), strict) < 2e-3);
  CHECK(apart(trained({.epochs = 6}, Precision::f16, 1e-8), strict) < 2e-3);  // unscaled, they would all be 0

  const Device device("sequential", {.precision = Precision::f16});
  Small large({.epochs = 8, .scaler = optim::GradScalerOptions{.scale = 0x1p24}});
  large.trainer.run();  // its first steps overflow
  CHECK(large.scale() < 0x1p24);
  CHECK(std::isfinite(large.trainer.history().front().loss));
  CHECK(apart(large.weights(), Small({}).weights()) > 0.05);
}

TEST_CASE("trainer: float16 gradients are clipped without their scale", "[trainer][mixed]") {
  const TrainerOptions options{.epochs = 6, .clip_norm = 0.2, .scaler = optim::GradScalerOptions{.scale = 1024}};
  const Values strict = trained(options, Precision::strict);
  CHECK(apart(strict, trained({.epochs = 6}, Precision::strict)) > 1e-2);
  CHECK(apart(trained(options, Precision::f16), strict) < 2e-3);
}

TEST_CASE("trainer: a float16 training resumes with its scale and the same bits", "[trainer][mixed]") {
  const Device device("sequential", {.precision = Precision::f16});
  const TrainerOptions options{.epochs = 4, .scaler = optim::GradScalerOptions{.scale = 8, .interval = 2}};
  Small whole(options), first(options), second(options);
  whole.trainer.run();
  CHECK(whole.scale() == 8 * 0x1p6);  // 12 steps
  first.trainer.run(2);
  second.trainer.restore(first.trainer.snapshot(), "here");
  second.trainer.run();
  CHECK(second.weights() == whole.weights());
  CHECK(second.scale() == whole.scale());

  const Device strict("sequential", {.precision = Precision::strict});
  Small other({.epochs = 4});  // may continue it: weights and optimiser are float32
  other.trainer.restore(first.trainer.snapshot(), "here");
  other.trainer.run();
  CHECK(apart(other.weights(), whole.weights()) < 2e-3);
}

TEST_CASE("trainer: ranks of a float16 training have the same bits and scales", "[trainer][mixed][parallel]") {
  std::vector<Values> weights(2);
  std::vector<double> scales(2);
  parallel::launch({.ranks = 2, .limit = std::chrono::seconds(30)}, [&](const parallel::Group& group) {
    const Device device("sequential", {.precision = Precision::f16});
    Small small({.epochs = 3, .scaler = optim::GradScalerOptions{.scale = 0x1p24, .interval = 3}}, 1, group);
    small.trainer.run();
    weights[static_cast<std::size_t>(group.rank())] = small.weights();
    scales[static_cast<std::size_t>(group.rank())] = small.scale();
  });
  CHECK(weights[0] == weights[1]);
  CHECK(scales[0] == scales[1]);
  CHECK(scales[0] < 0x1p24);
}

TEST_CASE("trainer: what would leave the weights as they are is refused", "[trainer][mixed]") {
  const auto train = [](nn::Sequential& net, optim::SGD& sgd, const TrainerOptions& options) {
    const auto loss = [&](const Tensor& x, const Tensor& y) {
      const DType dtype = net.parameters()[0].dtype();
      return parallel::ShardLoss{operators::mse(net(x.to(dtype)).to(DType::float32), y)};
    };
    const Values before = net.state().at("0.weight").values();
    Trainer trainer(net, sgd, data::DataLoader(points(), {.batch_size = 8, .seed = 2}), loss, options);
    trainer.run();
    return apart(net.state().at("0.weight").values(), before);
  };
  const auto made = [](DType dtype) {
    Generator generator(1);
    nn::Sequential net{nn::Linear(3, 8, {}, generator), nn::Tanh(), nn::Linear(8, 1, {}, generator)};
    net.to(dtype);
    return net;
  };
  const TrainerOptions plain{.epochs = 4}, scaled{.epochs = 4, .scaler = optim::GradScalerOptions{.scale = 1024}};
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    nn::Sequential net = made(dtype);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1});
    {
      const Device device("sequential");
      CHECK(train(net, sgd, plain) > 0.01);
      CHECK_THROWS_WITH(train(net, sgd, scaled), Catch::ContainsSubstring("a scaled loss needs float32 parameters"));
    }
    const Device device("sequential", {.precision = Precision::f16});  // has a scaler of its own
    CHECK_THROWS_AS(train(net, sgd, plain), DTypeError);
    // Their masters alone are no parameters of the network.
    optim::MasterWeights masters(net.parameters());
    optim::SGD of_masters(masters.parameters(), {.learning_rate = 0.1});
    CHECK_THROWS_WITH(train(net, of_masters, plain), Catch::ContainsSubstring("no parameter of the network"));
  }
  nn::Sequential net = made(DType::float32);
  optim::SGD early(net.parameters(), {.learning_rate = 0.1});
  net.to(DType::bfloat16);  // its parameters are the same tensors
  const Device device("sequential");
  CHECK(train(net, early, plain) > 0.01);
}

}  // namespace tern::testing

// AlexNet, GoogLeNet, Vgg16 and ResNet18 learn, and learn the same in every mode.

#include "support/image_nets.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/summary.hpp"

using namespace tern;
using testing::ImageNet, testing::image_nets, testing::make, testing::random_images, testing::few_labels;

namespace {

/// The losses of a training on one batch.
std::vector<double> train(const models::ImageClassifier& net, optim::Optimizer& optimizer, std::int64_t batch,
                          int steps) {
  const Tensor images = random_images(net, batch), labels = few_labels(batch);
  Step step([&](const Tensor& x, const Tensor& y) {
    Tensor loss = net.loss(x, y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(step(images, labels).item());
  return losses;
}

std::vector<double> first_ten(const ImageNet& net, const std::string& mode, std::uint64_t seed) {
  const Device device(mode);
  const auto made = make(net, seed);
  optim::SGD sgd(made->parameters(), {.learning_rate = 0.002, .momentum = 0.9, .weight_decay = 5e-4});
  return train(*made, sgd, 4, 10);
}

// With some weights a sum is 0 within its rounding, and relu's gradient flows in one mode alone. Then weights of
// another seed must agree: an error would show with all of them.
void check_agreement(const std::string& mode) {
  for (const ImageNet& net : image_nets()) {
    double least = 1;
    for (std::uint64_t seed = 1; seed <= 3 && least >= 1e-4; ++seed) {
      const std::vector<double> expected = first_ten(net, "sequential", seed), losses = first_ten(net, mode, seed);
      double worst = 0;
      for (std::size_t i = 0; i < losses.size(); ++i)
        worst = std::max(worst, std::abs(losses[i] - expected[i]) / expected[i]);
      least = std::min(least, worst);
      INFO(net.name << " in mode " << mode << ", seed " << seed);
      CHECK(losses.back() < losses.front());
      testing::count_cases(mode, static_cast<std::int64_t>(losses.size()));
    }
    INFO(net.name << " in mode " << mode << ": the largest relative difference of 10 losses is " << least);
    CHECK(least < 1e-4);
  }
}

void check_learning(const std::string& mode) {
  const Device device(mode);
  for (const ImageNet& net : image_nets()) {
    const auto made = make(net);
    optim::Adam adam(made->parameters(), {.learning_rate = 0.002});
    const std::vector<double> losses = train(*made, adam, 8, 60);
    INFO(net.name << " in mode " << mode);
    for (const double loss : losses) CHECK(loss >= 0);  // false for NaN as well
    CHECK(losses.back() < 0.05);
  }
}

}  // namespace

TEST_CASE("image nets: one batch is learnt by heart, and no loss is negative", "[training]") {
  check_learning("vectorized");
}

TEST_CASE("image nets: the first ten losses agree across modes", "[training]") { check_agreement("vectorized"); }

TEST_CASE("image nets: cuda learns, and agrees with sequential", "[training][cuda]") {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::find(modes.begin(), modes.end(), "cuda") == modes.end()) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  check_learning("cuda");
  check_agreement("cuda");
}

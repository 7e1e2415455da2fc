// Models that train at once as branches of one step.

#include <memory>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/models/models.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/branches.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;

namespace {

/// A model and its optimizer, both by its number.
struct Trained {
  std::shared_ptr<nn::Module> net;
  std::shared_ptr<optim::Optimizer> optimizer;

  Tensor step(const Tensor& x, const Tensor& labels) const {
    Tensor loss = operators::cross_entropy((*net)(x), labels);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss;
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Tensor& parameter : net->parameters())
      for (const double value : parameter.values()) all.push_back(value);
    return all;
  }
};

using Maker = std::function<Trained(int number)>;

Trained with_sgd(const std::shared_ptr<nn::Module>& net, int number) {
  return {net, std::make_shared<optim::SGD>(net->parameters(),
                                            optim::SgdOptions{.learning_rate = 0.01 * (number + 1), .momentum = 0.9})};
}

const auto seed_of = [](int number) { return static_cast<std::uint64_t>(number); };

/// The weights of each model after some steps: all in one step, and each in one of its own.
void compare(const Maker& make, int models, const Tensor& x, const Tensor& labels) {
  constexpr int steps = 5;
  std::vector<Trained> all;
  for (int i = 0; i < models; ++i) all.push_back(make(i));
  Step step([&](const Tensor& images, const Tensor& classes) {
    std::vector<std::function<Tensor()>> functions;
    for (const Trained& model : all) functions.emplace_back([&] { return model.step(images, classes); });
    return branches(functions).back();
  });
  for (int i = 0; i < steps; ++i) step(x, labels);
  for (int i = 0; i < models; ++i) {
    INFO("model " << i << " of " << models);
    const Trained model = make(i);
    const auto before = model.weights();
    Step alone([&](const Tensor& images, const Tensor& classes) { return model.step(images, classes); });
    for (int s = 0; s < steps; ++s) alone(x, labels);
    CHECK(model.weights() != before);
    CHECK(all[static_cast<std::size_t>(i)].weights() == model.weights());
  }
}

}  // namespace

TEST_CASE("together: models that train as branches of a step have the bits that each has alone", "[device]") {
  for (const std::string& name : testing::available_modes())
    for (const Precision precision : {Precision::strict, Precision::tf32}) {
      if (precision == Precision::tf32 && name != "cuda") continue;
      const Device device{name, {.threads = 1, .precision = precision}};
      Generator random(3);
      for (const std::int64_t batch : {1, 3, 40}) {
        INFO(name << ", " << batch << " images, precision " << static_cast<int>(precision));
        const Tensor x = randn({batch, 36}, random), labels = randint(0, 10, {batch}, random);
        const auto mlp = [](std::vector<std::int64_t> layers, int number) {
          return std::make_shared<models::Mlp>(models::MlpOptions{.layers = std::move(layers)}, seed_of(number));
        };
        compare([&](int number) { return with_sgd(mlp({36, 20, 12, 10}, number), number); }, 35, x, labels);
        // One of another shape in between, and widths that no pack divides.
        compare(
            [&](int number) {
              return with_sgd(mlp({36, number == 1 ? 64 : 21, 10}, number), number);
            },
            4, x, labels);
        // More parameters than one launch of few tensors takes, and an optimizer that counts its steps.
        compare(
            [&](int number) {
              const auto net = mlp({36, 16, 16, 16, 16, 16, 16, 16, 16, 10}, number);
              return Trained{net, std::make_shared<optim::Adam>(
                                      net->parameters(), optim::AdamOptions{.learning_rate = 0.001 * (number + 1)})};
            },
            3, x, labels);
      }
    }
}

TEST_CASE("together: branches that also queue what cannot be shared keep their order", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name, {.threads = 1}};
    Generator random(5);
    const Tensor x = randn({4, 1, 28, 28}, random), labels = randint(0, 10, {4}, random);
    compare([](int number) { return with_sgd(std::make_shared<models::LeNet>(seed_of(number)), number); }, 3, x,
            labels);
  }
}

TEST_CASE("together: a label that no class has is found in its branch", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name};
    Generator random(7);
    const Tensor x = randn({4, 36}, random);
    Tensor labels = randint(0, 10, {4}, random);
    std::vector<Trained> all;
    for (int i = 0; i < 3; ++i)
      all.push_back(with_sgd(std::make_shared<models::Mlp>(models::MlpOptions{.layers = {36, 20, 10}}, seed_of(i)), i));
    Step step([&](const Tensor& images, const Tensor& classes) {
      std::vector<std::function<Tensor()>> functions;
      for (const Trained& model : all) functions.emplace_back([&] { return model.step(images, classes); });
      return branches(functions).back();
    });
    for (int i = 0; i < 3; ++i) step(x, labels);
    labels.fill_(10);
    CHECK_THROWS_AS(step(x, labels).item(), NumericError);
  }
}

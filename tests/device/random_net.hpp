#pragma once
// Random networks and optimisers for random training programs.

#include <functional>
#include <memory>
#include <random>

#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/branches.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

/// What a program decides. It never looks at what is computed, so that both runs decide the same.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// In [0, sides).
  int roll(int sides) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(sides)); }
  bool chance(int percent) { return roll(100) < percent; }
  /// Eighths in [-2, 2).
  float number() { return static_cast<float>(roll(32) - 16) / 8; }
  Tensor numbers(const Shape& shape) {
    Tensor made(shape);
    for (float& value : made.write<float>()) value = number();
    return made;
  }
  Tensor labels(std::int64_t count, int classes) {
    Tensor made({count}, DType::int64);
    for (std::int64_t& value : made.write<std::int64_t>()) value = roll(classes);
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

using Stage = std::function<Tensor(const Tensor&)>;

/// A network of random stages: modules of nn, operators with parameters of its own, branches and a Step inside.
class Net : public nn::Module {
 public:
  Net(Dice& dice, bool stepped) : stepped_(stepped) {
    images_ = dice.chance(30);
    if (images_) add_image_stages(dice);
    const int count = 1 + dice.roll(4);
    for (int i = 0; i < count; ++i) add_stage(dice);
  }

  Tensor forward(const Tensor& x) const override {
    Tensor y = x;
    for (const Stage& stage : stages_) y = stage(y);
    return y;
  }
  Shape input(std::int64_t count) const { return images_ ? Shape{count, 2, 4, 6} : Shape{count, 4}; }
  int features() const { return features_; }

 private:
  std::string next_name() { return "part" + std::to_string(names_++); }
  template <class M>
  void add(M part) {
    stages_.push_back([part = module(next_name(), part)](const Tensor& x) { return part(x); });
  }
  Tensor weight(Dice& dice, const Shape& shape) {
    return parameter(next_name(), operators::mul(dice.numbers(shape), 0.25));
  }

  void add_image_stages(Dice& dice) {
    add(nn::Conv2d(2, 3, 3, {.stride = 1 + dice.roll(2), .padding = 1, .bias = dice.chance(50)}));
    if (dice.chance(50)) add(nn::BatchNorm2d(3));
    if (dice.chance(30)) add(nn::LocalResponseNorm());
    if (dice.chance(50)) add(nn::Relu());
    if (dice.chance(50))
      add(nn::MaxPool2d(2));
    else
      add(nn::AvgPool2d(2));
    stages_.push_back([](const Tensor& x) { return operators::global_avg_pool2d(x).flatten(1); });
    features_ = 3;
  }

  void add_stage(Dice& dice) {
    const int next = 2 + dice.roll(4);
    switch (dice.roll(12)) {
      case 0:
      case 1:
        add(nn::Linear(features_, next, {.bias = dice.chance(70)}));
        features_ = next;
        break;
      case 2:
        add(nn::Sequential(nn::Linear(features_, next), nn::Relu()));
        features_ = next;
        break;
      case 3:
        add(nn::Dropout(0.25 * (1 + dice.roll(3))));
        break;
      case 4: {
        const Tensor w = weight(dice, {next, features_});
        stages_.push_back([w](const Tensor& x) { return operators::matmul(x, w.transpose(0, 1)); });
        features_ = next;
        break;
      }
      case 5: {
        const Tensor scale = weight(dice, {features_});
        stages_.push_back(
            [scale](const Tensor& x) { return operators::add(x, operators::mul(operators::tanh(x), scale)); });
        break;
      }
      case 6:
        stages_.push_back([](const Tensor& x) {
          return operators::cat(branches({[&] { return operators::relu(x); },
                                          [&] { return operators::mul(operators::sigmoid(x), 0.5); }}),
                                1);
        });
        features_ *= 2;
        break;
      case 7:
        stages_.push_back([](const Tensor& x) { return operators::softmax(x); });
        break;
      case 8: {
        const Tensor low = weight(dice, {1});
        stages_.push_back([low](const Tensor& x) { return operators::maximum(operators::clamp(x, -1, 1), low); });
        break;
      }
      case 9:
        stages_.push_back([](const Tensor& x) {
          return operators::where(operators::greater(x, operators::mean(x)), x, operators::gelu(x));
        });
        break;
      case 10: {
        const nn::Linear part = module(next_name(), nn::Linear(features_, next));
        if (stepped_)
          stages_.push_back([step = std::make_shared<Step>([part](const Tensor& x) { return part(x); }),
                             part](const Tensor& x) { return x.requires_grad() ? part(x) : (*step)(x); });
        else
          stages_.push_back([part](const Tensor& x) { return x.requires_grad() ? part(x) : part(x).detach(); });
        features_ = next;
        break;
      }
      default:
        stages_.push_back([](const Tensor& x) { return operators::softplus(x.transpose(0, 1)).transpose(0, 1); });
    }
  }

  bool stepped_, images_ = false;
  int features_ = 4, names_ = 0;
  std::vector<Stage> stages_;
};

inline std::unique_ptr<optim::Optimizer> make_optimizer(Dice& dice, const std::vector<Tensor>& parameters) {
  const double rate = 0.02 * (1 + dice.roll(4));
  switch (dice.roll(4)) {
    case 0:
      return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = rate});
    case 1:
      return std::make_unique<optim::SGD>(
          parameters, optim::SgdOptions{.learning_rate = rate, .momentum = 0.9, .nesterov = dice.chance(50)});
    case 2:
      return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = rate});
    default:
      return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.learning_rate = rate});
  }
}

inline nn::State copy_of(const nn::State& state) {
  nn::State copy;
  for (const auto& [name, tensor] : state) copy.emplace(name, tensor.clone());
  return copy;
}

}  // namespace tern::testing

#pragma once
// A small training whose bits are compared: alone, and beside others.

#include <future>
#include <string>
#include <vector>

#include "tern/models/models.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

/// The losses and weights of a LeNet that learned on a device, from the seed.
inline std::vector<double> trained(const std::string& device_name, std::uint64_t seed, int steps = 3,
                                   std::int64_t images = 4) {
  const Device device(device_name);
  manual_seed(seed);
  Generator generator(seed);
  const Tensor x = rand({images, 1, 28, 28}, generator);
  std::vector<std::int64_t> classes(static_cast<std::size_t>(images));
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>((i * 7 + seed) % 10);
  const Tensor labels = tensor(classes, {images});
  models::LeNet net(seed);
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  Step step([&](const Tensor& batch, const Tensor& wanted) {
    sgd.zero_grad();
    Tensor loss = net.loss(batch, wanted);
    loss.backward();
    sgd.step();
    return loss;
  });
  std::vector<double> seen;
  for (int i = 0; i < steps; ++i) seen.push_back(step(x, labels).item());
  for (const Tensor& weight : net.parameters())
    for (const double value : weight.values()) seen.push_back(value);
  return seen;
}

/// The results of the seeds 1, 2, ... on these devices, all at once, each in its own thread.
inline std::vector<std::vector<double>> trained_at_once(const std::vector<std::string>& devices, int steps = 3,
                                                        std::int64_t images = 4) {
  std::vector<std::future<std::vector<double>>> trainings;
  for (std::size_t i = 0; i < devices.size(); ++i)
    trainings.push_back(std::async(std::launch::async, [&, i] { return trained(devices[i], i + 1, steps, images); }));
  std::vector<std::vector<double>> seen;
  for (auto& training : trainings) seen.push_back(training.get());
  return seen;
}

}  // namespace tern::testing

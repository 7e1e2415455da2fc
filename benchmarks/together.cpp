// How many training steps per second models of one shape make, one by one and many concurrently: each in its own
// thread, or as branches of one recorded step. Every model must get the weights that it has alone.

#include <CLI/CLI.hpp>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cells.hpp"
#include "tern/tern.hpp"

namespace {

using namespace tern;

struct Options {
  std::string mode = "fastest", net = "mlp-small", method = "threads";
  std::vector<std::int64_t> models{1, 8, 32}, batches{1, 32, 128};
  std::int64_t loop = 64, loops = 20;
  int threads = 0;
};

/// One model with its own hyperparameters.
struct Model {
  benchmarks::Net net;
  std::shared_ptr<optim::SGD> sgd;

  Model(const std::string& name, std::int64_t batch, std::int64_t number) : net(benchmarks::make_net(name, batch)) {
    Generator random(static_cast<std::uint64_t>(number));
    const NoGrad no_grad;
    for (Tensor parameter : net.module->parameters()) parameter.copy_(randn(parameter.shape(), random) * 0.05);
    sgd = std::make_shared<optim::SGD>(
        net.module->parameters(),
        optim::SgdOptions{.learning_rate = 1e-3 * static_cast<double>(1 + number % 7), .momentum = 0.9});
  }
  Tensor step(const Tensor& x, const Tensor& labels) const {
    Tensor loss = net.loss(x, labels);
    sgd->zero_grad();
    loss.backward();
    sgd->step();
    return loss;
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Tensor& parameter : net.module->parameters())
      for (const double value : parameter.values()) all.push_back(value);
    return all;
  }
};

struct Data {
  Tensor x, labels;
  Data(const Options& options, std::int64_t batch) {
    Generator random(7);
    const benchmarks::Net net = benchmarks::make_net(options.net, batch);
    const Tensor one = randn(net.input, random), classes = randint(0, net.classes, {batch}, random);
    const auto each = [&](const Tensor& input) {
      Shape shape{options.loop};
      for (const std::int64_t size : input.shape()) shape.push_back(size);
      return input.unsqueeze(0).expand(shape);
    };
    x = each(one);
    labels = each(classes);
  }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Microseconds in which every model makes one step, and the weights afterwards.
struct Outcome {
  double step = 0;
  std::vector<std::vector<double>> weights;
};

/// Models `first`, `first` + 1, ...
Outcome in_threads(const Options& options, std::int64_t batch, std::int64_t models, std::int64_t first = 0) {
  Outcome outcome;
  outcome.weights.resize(static_cast<std::size_t>(models));
  std::barrier meet(models);
  double began = 0;
  const auto train = [&](std::int64_t number) {
    Device device(options.mode, {.threads = options.threads});
    const Data data(options, batch);
    const Model model(options.net, batch, first + number);
    Step step([&](const Tensor& x, const Tensor& labels) { return model.step(x, labels); });
    for (int i = 0; i < 2; ++i) step.each(data.x, data.labels);
    device.synchronize();
    meet.arrive_and_wait();
    if (number == 0) began = now();
    for (std::int64_t i = 0; i < options.loops; ++i) step.each(data.x, data.labels);
    device.synchronize();
    meet.arrive_and_wait();
    if (number == 0) outcome.step = (now() - began) * 1e6 / static_cast<double>(options.loops * options.loop);
    outcome.weights[static_cast<std::size_t>(number)] = model.weights();
  };
  {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < models; ++i) threads.emplace_back([&, i] { train(i); });
  }
  return outcome;
}

Outcome in_branches(const Options& options, std::int64_t batch, std::int64_t models) {
  Device device(options.mode, {.threads = options.threads});
  const Data data(options, batch);
  std::vector<Model> all;
  for (std::int64_t i = 0; i < models; ++i) all.emplace_back(options.net, batch, i);
  Step step([&](const Tensor& x, const Tensor& labels) {
    std::vector<std::function<Tensor()>> functions;
    for (const Model& model : all) functions.emplace_back([&] { return model.step(x, labels); });
    return branches(functions).back();
  });
  for (int i = 0; i < 2; ++i) step.each(data.x, data.labels);
  device.synchronize();
  const double began = now();
  for (std::int64_t i = 0; i < options.loops; ++i) step.each(data.x, data.labels);
  device.synchronize();
  Outcome outcome{(now() - began) * 1e6 / static_cast<double>(options.loops * options.loop), {}};
  for (const Model& model : all) outcome.weights.push_back(model.weights());
  return outcome;
}

void run(const Options& options) {
  std::printf("%s in %s, loops of %lld steps\n\n", options.net.c_str(), options.mode.c_str(),
              static_cast<long long>(options.loop));
  std::printf("| batch | models | method | a step of all | one after another : at once | same bits |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const std::int64_t batch : options.batches) {
    const Outcome alone = in_threads(options, batch, 1);
    for (const std::int64_t models : options.models) {
      const bool threads = options.method == "threads";
      const Outcome all = threads ? in_threads(options, batch, models) : in_branches(options, batch, models);
      const bool same = all.weights.front() == alone.weights[0] &&
                        all.weights.back() == in_threads(options, batch, 1, models - 1).weights[0];
      std::printf("| %lld | %lld | %s | %.1f us | %.2f | %s |\n", static_cast<long long>(batch),
                  static_cast<long long>(models), options.method.c_str(), all.step,
                  alone.step * static_cast<double>(models) / all.step, same ? "yes" : "NO");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Training steps of models of one shape, one after another and at once"};
  app.add_option("--mode", options.mode, "the mode")->capture_default_str();
  app.add_option("--net", options.net, "mlp-small, mlp-medium, mlp-big, lenet")->capture_default_str();
  app.add_option("--method", options.method, "threads or branches")->check(CLI::IsMember({"threads", "branches"}));
  app.add_option("--threads", options.threads, "of each model in vectorized; 0: all cores")->capture_default_str();
  app.add_option("--models", options.models, "how many")->delimiter(',')->capture_default_str();
  app.add_option("--batches", options.batches, "batch sizes")->delimiter(',')->capture_default_str();
  app.add_option("--loop", options.loop, "steps of one call")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--loops", options.loops, "calls that are timed")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "together: %s\n", error.what());
    return 1;
  }
}

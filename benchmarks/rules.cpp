// The two rules by which the cuda mode cuts its own products and small convolutions (docs/architecture.md): `rules`
// times training steps and inference of networks with cuts by either, replays of both in turn, and prints a table of
// microseconds and their ratio. `rules NET BATCH` times one network.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "networks.hpp"

using namespace tern;
using namespace tern::benchmarks;

namespace {

using Clock = std::chrono::steady_clock;

struct Cell {
  std::string net;
  std::int64_t batch = 1;
  bool trains = false;
  Precision precision = Precision::strict;
};

Network network_of(const std::string& name) {
  const auto mlp = [](models::Mlp net) { return Network{std::make_shared<models::Mlp>(std::move(net)), {784}, 10}; };
  if (name == "mlp_small") return mlp(models::mlp_small());
  if (name == "mlp_medium") return mlp(models::mlp_medium());
  return net_of(name);
}

/// A cell whose work is cut by one rule.
class Run {
 public:
  Run(const Cell& cell, const char* rule) : rule_(rule) {
    const ForcedAlgorithm cut("cut_rule", rule_);
    const Network network = network_of(cell.net);
    const std::shared_ptr<nn::Module>& net = network.module;
    Generator generator{3};
    x_ = randn(network.input(cell.batch), generator);
    y_ = randint(0, network.classes, {cell.batch}, generator);
    net->train(cell.trains);
    if (cell.trains) {
      const auto sgd =
          std::make_shared<optim::SGD>(net->parameters(), optim::SgdOptions{.learning_rate = 1e-4, .momentum = 0.9});
      step_ = std::make_unique<Step>([net, sgd](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss_of(*net, x, y);
        net->zero_grad();
        loss.backward();
        sgd->step();
        return loss;
      });
    } else {
      step_ = std::make_unique<Step>([net](const Tensor& x, const Tensor&) {
        const NoGrad none;
        return (*net)(x);
      });
    }
    for (int i = 0; i < 4; ++i) (*step_)(x_, y_);
    taken_ = cut.taken();
  }

  std::int64_t taken() const { return taken_; }
  /// Microseconds of a replay.
  double time(int replays) {
    const ForcedAlgorithm cut("cut_rule", rule_);
    Memory& memory = *current_scope().mode->memory;
    memory.synchronize(memory.stream());
    const auto start = Clock::now();
    for (int i = 0; i < replays; ++i) (*step_)(x_, y_);
    memory.synchronize(memory.stream());
    return 1e6 * std::chrono::duration<double>(Clock::now() - start).count() / replays;
  }

 private:
  const char* rule_;
  Tensor x_, y_;
  std::unique_ptr<Step> step_;
  std::int64_t taken_ = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Prints a row; the ratio of the times by the plain rule to those by the fitted one.
double measure(const Cell& cell) {
  const Device device{"cuda", {.precision = cell.precision}};
  Run fitted(cell, "fitted"), plain(cell, "plain");
  const int replays = static_cast<int>(std::clamp(2e4 / fitted.time(3), 2.0, 400.0));
  std::vector<double> by_fitted, by_plain, ratios;
  for (int pair = 0; pair < 9; ++pair) {
    by_fitted.push_back(fitted.time(replays));
    by_plain.push_back(plain.time(replays));
    ratios.push_back(by_plain.back() / by_fitted.back());
  }
  std::printf("| %s | %lld | %s | %s | %.1f | %.1f | %.3f | %lld |\n", cell.net.c_str(),
              static_cast<long long>(cell.batch), cell.trains ? "step" : "inference",
              cell.precision == Precision::strict ? "strict" : "tf32", median(by_fitted), median(by_plain),
              median(ratios), static_cast<long long>(plain.taken()));
  std::fflush(stdout);
  return median(ratios);
}

int run(int argc, char** argv) {
  std::vector<std::pair<std::string, std::int64_t>> nets;
  if (argc == 3) nets.emplace_back(argv[1], std::atoi(argv[2]));
  if (argc == 1) {
    for (const char* const net : {"mlp_small", "mlp_medium", "mlp", "lenet"})
      for (const std::int64_t batch : {1, 32, 128, 512}) nets.emplace_back(net, batch);
    for (const char* const net : {"alexnet", "googlenet", "resnet18"})
      for (const std::int64_t batch : {1, 32}) nets.emplace_back(net, batch);
  }
  if (nets.empty()) {
    std::fprintf(stderr, "usage: rules [NET BATCH]\n");
    return 2;
  }
  std::printf(
      "| network | images | | precision | fitted us | plain us | plain / fitted | cuts |\n"
      "|---|---|---|---|---|---|---|---|\n");
  std::vector<double> ratios;
  for (const auto& [net, batch] : nets)
    for (const bool trains : {true, false})
      for (const Precision precision : {Precision::strict, Precision::tf32})
        ratios.push_back(measure({net, batch, trains, precision}));
  std::ranges::sort(ratios);
  std::printf("plain / fitted of %zu cells: median %.3f, 90th percentile %.3f, worst %.3f\n", ratios.size(),
              median(ratios), ratios[ratios.size() * 9 / 10], ratios.back());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

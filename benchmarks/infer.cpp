// Inference, or a training step, of a network that the library ships: infer NET BATCH THREADS SECONDS prints a line
// with the least, the median and the 99th percentile of the milliseconds that it takes, and the least of the process's
// processor time, which other programs on the machine disturb less. Host tensors in and out. Without SECONDS it reads
// them from standard input, a line for each measurement, so that a peer can be measured between them (peers/infer.py).
// MODE in the environment names another mode than vectorized; PHASE=program runs the network as a graph::Program,
// PHASE=train trains, PHASE=profile prints a profile of inferences, PHASE=layers one of the graph that a
// Program runs, operator by operator.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "networks.hpp"

using namespace tern;
using namespace tern::benchmarks;

namespace {

std::string setting(const char* name, const char* usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : value;
}

double seconds_of(std::clock_t clocks) { return static_cast<double>(clocks) / CLOCKS_PER_SEC; }

void measure(const std::function<void()>& run, double seconds) {
  std::vector<double> times, processor;
  for (double total = 0; total < seconds || times.size() < 3; total += times.back()) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t clock = std::clock();
    run();
    processor.push_back(seconds_of(std::clock() - clock));
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  const auto at = [&](double share) { return 1e3 * times[static_cast<std::size_t>(share * double(times.size() - 1))]; };
  std::printf("%.4f %.4f %.4f %.4f\n", at(0), at(0.5), at(0.99), 1e3 * *std::ranges::min_element(processor));
  std::fflush(stdout);
}

enum class Phase { infer, program, layers, train };

std::function<void()> step_of(const std::string& name, std::int64_t images, Phase phase) {
  const Network network = net_of(name);
  const std::shared_ptr<nn::Module>& net = network.module;
  const Shape shape = network.input(images);
  const bool trains = phase == Phase::train;
  Generator generator{1};
  const Tensor x = randn(shape, generator);
  net->train(trains);
  if (phase == Phase::program) {
    const auto program = std::make_shared<graph::Program>(*net, std::vector{x});
    return [=] { (*program)(x).values(); };
  }
  if (phase == Phase::layers) {
    const auto folded = std::make_shared<graph::Graph>(graph::for_inference(graph::trace(*net, x)));
    return [=] {
      const NoGrad none;
      (*folded)(x).values();
    };
  }
  if (!trains)
    return [net, x] {
      const NoGrad none;
      (*net)(x).values();
    };
  const Shape labels = (*net)(x).rank() == 4 ? Shape{shape[0], shape[2], shape[3]} : Shape{shape[0]};
  const Tensor y = randint(0, network.classes, labels, generator);
  const auto sgd =
      std::make_shared<optim::SGD>(net->parameters(), optim::SgdOptions{.learning_rate = 1e-4, .momentum = 0.9});
  return [net, x, y, sgd] {
    const Tensor loss = loss_of(*net, x, y);
    sgd->zero_grad();
    loss.backward();
    sgd->step();
    loss.item();
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: infer NET BATCH THREADS [SECONDS]\n");
    return 2;
  }
  const Device device{setting("MODE", "vectorized"), {.threads = std::atoi(argv[3])}};
  const std::string phase = setting("PHASE", "infer");
  const Phase kind = phase == "train"     ? Phase::train
                     : phase == "program" ? Phase::program
                     : phase == "layers"  ? Phase::layers
                                          : Phase::infer;
  const std::function<void()> run = step_of(argv[1], std::atoi(argv[2]), kind);
  for (int i = 0; i < 3; ++i) run();
  if (phase == "profile" || phase == "layers") {
    const Profile profile;
    for (int i = 0; i < 5; ++i) run();
    std::printf("five inferences\n%s\n", profile.text().c_str());
    return 0;
  }
  if (argc == 5) measure(run, std::atof(argv[4]));
  for (double seconds = 0; argc == 4 && std::cin >> seconds;) measure(run, seconds);
  return 0;
}

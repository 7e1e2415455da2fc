// One recurrent layer over a sequence, beside peers/recurrent.py: recurrent lstm|gru STEPS BATCH WIDTH THREADS [MODE]
// reads "forward|training SECONDS [strict|tf32]" from standard input, a line for each measurement, and prints the least
// milliseconds of a call that waits for its result. Inputs are as wide as the hidden state; training is forward, and
// backward to all weights and the input. A mode that captures replays a recording.

#include "tern/operators/recurrent.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tern/tern.hpp"

using namespace tern;

namespace {

template <class Call>
double least_milliseconds(double seconds, const Call& call) {
  double least = 1e9, total = 0;
  for (int i = 0; total < seconds || i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    least = std::min(least, now);
    total += now;
  }
  return 1e3 * least;
}

int run(int argc, char** argv) {
  const bool lstm = argv[1] == std::string("lstm");
  const std::int64_t steps = std::atoi(argv[2]), batch = std::atoi(argv[3]), width = std::atoi(argv[4]);
  const Device made{argc > 6 ? argv[6] : "vectorized", {.threads = std::atoi(argv[5])}};
  Generator generator(1);
  const std::int64_t rows = (lstm ? 4 : 3) * width;
  std::vector<Tensor> all{randn({steps, batch, width}, generator)};
  for (const Shape& shape : {Shape{rows, width}, Shape{rows, width}, Shape{rows}, Shape{rows}})
    all.push_back(op::mul(randn(shape, generator), 0.05));
  std::string line, kind, precision;
  while (std::getline(std::cin, line)) {
    double seconds = 0;
    precision = "strict";
    std::istringstream(line) >> kind >> seconds >> precision;
    Device device{
        made.mode(),
        {.threads = std::atoi(argv[5]), .precision = precision == "tf32" ? Precision::tf32 : Precision::strict}};
    const bool trains = kind == "training";
    // The inputs outlive the step, so a replay copies none; its result is the last state.
    Step step([&](const std::vector<Tensor>&) {
      std::vector<Tensor> t;
      for (const Tensor& each : all) t.push_back(each.detach().set_requires_grad(trains));
      const std::vector<Tensor> results =
          lstm ? op::lstm(t[0], {}, {}, t[1], t[2], t[3], t[4]) : op::gru(t[0], {}, t[1], t[2], t[3], t[4]);
      if (trains) op::sum(results[0]).backward();
      return std::vector<Tensor>{results[1].detach()};
    });
    const auto call = [&] {
      step.run_all({});
      device.synchronize();
    };
    for (int i = 0; i < 3; ++i) call();
    expects(step.replays() > 0 || device.mode().capture == nullptr, "not recorded: ", step.unrecorded());
    std::printf("%.4f\n", least_milliseconds(seconds, call));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fprintf(stderr, "usage: recurrent lstm|gru STEPS BATCH WIDTH THREADS [MODE]\n");
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// One recurrent layer over a sequence, beside peers/recurrent.py: recurrent lstm|gru STEPS BATCH WIDTH THREADS reads
// "forward SECONDS" or "training SECONDS" from standard input, a line for each measurement, and prints the least
// milliseconds of a call. Inputs are as wide as the hidden state; training is forward, and backward to all weights and
// the input.

#include "tern/operators/recurrent.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
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

int run(char** argv) {
  const bool lstm = argv[1] == std::string("lstm");
  const std::int64_t steps = std::atoi(argv[2]), batch = std::atoi(argv[3]), width = std::atoi(argv[4]);
  const Device device{"vectorized", {.threads = std::atoi(argv[5])}};
  Generator generator(1);
  const std::int64_t rows = (lstm ? 4 : 3) * width;
  std::vector<Tensor> all{randn({steps, batch, width}, generator)};
  for (const Shape& shape : {Shape{rows, width}, Shape{rows, width}, Shape{rows}, Shape{rows}})
    all.push_back(op::mul(randn(shape, generator), 0.05));
  const auto layer = [&] {
    return lstm ? op::lstm(all[0], {}, {}, all[1], all[2], all[3], all[4])
                : op::gru(all[0], {}, all[1], all[2], all[3], all[4]);
  };
  std::string kind;
  for (double seconds = 0; std::cin >> kind >> seconds;) {
    const bool trains = kind == "training";
    for (Tensor& each : all) each.set_requires_grad(trains);
    const double time = least_milliseconds(seconds, [&] {
      const std::vector<Tensor> results = layer();
      if (!trains) return;
      op::sum(results[0]).backward();
      for (Tensor& each : all) each.zero_grad();
    });
    std::printf("%.4f\n", time);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: recurrent lstm|gru STEPS BATCH WIDTH THREADS\n");
    return 2;
  }
  try {
    return run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

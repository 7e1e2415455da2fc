// Recurrent layers over a sequence, beside peers/recurrent.py: recurrent MODE THREADS reads lines "lstm|gru STEPS BATCH
// WIDTH forward|training strict|tf32 SECONDS" from standard input and prints for each the least milliseconds of a call
// that waits for its result. Inputs are as wide as the hidden state; training is forward, and backward to all weights
// and the input. A mode that captures replays a recording.

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

struct Request {
  std::string cell, kind, precision;
  std::int64_t steps = 1, batch = 1, width = 1;
  double seconds = 0;
};

double answer(const char* mode, int threads, const Request& request) {
  Device device{mode,
                {.threads = threads, .precision = request.precision == "tf32" ? Precision::tf32 : Precision::strict}};
  const bool lstm = request.cell == "lstm", trains = request.kind == "training";
  const std::int64_t width = request.width, rows = (lstm ? 4 : 3) * width;
  Generator generator(1);
  std::vector<Tensor> all{randn({request.steps, request.batch, width}, generator)};
  for (const Shape& shape : {Shape{rows, width}, Shape{rows, width}, Shape{rows}, Shape{rows}})
    all.push_back(op::mul(randn(shape, generator), 0.05));
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
  return least_milliseconds(request.seconds, call);
}

void run(const char* mode, int threads) {
  for (std::string line; std::getline(std::cin, line);) {
    Request request;
    std::istringstream(line) >> request.cell >> request.steps >> request.batch >> request.width >> request.kind >>
        request.precision >> request.seconds;
    std::printf("%.4f\n", answer(mode, threads, request));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: recurrent MODE THREADS\n");
    return 2;
  }
  try {
    run(argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

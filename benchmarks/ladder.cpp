#include "ladder.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iomanip>
#include <memory>
#include <ostream>
#include <string>

#include "blocked.hpp"
#include "cells.hpp"
#include "tern/tern.hpp"

namespace tern::benchmarks {
namespace {

/// What is timed: `make` gives, within a scope, what one run does.
struct Problem {
  const char* title;
  double operations;  ///< multiplications and additions of one run; 0: unknown
  std::function<std::function<void()>()> make;
};

struct Rung {
  const char* title;
  std::string mode;
  int threads;  ///< 0: all
};

std::vector<Problem> problems() {
  constexpr std::int64_t n = 768;  // b is larger than a core's own caches
  constexpr std::int64_t images = 8, in = 20, side = 12, outputs = 50, window = 5, out_side = side - window + 1;
  const auto product = [] {
    Generator generator(1);
    const Tensor a = randn({n, n}, generator), b = randn({n, n}, generator);
    return std::function<void()>([=] { operators::matmul(a, b); });
  };
  const auto convolution = [] {
    Generator generator(2);
    const Tensor x = randn({images, in, side, side}, generator),
                 weight = randn({outputs, in, window, window}, generator);
    return std::function<void()>([=] { operators::conv2d(x, weight); });
  };
  const auto lenet = [] {
    Generator generator(3);
    const Tensor x = randn({32, 1, 28, 28}, generator), labels = randint(0, 10, {32}, generator);
    const auto net = std::make_shared<models::LeNet>(1);
    const auto sgd = std::make_shared<optim::SGD>(net->parameters(), optim::SgdOptions{.learning_rate = 1e-3});
    const auto step = std::make_shared<Step>([=](const Tensor& images_now, const Tensor& labels_now) {
      Tensor loss = operators::cross_entropy((*net)(images_now), labels_now);
      sgd->zero_grad();
      loss.backward();
      sgd->step();
      return loss;
    });
    return std::function<void()>([=] { (*step)(x, labels); });
  };
  return {{"matrix product, 768 x 768", 2.0 * n * n * n, product},
          {"convolution, 8 x 20 x 12 x 12 with 50 of 5 x 5",
           2.0 * images * outputs * out_side * out_side * in * window * window, convolution},
          {"LeNet, training step of 32", 0, lenet}};
}

/// Seconds of one run: the median of about `seconds` of them, or the first if it takes that long.
double time_of(const Problem& problem, const std::string& mode, int threads, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  Device device(mode, {.threads = threads});
  const std::function<void()> run = problem.make();
  const auto timed = [&](int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) run();
    device.synchronize();
    return since(start) / count;
  };
  double once = timed(1);  // warm; a Step is recorded in its first runs
  for (int i = 0; i < 3 && once < seconds; ++i) once = timed(1);
  if (once >= seconds) return once;
  const int count = std::max(1, static_cast<int>(0.01 / once));
  std::vector<double> samples;
  const auto start = Clock::now();
  while (samples.size() < 3 || since(start) < seconds) samples.push_back(timed(count));
  return timing_of(samples).median;
}

std::vector<Rung> rungs() {
  register_blocked();
  std::vector<Rung> steps{{"plain loops", "sequential", 1},
                          {"blocked loops", "blocked", 1},
                          {"SIMD, one thread", "vectorized", 1},
                          {"SIMD, all threads", "vectorized", 0}};
  for (const ModeStatus& status : modes())
    if (status.name == "cuda" && status.available) steps.push_back({"GPU", "cuda", 0});
  return steps;
}

/// One run beside the reference, which throws where a result differs.
void check(const Problem& problem) {
  const Device device("verify:blocked");
  problem.make()();
}

void print_scaling(std::ostream& out, const Problem& problem, const std::vector<int>& threads, double seconds) {
  std::vector<double> times;
  for (const int count : threads) times.push_back(time_of(problem, "vectorized", count, seconds));
  out << '\n' << problem.title << ", by threads:\n\n| threads | ms | speed-up | efficiency |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double faster = times[0] / times[i];
    out << "| " << threads[i] << " | " << 1e3 * times[i] << " | " << faster << " | " << faster / threads[i] << " |\n";
  }
  out << "\nAmdahl: " << 100 * serial_share(threads, times) << " % of the work runs in turn\n";
}

}  // namespace

double serial_share(const std::vector<int>& threads, const std::vector<double>& times) {
  expects(!threads.empty() && threads.size() == times.size() && threads[0] == 1,
          "serial_share: expected a time for each count of threads, the first of them 1");
  double above = 0, below = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double share = 1.0 / threads[i];  // time(p) / time(1) - 1 / p = f (1 - 1 / p)
    above += (times[i] / times[0] - share) * (1 - share);
    below += (1 - share) * (1 - share);
  }
  return below == 0 ? 1 : std::clamp(above / below, 0.0, 1.0);
}

void run_ladder(std::ostream& out, const std::vector<int>& threads, double seconds) {
  const std::vector<Rung> steps = rungs();
  out << std::fixed << std::setprecision(3);
  for (const Problem& problem : problems()) {
    check(problem);
    out << '\n' << problem.title << ":\n\n| step | ms | Gflop/s | times faster | than plain loops |\n";
    out << "|---|---|---|---|---|\n";
    double first = 0, before = 0;
    for (const Rung& step : steps) {
      const double time = time_of(problem, step.mode, step.threads, seconds);
      if (first == 0) first = before = time;
      out << "| " << step.title << " | " << 1e3 * time << " | ";
      if (problem.operations > 0) out << problem.operations / time / 1e9;
      out << " | " << before / time << " | " << first / time << " |" << std::endl;
      before = time;
    }
    if (threads.size() > 1) print_scaling(out, problem, threads, seconds);
  }
}

}  // namespace tern::benchmarks

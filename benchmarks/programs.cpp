// The latency of one inference: programs NET BATCH THREADS CALLS (or cuda in place of THREADS) prints, for the module
// as it is written (eager) and for the graph::Program made of it, the median and the 99th percentile in milliseconds,
// both timed in turn with the copy of the input, and the peak of the memory that a call needs beside the weights, in
// MB: of a program the block of its recording, and what its kernels take for themselves and for the result. With a
// sixth argument, float32, bfloat16 or int8 (every layer forced into 8 bits), it times the program alone, whose input
// is written anew on the host before each call, at the precision PRECISION (strict), and prints median, 99th percentile
// and least. `programs start FILE` prints the milliseconds from the start of the process to the first answer of a saved
// program for one image of 224 x 224.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "networks.hpp"

using namespace tern;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

double at(std::vector<double>& times, double share) {
  std::ranges::sort(times);
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
}

/// The most that a call holds at a time, beyond what is held before it.
template <class Call>
double peak_of(const Call& call) {
  host_memory().reset_peak();
  const std::size_t before = host_memory().statistics().in_use;
  call();
  return static_cast<double>(host_memory().statistics().peak - before) / 1e6;
}

int measure(const benchmarks::Network& network, std::int64_t batch, const std::string& place, int calls) {
  const Device device = place == "cuda" ? Device{"cuda"} : Device{"vectorized", {.threads = std::atoi(place.c_str())}};
  const NoGrad no_grad;
  nn::Module& net = *network.module;
  net.eval();
  Generator generator{1};
  const Tensor x = randn(network.input(batch), generator);
  const graph::Program program(net, {x.slice(0, 0, 1)});
  double largest = 0, worst = 0;
  const std::vector<double> expected = net(x).values(), found = program(x).values();
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  }
  for (int i = 0; i < 3; ++i) net(x).values(), program(x).values();
  std::vector<double> eager, recorded;
  for (int i = 0; i < calls; ++i) {
    Clock::time_point start = Clock::now();
    net(x).values();
    eager.push_back(milliseconds(start));
    start = Clock::now();
    program(x).values();
    recorded.push_back(milliseconds(start));
  }
  const double eager_peak = peak_of([&] { net(x); });
  const double planned = static_cast<double>(program.planned_bytes(batch)) / 1e6;
  const double of_kernels = peak_of([&] { program(x); });
  std::printf(
      "eager %.4f %.4f ms, peak %.2f MB; program %.4f %.4f ms, block %.2f MB, kernels %.2f MB; speed %.3f, block %.3f, "
      "memory %.3f, error %.1e\n",
      at(eager, 0.5), at(eager, 0.99), eager_peak, at(recorded, 0.5), at(recorded, 0.99), planned, of_kernels,
      at(eager, 0.5) / at(recorded, 0.5), planned / eager_peak, (planned + of_kernels) / eager_peak, worst / largest);
  return 0;
}

/// The program alone, as a service calls it: a new input on the host, the answer on the host.
int serve(const benchmarks::Network& network, std::int64_t batch, const std::string& place, int calls,
          const std::string& form) {
  const char* const precision = std::getenv("PRECISION");
  const Precision rounding = precision_of(precision == nullptr ? "strict" : precision);
  const Device device = place == "cuda"
                            ? Device{"cuda", {.precision = rounding}}
                            : Device{"vectorized", {.threads = std::atoi(place.c_str()), .precision = rounding}};
  const NoGrad no_grad;
  nn::Module& net = *network.module;
  net.eval();
  const DType dtype = form == "bfloat16" ? DType::bfloat16 : DType::float32;
  net.to(dtype);
  Generator generator{1};
  Tensor x = randn(network.input(batch), generator).to(dtype);
  const graph::Graph traced = graph::trace(net, x.slice(0, 0, 1));
  const graph::Program program(
      form == "int8" ? graph::quantize(traced, {{x}}, {.bound = 10, .force = true, .repeats = 0}) : traced);
  const auto renew = [&] {  // the other memories' copies become stale
    if (dtype == DType::float32)
      x.write<float>()[0] += 1;
    else
      x.write<BFloat16>()[0].bits ^= 1;
  };
  for (int i = 0; i < 5; ++i) renew(), program(x).values();
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    renew();
    const Clock::time_point start = Clock::now();
    program(x).values();
    times.push_back(milliseconds(start));
  }
  std::printf("%s median %.4f, 99th percentile %.4f, least %.4f ms; %.0f images/s; %s\n", form.c_str(), at(times, 0.5),
              at(times, 0.99), times[0], 1e3 * static_cast<double>(batch) / at(times, 0.5),
              program.unrecorded().empty() ? "recorded" : program.unrecorded().c_str());
  return 0;
}

int first_answer(const std::string& file) {
  const Device device{"vectorized"};
  const graph::Program program = graph::Program::load(file);
  program(zeros({1, 3, 224, 224})).values();
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  std::printf("%.1f ms of processor time\n",
              1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string net = argc > 1 ? argv[1] : "";
  if (argc == 3 && net == "start") return first_answer(argv[2]);
  if (argc == 4 && net == "save") {
    const benchmarks::Network network = benchmarks::net_of(argv[2]);
    network.module->eval();
    graph::Program(*network.module, {zeros(network.input(1))}).save(argv[3]);
    return 0;
  }
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr,
                 "usage: programs NET BATCH THREADS CALLS [FORM], programs save NET FILE, programs start FILE\n");
    return 2;
  }
  if (argc == 6) return serve(benchmarks::net_of(net), std::atoi(argv[2]), argv[3], std::atoi(argv[4]), argv[5]);
  return measure(benchmarks::net_of(net), std::atoi(argv[2]), argv[3], std::atoi(argv[4]));
}

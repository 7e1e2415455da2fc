// Inference in 8 bits beside float32: int8 NET BATCH THREADS CALLS [layers] (or cuda in place of THREADS) prints, for
// the program of graph::Program and the one of graph::quantize with every layer forced into 8 bits, the median and the
// least milliseconds of CALLS pairs timed in turn, and the processor time of each, and then the median of CALLS calls
// of the second one alone, as peers/int8.py measures; with `layers` the report of the layers too. Weights are random.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "networks.hpp"

using namespace tern;

namespace {

using Clock = std::chrono::steady_clock;

double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

struct Times {
  std::vector<double> wall, processor;
  template <class Call>
  void add(const Call& call) {
    const Clock::time_point start = Clock::now();
    const double before = processor_time();
    call();
    wall.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    processor.push_back(processor_time() - before);
  }
  static double median(std::vector<double> times) {
    std::ranges::sort(times);
    return times[times.size() / 2];
  }
};

int measure(nn::Module& net, const Shape& shape, const std::string& place, int calls, bool layers) {
  const Device device = place == "cuda" ? Device{"cuda"} : Device{"vectorized", {.threads = std::atoi(place.c_str())}};
  const NoGrad no_grad;
  net.eval();
  Generator generator{1};
  const Tensor x = randn(shape, generator);
  const graph::Graph graph = graph::trace(net, x.slice(0, 0, 1));
  graph::QuantizeReport report;
  const graph::Program real(graph),
      stored(graph::quantize(graph, {{x}}, {.bound = 10, .force = true, .repeats = layers ? 5 : 0}, &report));
  if (layers) std::printf("%s", report.text().c_str());
  for (int i = 0; i < 3; ++i) real(x).values(), stored(x).values();
  Times of_real, of_stored;
  for (int i = 0; i < calls; ++i) {
    of_real.add([&] { real(x).values(); });
    of_stored.add([&] { stored(x).values(); });
  }
  const double a = Times::median(of_real.wall), b = Times::median(of_stored.wall);
  const double c = Times::median(of_real.processor), d = Times::median(of_stored.processor);
  Times alone;
  for (int i = 0; i < calls; ++i) alone.add([&] { stored(x).values(); });
  std::printf(
      "float32 %.3f ms (least %.3f, processor %.3f); int8 %.3f ms (least %.3f, processor %.3f); speed %.2f, of "
      "processor time %.2f; int8 alone %.3f ms (least %.3f); error %.3f\n",
      a, std::ranges::min(of_real.wall), c, b, std::ranges::min(of_stored.wall), d, a / b, c / d,
      Times::median(alone.wall), std::ranges::min(alone.wall), report.error);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: int8 NET BATCH THREADS CALLS [layers]\n");
    return 2;
  }
  const benchmarks::Network network = benchmarks::net_of(argv[1]);
  return measure(*network.module, network.input(std::atoi(argv[2])), argv[3], std::atoi(argv[4]), argc > 5);
}

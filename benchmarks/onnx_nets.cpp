// An ONNX model beside what another program says of it (peers/onnx_nets.py): onnx_nets MODEL DATA.npz THREADS prints
// "error", the largest difference from the outputs in DATA ("output.0", ...) for its inputs ("input.0", ...), relative
// to the largest of them, how many nodes the program has, and why it is not recorded. It then reads seconds from
// standard input, a line for each measurement, and prints the least and the median milliseconds and the least of the
// processor time. MODE names another mode than vectorized, PRECISION=tf32 another precision than strict; FASTEST lets
// algorithms not repeat their bits; PHASE=profile prints a profile of the program's graph, PHASE=graph its text.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "tern/graph/passes.hpp"
#include "tern/io/npy.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

std::string setting(const char* name, const char* usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : value;
}

std::vector<Tensor> listed(const std::map<std::string, Tensor>& all, const std::string& kind) {
  std::vector<Tensor> list;
  for (int i = 0; all.contains(message(kind, '.', i)); ++i) list.push_back(all.at(message(kind, '.', i)));
  return list;
}

double difference(const Tensor& found, const Tensor& expected) {
  expects(found.shape() == expected.shape(), "a result of shape ", found.shape(), ", expected ", expected.shape());
  const std::vector<double> a = found.detach().values(), b = expected.values();
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    apart = std::isfinite(a[i] - b[i]) ? std::max(apart, std::abs(a[i] - b[i])) : HUGE_VAL;
  }
  return largest == 0 ? apart : apart / largest;
}

void measure(Device& device, const graph::Program& program, const std::vector<Tensor>& inputs, double seconds) {
  std::vector<double> times, processor;
  for (double total = 0; total < seconds || times.size() < 3; total += times.back()) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t clock = std::clock();
    program(inputs);
    device.synchronize();
    processor.push_back(static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  std::printf("%.4f %.4f %.4f\n", 1e3 * times[0], 1e3 * times[times.size() / 2],
              1e3 * *std::ranges::min_element(processor));
  std::fflush(stdout);
}

int run(const std::string& model, const std::string& data, int threads) {
  Device device{setting("MODE", "vectorized"),
                {.threads = threads,
                 .precision = precision_of(setting("PRECISION", "strict")),
                 .deterministic = std::getenv("FASTEST") == nullptr}};
  const std::map<std::string, Tensor> arrays = io::load_npz(data);
  const std::vector<Tensor> inputs = listed(arrays, "input"), expected = listed(arrays, "output");
  const graph::Graph net = onnx::load(model);
  const std::string phase = setting("PHASE", "");
  if (phase == "profile" || phase == "graph") {
    const graph::Graph folded = graph::for_inference(net);
    if (phase == "graph") return std::printf("%s", folded.text().c_str()) < 0;
    const NoGrad none;
    for (int i = 0; i < 3; ++i) folded.run(inputs);
    const Profile profile;
    for (int i = 0; i < 5; ++i) folded.run(inputs);
    return std::printf("five inferences\n%s\n", profile.text().c_str()) < 0;
  }
  const graph::Program program(net);
  double error = 0;
  for (int call = 0; call < 3; ++call) {
    const std::vector<Tensor> results = program(inputs);
    expects(results.size() == expected.size(), results.size(), " results, expected ", expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) error = std::max(error, difference(results[i], expected[i]));
  }
  std::printf("error %.3g nodes %zu %s\n", error, program.graph().structure().nodes.size(),
              program.unrecorded().c_str());
  std::fflush(stdout);
  for (double seconds = 0; std::cin >> seconds;) measure(device, program, inputs, seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: onnx_nets MODEL DATA.npz THREADS\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::printf("failed %s\n", error.what());
    return 1;
  }
}

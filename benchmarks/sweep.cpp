// Times the parts of networks, and whole networks. Reads requests from standard input, one per line, so that a peer's
// measurements can be interleaved (peers/sweep.py). A request is
//   MODE PRECISION SECONDS conv PHASE LAYOUT N C H O K stride padding dilation groups    with square images
//   MODE PRECISION SECONDS LAYER PHASE SIZES              any other layer of sweep_layers.hpp, with what it reads
//   MODE PRECISION SECONDS net PHASE NAME N                                              images of the net's size
// PRECISION is strict, tf32 or bf16, or the dtype of everything: bfloat16 or float16; bfloat16_masters updates float32
// masters.
// PHASE is infer, train (forward, all gradients and, of a net, the update), program (inference by graph::Program) or
// profile (a net's eager training, to standard error); LAYOUT is that of x: first or last. Everything is recorded by
// Step. The answer is a JSON object with the median, the 10th and the 90th percentile of the microseconds, the least,
// the least of the process's processor time, which other programs on the machine disturb less, and the peak of the
// device's memory in bytes. THREADS in the environment limits the threads of the host; FASTEST allows algorithms that
// need not repeat; with DECISIONS the answer for a layer names the algorithms that it took.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "networks.hpp"
#include "sweep_layers.hpp"

namespace {

using namespace tern;
using namespace tern::benchmarks;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Run net(std::istream& words, const std::string& phase, DType dtype, bool keeps_masters) {
  std::string name;
  std::int64_t N = 0;
  words >> name >> N;
  const Network network = net_of(name);
  const std::shared_ptr<nn::Module>& net = network.module;
  const bool trains = phase == "train" || phase == "profile";
  net->train(trains);
  if (dtype != DType::float32) net->to(dtype);
  Generator generator(3);
  const Shape shape = network.input(N);
  const Tensor x = randn(shape, generator).to(dtype);
  if (phase == "program") {
    const auto program = std::make_shared<graph::Program>(*net, std::vector{x});
    return [program, x] { return (*program)(x); };
  }
  if (!trains) {
    auto step = std::make_shared<Step>([net](const Tensor& in) {
      const NoGrad none;
      return (*net)(in);
    });
    return [step, x] { return (*step)(x); };
  }
  const Shape labels = name == "unet" ? Shape{N, shape[2], shape[3]} : Shape{N};
  const Tensor y = randint(0, network.classes, labels, generator);
  const auto masters =
      std::make_shared<optim::MasterWeights>(keeps_masters ? net->parameters() : std::vector<Tensor>{});
  const auto sgd = std::make_shared<optim::SGD>(keeps_masters ? masters->parameters() : net->parameters(),
                                                optim::SgdOptions{.learning_rate = 1e-4, .momentum = 0.9});
  const auto train = [net, sgd, masters](const Tensor& in, const Tensor& wanted) {
    const Tensor loss = loss_of(*net, in, wanted);
    net->zero_grad();
    loss.backward();
    masters->load_gradients();
    sgd->step();
    masters->store();
    return loss;
  };
  if (phase == "profile") return [train, x, y] { return train(x, y); };
  auto step = std::make_shared<Step>(train);
  return [step, x, y] { return (*step)(x, y); };
}

nlohmann::json measure(Device& device, const Run& run, double seconds) {
  Memory& memory = *device.mode().memory;
  memory.reset_peak();
  for (int i = 0; i < 4; ++i) (void)run();
  device.synchronize();
  const auto peak = memory.statistics().peak;
  auto start = Clock::now();
  (void)run();
  device.synchronize();
  const double once = std::max(seconds_since(start), 1e-7);
  const int inner = static_cast<int>(std::clamp(std::min(0.01, seconds) / once, 1.0, 1000.0));
  std::vector<double> samples;
  double processor = 1e12;
  const auto begin = Clock::now();
  while (samples.size() < 3 || seconds_since(begin) < seconds) {
    start = Clock::now();
    const std::clock_t clock = std::clock();
    for (int i = 0; i < inner; ++i) (void)run();
    device.synchronize();
    processor = std::min(processor, static_cast<double>(std::clock() - clock) * 1e6 / CLOCKS_PER_SEC / inner);
    samples.push_back(seconds_since(start) * 1e6 / inner);
  }
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double quantile) {
    return samples[static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1))];
  };
  return {{"us", at(0.5)},       {"p10", at(0.1)},         {"p90", at(0.9)},
          {"least", samples[0]}, {"processor", processor}, {"peak", peak}};
}

nlohmann::json profile(const Run& run, const std::string& line) {
  for (int i = 0; i < 3; ++i) (void)run();
  const Profile profile;
  for (int i = 0; i < 3; ++i) (void)run();
  const ProfileTable table = profile.table({.flops_per_second = 5e13, .bytes_per_second = 3e12});
  std::cerr << "== " << line << ", three steps\n" << table.text() << std::endl;
  return {{"us", table.seconds * 1e6 / 3}};
}

/// Which algorithms the kernels of a call take, as TERN_ALGORITHM names them without the mode.
class Decisions : public Observer {
 public:
  Decisions() { begin(); }
  ~Decisions() override { end(); }
  void after(const OperatorCall& call) override {
    for (const auto& [decision, algorithm] : call.algorithms()) taken[decision] = algorithm;
  }
  nlohmann::json taken = nlohmann::json::object();
};

nlohmann::json decisions_of(const std::function<void()>& call) {
  Decisions decisions;
  call();
  return decisions.taken;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    try {
      std::istringstream words(line);
      std::string mode, precision, kind, phase;
      double seconds = 0;
      words >> mode >> precision >> seconds >> kind >> phase;
      const DType dtype = precision.starts_with("bfloat16") ? DType::bfloat16
                          : precision == "float16"          ? DType::float16
                                                            : DType::float32;
      const char* const threads = std::getenv("THREADS");
      Device device(mode, {.threads = threads == nullptr ? 0 : std::atoi(threads),
                           .precision = dtype == DType::float32 ? precision_of(precision) : Precision::strict,
                           .deterministic = std::getenv("FASTEST") == nullptr});
      if (kind == "net") {
        const Run run = net(words, phase, dtype, precision.ends_with("_masters"));
        answer = phase == "profile" ? profile(run, line) : measure(device, run, seconds);
      } else {
        const Timed layer = timed(kind, words, dtype, phase == "train");
        answer = measure(device, layer.run, seconds);
        if (std::getenv("DECISIONS") != nullptr) answer["decisions"] = decisions_of(layer.once);
      }
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

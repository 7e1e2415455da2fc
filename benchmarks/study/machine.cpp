#include "machine.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

namespace tern::study {

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(':') != std::string::npos) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

// "NVIDIA H200, 132 multiprocessors" -> "nvidia-h200"
std::string slug(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find(','))) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result;
}

// The fastest of several runs: a ceiling is what was reached undisturbed.
template <class Work>
double best_seconds(Device& device, const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();
  device.synchronize();
  double best = 0, spent = 0;
  for (int turn = 0; turn < 20 && (turn < 3 || spent < 0.5); ++turn) {
    const auto start = Clock::now();
    work();
    device.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = turn == 0 ? seconds : std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace

Machine describe_machine(const std::string& name, int threads) {
  Machine machine;
  const Device host("vectorized", {.threads = threads});
  machine.processor = message(processor_name(), ", ", current_scope().context.threads,
                              current_scope().context.threads == 1 ? " thread" : " threads");
  std::string fastest = machine.processor;
  for (const ModeStatus& status : modes()) {
    if (!status.available) continue;
    machine.modes[status.name] = status.reason;
    if (status.name == "cuda") fastest = status.reason;
  }
  machine.name = name.empty() ? slug(fastest) : slug(name);
  expects(!machine.name.empty(), "the machine's name needs letters or digits");
  return machine;
}

Roofline measure_roofline(const std::string& mode_name, const std::string& precision, int threads) {
  const bool on_host = mode(mode_name).memory->host_accessible();
  Device device(on_host ? "vectorized" : mode_name, {.threads = threads, .precision = precision_of(precision)});
  const std::int64_t n = on_host ? 2048 : 8192, elements = on_host ? std::int64_t{1} << 25 : std::int64_t{1} << 28;
  Generator generator(3);
  Roofline roofline;
  {
    const Tensor a = rand({n, n}, generator), b = rand({n, n}, generator);
    const double count = 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    roofline.flops_per_second = count / best_seconds(device, [&] { operators::matmul(a, b); });
  }
  Tensor from(Shape{elements}, DType::float32), to(Shape{elements}, DType::float32);
  from.fill_(1);
  roofline.bytes_per_second = 8 * static_cast<double>(elements) / best_seconds(device, [&] { to.copy_(from); });
  return roofline;
}

std::string present_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

}  // namespace tern::study

#include "machine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
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

// "NVIDIA H200, 132 multiprocessors" -> "nvidia-h200", "Intel(R) Xeon(R) Processor" -> "intel-xeon-processor"
std::string slug(std::string text) {
  text = text.substr(0, text.find(','));
  for (const char* mark : {"(R)", "(TM)", "(r)", "(tm)"})
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.erase(at, std::strlen(mark));
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result;
}

// The fastest of several runs: a ceiling is what an undisturbed run reached.
template <class Work>
double best_seconds(Device& device, const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();
  device.synchronize();
  double best = 0, spent = 0;
  for (int turn = 0; turn < 3 || (turn < 20 && spent < 0.2); ++turn) {
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

void add_roofline(Machine& machine, const CellKey& key, int threads) {
  if (machine.roofline.contains(roofline_key(key))) return;
  const bool on_host = mode(key.mode).on_host();
  const CellKey measured{"", on_host ? "vectorized" : key.mode, on_host ? "strict" : key.precision, 0};
  const std::string known = roofline_key(measured);
  if (!machine.roofline.contains(known)) {
    Device device(measured.mode, {.threads = threads, .precision = precision_of(measured.precision)});
    Roofline roofline;
    Generator generator(3);
    // The larger the better, until a product takes long.
    for (const std::int64_t n :
         on_host ? std::vector<std::int64_t>{512, 1024, 2048} : std::vector<std::int64_t>{8192}) {
      const Tensor a = rand({n, n}, generator), b = rand({n, n}, generator);
      const double seconds = best_seconds(device, [&] { operators::matmul(a, b); });
      const double flops = 2 * std::pow(static_cast<double>(n), 3);
      roofline.flops_per_second = std::max(roofline.flops_per_second, flops / seconds);
      if (seconds > 0.06) break;
    }
    const std::int64_t elements = on_host ? std::int64_t{1} << 25 : std::int64_t{1} << 28;
    Tensor from(Shape{elements}, DType::float32), to(Shape{elements}, DType::float32);
    from.fill_(1);
    roofline.bytes_per_second = 8 * static_cast<double>(elements) / best_seconds(device, [&] { to.copy_(from); });
    machine.roofline[known] = roofline;
  }
  machine.roofline[roofline_key(key)] = machine.roofline.at(known);
  mode(key.mode).memory->trim();
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

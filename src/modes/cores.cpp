#include "modes/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/control_groups.hpp"
#include "core/small_file.hpp"

namespace tern {

namespace {

/// The quota of one group in cores, or infinity.
double quota_of(const std::filesystem::path& group) {
  const auto two = [](const std::string& text) {
    std::string_view left = text;
    const auto quota = number_of(next_word(left)), period = number_of(next_word(left));
    return quota && period && *period > 0 ? static_cast<double>(*quota) / static_cast<double>(*period) : 0;
  };
  double cores = two(content_of(group / "cpu.max"));  // version 2: "max 100000" or "50000 100000"
  if (cores == 0)                                     // version 1: -1 or 50000
    cores = two(content_of(group / "cpu.cfs_quota_us") + ' ' + content_of(group / "cpu.cfs_period_us"));
  return cores > 0 ? cores : INFINITY;
}

int allowed_cores() {
  cpu_set_t set;  // 1,024 cores; with more, the call fails
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

int granted_cores(const std::filesystem::path& process, const std::filesystem::path& groups) {
  double cores = INFINITY;
  for_each_control_group(process, groups, "cpu",
                         [&](const std::filesystem::path& group) { cores = std::min(cores, quota_of(group)); });
  return std::isfinite(cores) ? static_cast<int>(std::ceil(cores)) : 0;
}

int default_threads() {
  static const int threads = [] {
    if (const char* wanted = std::getenv("OMP_NUM_THREADS"))
      if (const long number = std::strtol(wanted, nullptr, 10); number > 0 && number <= 4096)
        return static_cast<int>(number);
    const int allowed = allowed_cores(), granted = granted_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    return granted == 0 ? allowed : std::min(allowed, granted);
  }();
  return threads;
}

}  // namespace tern

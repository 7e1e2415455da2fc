// Highway's library answers which instruction sets a processor has, and Debian 12 has it as a shared library alone. For
// programs that are linked statically, TERN_HIGHWAY_LIBRARY=OFF answers here, for the sets of targets.hpp on x86.

#if TERN_OWN_DETECTION
// clang-format off
#include "vectorized/targets.hpp"
#include <hwy/targets.h>
// clang-format on

#include <atomic>

namespace hwy {

namespace {

std::atomic<int64_t> limit{0};  // 0: none

int64_t detected() {
  __builtin_cpu_init();
  int64_t found = HWY_ENABLED_BASELINE;
  const auto all = [](auto... present) { return (... && (present != 0)); };
  if (all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi"),
          __builtin_cpu_supports("bmi2")))
    found |= HWY_AVX2;
  if (all(found & HWY_AVX2, __builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
          __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"), __builtin_cpu_supports("avx512cd")))
    found |= HWY_AVX3;
  return found;
}

}  // namespace

int64_t SupportedTargets() {
  static const int64_t all = detected();
  const int64_t allowed = limit.load();
  return allowed == 0 ? all : allowed;
}

void SetSupportedTargetsForTest(int64_t targets) {
  limit.store(targets);
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
#endif

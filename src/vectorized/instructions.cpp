// The instruction sets that TERN_SIMD leaves.

// clang-format off
#include "vectorized/targets.hpp"  // before anything of Highway
#include <hwy/highway.h>
// clang-format on

#include "vectorized/instructions.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "tern/core/error.hpp"
#include "vectorized/bfloat16/kernels.hpp"

#if defined(HWY_COMPILE_ONLY_STATIC) && defined(__AVX2__) && HWY_STATIC_TARGET == HWY_SCALAR
#error "Highway finds no vectors for what -march names"
#endif

namespace tern::vectorized {

void limit_instructions() {
  const char* const name = std::getenv("TERN_SIMD");
  if (name == nullptr || *name == 0) return;
  std::string known;
  for (const char* const better : bfloat16::instruction_sets()) {
    if (std::string_view(name) == better) return;
    known += std::string(better) + ", ";
  }
  std::int64_t allowed = 0;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;  // best first
    const bool least = left == target;
    known += std::string(hwy::TargetName(target)) + (least ? "" : ", ");
    if (std::string(name) == (least && name[0] == 'b' ? "baseline" : hwy::TargetName(target))) allowed = left;
  }
  expects<DeviceUnavailable>(allowed != 0, "TERN_SIMD: this processor has no \"", name, "\", it has ", known,
                             " (baseline)");
  hwy::SetSupportedTargetsForTest(allowed);
}

}  // namespace tern::vectorized

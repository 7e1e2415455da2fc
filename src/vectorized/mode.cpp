// The vectorized mode: threads over the cores, SIMD within them. The instruction set is chosen when the program starts.

// clang-format off
#include "vectorized/targets.hpp"  // before anything of Highway
#include <hwy/highway.h>
// clang-format on

#include <cstdlib>
#include <span>

#include "modes/cores.hpp"
#include "tern/core/error.hpp"
#include "vectorized/amx.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

std::string description() {
  const int threads = default_threads();
  return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + gemm_target() +
         (amx_kernels() != nullptr ? ", AMX for bf16" : "");
}

constexpr Decision decisions[]{
    {"conv2d", {"patches", "rows", "tiles"}},
    {"conv2d_grad_x", {"patches", "rows", "tiles"}},
    {"conv2d_grad_weight", {"patches", "rows", "tiles"}},
    {"attention", {"fused", "composed"}},
    {"matmul", {"panels", "turned", "dots"}},
    {"linear", {"panels", "turned", "dots"}},
    {"linear_grad_x", {"panels", "turned"}},
    {"linear_grad_weight", {"panels", "turned"}},
};
/// The same where there is AMX.
constexpr Decision decisions_with_amx[]{
    decisions[0],
    decisions[1],
    decisions[2],
    decisions[3],
    {"matmul", {"panels", "turned", "dots", "amx"}},
    {"linear", {"panels", "turned", "dots", "amx"}},
    {"linear_grad_x", {"panels", "turned", "amx"}},
    {"linear_grad_weight", {"panels", "turned", "amx"}},
};

std::span<const Decision> known_decisions() {
  return amx_kernels() != nullptr ? std::span<const Decision>(decisions_with_amx) : decisions;
}

/// TERN_SIMD=AVX2 leaves out better instruction sets, TERN_SIMD=baseline all but the least; AMX is the best. Before any
/// kernel runs.
/// Throws DeviceUnavailable with the names of those that this library and this processor have.
void limit_instructions() {
  const char* const name = std::getenv("TERN_SIMD");
  if (name == nullptr || *name == 0 || amx_kernels() != nullptr) return;
  std::string known = amx_present() ? "AMX, " : "";
  std::int64_t allowed = 0;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;  // the best first
    const bool least = left == target;
    known += std::string(hwy::TargetName(target)) + (least ? "" : ", ");
    if (std::string(name) == (least && name[0] == 'b' ? "baseline" : hwy::TargetName(target))) allowed = left;
  }
  expects<DeviceUnavailable>(allowed != 0, "TERN_SIMD: this processor has no \"", name, "\", it has ", known,
                             " (baseline)");
  hwy::SetSupportedTargetsForTest(allowed);
}

}  // namespace

const Mode& mode() {
  static const bool limited = (limit_instructions(), true);
  static_cast<void>(limited);
  static const Mode mode{.name = "vectorized",
                         .description = description(),
                         .memory = &host_memory(),
                         .operators = operators<float>(),
                         .float64 = operators<double>(),
                         .int32 = integer_operators<std::int32_t>(),
                         .int64 = integer_operators<std::int64_t>(),
                         .uint8 = integer_operators<std::uint8_t>(),
                         .boolean = integer_operators<bool>(),
                         .movement = movement(),
                         .decisions = known_decisions()};
  return mode;
}

}  // namespace tern::vectorized

// The vectorized mode: threads over the cores, SIMD within them. The instruction set is chosen when the program starts.

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "modes/cores.hpp"
#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/instructions.hpp"
#include "vectorized/team.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

std::string description() {
  const int threads = default_threads();
  const char* const engine = team_engine() == TeamEngine::openmp ? " of OpenMP, " : ", ";
  const char* const for_bf16 = bfloat16::amx_kernels() != nullptr      ? ", AMX for bf16"
                               : bfloat16::avx512_kernels() != nullptr ? ", AVX512_BF16 for bf16"
                                                                       : "";
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads") + engine + gemm_target() + for_bf16;
}

constexpr Decision decisions[]{
    {"conv2d", {"im2col", "rows", "winograd", "depthwise", "taps", "dots"}},
    {"conv2d_grad_x", {"im2col", "rows", "winograd", "depthwise"}},
    {"conv2d_grad_weight", {"im2col", "rows", "winograd", "depthwise"}},
    {"attention", {"fused", "composed"}},
    {"inverted_residual", {"fused", "composed"}},
    {"matmul", {"panels", "transposed", "dots"}},
    {"linear", {"panels", "transposed", "dots"}},
    {"linear_grad_x", {"panels", "transposed"}},
    {"linear_grad_weight", {"panels", "transposed"}},
};

/// The same, with the bfloat16 algorithms of this processor.
std::span<const Decision> known_decisions() {
  static const auto known = [] {
    auto all = std::to_array(decisions);
    for (const bfloat16::Kernels* const kernels : {bfloat16::avx512_kernels(), bfloat16::amx_kernels()}) {
      if (kernels == nullptr) continue;
      for (Decision& decision : all) {
        const bool has = decision.algorithms[0] != std::string_view("fused");
        if (has) *std::ranges::find(decision.algorithms, nullptr) = kernels->algorithm;
      }
    }
    return all;
  }();
  return known;
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
                         .decisions = known_decisions(),
                         .quantized = quantized(),
                         .recurrent = recurrent(),
                         .resampling = resampling()};
  return mode;
}

}  // namespace tern::vectorized

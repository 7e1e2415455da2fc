// The vectorized mode: threads over the cores, SIMD within them. The instruction set is chosen when the program starts.

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>

#include "kernels/families.hpp"
#include "modes/cores.hpp"
#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/instructions.hpp"
#include "vectorized/quantized/kernels.hpp"
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

namespace family = kernels::family;

constexpr Decision decisions[]{
    {"conv2d", {"im2col", "rows", "winograd", "depthwise", "lines", "taps", "dots"}},
    {"conv2d_grad_x", {"im2col", "rows", "winograd", "depthwise"}},
    {"conv2d_grad_weight", {"im2col", "rows", "winograd", "depthwise"}},
    {"attention", {"fused", "streamed", "composed"}},
    {"inverted_residual", {"fused", "composed"}},
    {"matmul", {"panels", "transposed", "dots"}},
    {"linear", {"panels", "transposed", "dots"}},
    {"linear_grad_x", {"panels", "transposed"}},
    {"linear_grad_weight", {"panels", "transposed"}},
    {"quantized_conv2d", {"general", "depthwise", "winograd"}},
};

/// Those of this processor: with its bfloat16 algorithms, and in 8 bits without what it lacks.
std::span<const Decision> known_decisions() {
  static const auto known = [] {
    auto all = std::to_array(decisions);
    for (const bfloat16::Kernels* const kernels : {bfloat16::avx512_kernels(), bfloat16::amx_kernels()}) {
      if (kernels == nullptr) continue;
      for (Decision& decision : all) {
        const std::string_view first = decision.algorithms[0];  // of products, of convolutions
        if (first == "panels" || first == "im2col")
          *std::ranges::find(decision.algorithms, nullptr) = kernels->algorithm;
      }
    }
    bool has_winograd = false;
    if constexpr (kernels::wanted(family::quantized)) has_winograd = int8::winograd_kernels() != nullptr;
    Decision& quantized = *std::ranges::find(all, std::string_view("quantized_conv2d"), &Decision::name);
    if (!has_winograd) *std::ranges::find(quantized.algorithms, std::string_view("winograd")) = nullptr;
    return all;
  }();
  return known;
}

/// The kernels of a family, if the library has it.
template <auto kernels_of, std::uint32_t needed>
auto have() {
  if constexpr (kernels::wanted(needed)) {
    return kernels_of();
  } else {
    auto table = std::bit_cast<decltype(kernels_of())>(std::array<std::byte, sizeof(kernels_of())>{});
    kernels::leave_out(table);
    return table;
  }
}

/// The table of a compute dtype. float64 is for what indices and sums are composed of, where float32 is all that saved
/// programs have.
template <class T>
kernels::Operators<T> table() {
  constexpr auto needed = [](std::uint32_t families) {
    return built::whole || std::is_same_v<T, float> ? families : std::uint32_t{family::all};
  };
  return {.arithmetic = have<arithmetic<T>, needed(family::arithmetic)>(),
          .dot = have<dot<T>, needed(family::dot)>(),
          .conv = have<conv<T>, needed(family::conv)>(),
          .activation = have<activation<T>, needed(family::activations)>(),
          .pooling = have<pooling<T>, needed(family::pooling)>(),
          .reduction = have<reduction<T>, family::all>(),
          .loss = have<loss<T>, family::all>(),
          .normalization = have<normalization<T>, needed(family::normalization)>(),
          .attention = have<vectorized::attention<T>, needed(family::attention)>(),
          .shape = have<shape<T>, family::all>(),
          .update = have<update<T>, family::all>(),
          .channels_last = true};
}

}  // namespace

const Mode& mode() {
  static const bool limited = (limit_instructions(), true);
  static_cast<void>(limited);
  static const Mode mode{.name = "vectorized",
                         .description = description(),
                         .memory = &host_memory(),
                         .operators = table<float>(),
                         .float64 = table<double>(),
                         .int32 = have<integer_operators<std::int32_t>, family::all>(),
                         .int64 = have<integer_operators<std::int64_t>, family::all>(),
                         .uint8 = have<integer_operators<std::uint8_t>, family::all>(),
                         .boolean = have<integer_operators<bool>, family::all>(),
                         .movement = movement(),
                         .decisions = known_decisions(),
                         .quantized = have<quantized, family::quantized>(),
                         .recurrent = have<recurrent, family::all>(),
                         .resampling = have<resampling, family::all>()};
  return mode;
}

}  // namespace tern::vectorized

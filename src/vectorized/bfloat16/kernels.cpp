#include "vectorized/bfloat16/kernels.hpp"

#include <cstdlib>
#include <string_view>

#if TERN_AMX_BUILT
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tern::vectorized::bfloat16 {

#if TERN_AVX512_BF16_BUILT
extern const Kernels built_avx512_kernels;  // in avx512.cpp
#endif
#if TERN_AMX_BUILT
extern const Kernels built_amx_kernels;  // in amx.cpp
#endif

namespace {

constexpr const char* amx_name = "AMX";
constexpr const char* avx512_name = "AVX512_BF16";

bool avx512_present() {
#if TERN_AVX512_BF16_BUILT
  static const bool present = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bf16");
  return present;
#else
  return false;
#endif
}

#if TERN_AMX_BUILT
/// Linux lets a process use the tile registers on request: they add 8 KB to the state of every interrupted thread.
bool permitted() {
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, the state's number
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

bool processor_has_tiles() {
  constexpr unsigned bfloat16 = 1U << 22U, tiles = 1U << 24U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & bfloat16) != 0 && (edx & tiles) != 0;
}
#endif

bool amx_present() {
#if TERN_AMX_BUILT
  static const bool present = avx512_present() && processor_has_tiles() && permitted();
  return present;
#else
  return false;
#endif
}

/// Whether TERN_SIMD permits that instruction set, or a better one.
[[maybe_unused]] bool allowed(std::string_view instruction_set) {
  const char* const name = std::getenv("TERN_SIMD");
  if (name == nullptr || *name == 0) return true;
  return name == instruction_set || name == std::string_view(amx_name);
}

}  // namespace

const Kernels* avx512_kernels() {
#if TERN_AVX512_BF16_BUILT
  static const Kernels kernels = [] {
    Kernels all = built_avx512_kernels;
    // AMD's processors start as many of these instructions per cycle as fused multiply-adds, Intel's half as many.
    if (!__builtin_cpu_is("amd")) all.tile_cycles *= 2;
    return all;
  }();
  static const bool here = avx512_present() && allowed(avx512_name);
  return here ? &kernels : nullptr;
#else
  return nullptr;
#endif
}

const Kernels* amx_kernels() {
#if TERN_AMX_BUILT
  static const Kernels* const kernels = amx_present() && allowed(amx_name) ? &built_amx_kernels : nullptr;
  return kernels;
#else
  return nullptr;
#endif
}

std::span<const char* const> instruction_sets() {
  static constexpr const char* names[]{amx_name, avx512_name};
  if (amx_present()) return names;
  return std::span(names).subspan(avx512_present() ? 1 : 2);
}

}  // namespace tern::vectorized::bfloat16

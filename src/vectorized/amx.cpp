#include "vectorized/amx.hpp"

#include <cstdlib>
#include <string_view>

#if TERN_AMX_BUILT
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tern::vectorized {

#if TERN_AMX_BUILT
extern const AmxKernels built_amx_kernels;  // in amx_kernels.cpp

namespace {

/// Linux lets a process use the tile registers when it asks: they are 8 KB more for every thread that is interrupted.
bool permitted() {
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, the state's number
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

bool processor_has_it() {
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512bf16")) return false;
  constexpr unsigned bfloat16 = 1U << 22U, tiles = 1U << 24U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & bfloat16) != 0 && (edx & tiles) != 0;
}

}  // namespace

bool amx_present() {
  static const bool present = processor_has_it() && permitted();
  return present;
}

const AmxKernels* amx_kernels() {
  static const AmxKernels* const kernels = [] {
    const char* const name = std::getenv("TERN_SIMD");
    const bool allowed = name == nullptr || *name == 0 || std::string_view(name) == "AMX";
    return allowed && amx_present() ? &built_amx_kernels : nullptr;
  }();
  return kernels;
}
#else
bool amx_present() { return false; }
const AmxKernels* amx_kernels() { return nullptr; }
#endif

}  // namespace tern::vectorized

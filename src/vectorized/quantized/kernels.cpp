#include "vectorized/quantized/kernels.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "vectorized/bfloat16/kernels.hpp"

#if TERN_AMX_INT8_BUILT || TERN_AVX_VNNI_BUILT
#include <cpuid.h>
#endif

namespace tern::vectorized::int8 {

extern const Kernels plain_kernels;  // in plain.cpp
#if TERN_AVX2_BUILT
extern const Kernels avx2_kernels;  // in avx2.cpp
#endif
#if TERN_AVX_VNNI_BUILT
extern const Kernels avxvnni_kernels;  // in avxvnni.cpp
#endif
#if TERN_AVX512_VNNI_BUILT
extern const Kernels avx512_kernels;  // in avx512.cpp
#endif
#if TERN_AMX_INT8_BUILT
extern const Kernels amx_kernels;  // in amx.cpp
#endif

namespace {

#if TERN_AVX512_VNNI_BUILT
bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif
#if TERN_AVX_VNNI_BUILT
bool has_avxvnni() {
  constexpr unsigned vnni = 1U << 4U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & vnni) != 0;
}
#endif
#if TERN_AMX_INT8_BUILT
bool has_amx() {
  constexpr unsigned int8 = 1U << 25U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool present = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & int8) != 0;
  return present && bfloat16::instruction_sets().front() == std::string_view("AMX");  // which asks the system for it
}
#endif

const std::vector<const Kernels*>& present() {
  static const std::vector<const Kernels*> all = [] {
    std::vector<const Kernels*> found;
#if TERN_AMX_INT8_BUILT
    if (has_avx512() && !bfloat16::instruction_sets().empty() && has_amx()) found.push_back(&amx_kernels);
#endif
#if TERN_AVX512_VNNI_BUILT
    if (has_avx512()) found.push_back(&avx512_kernels);
#endif
#if TERN_AVX_VNNI_BUILT
    if (has_avxvnni()) found.push_back(&avxvnni_kernels);
#endif
#if TERN_AVX2_BUILT
    if (__builtin_cpu_supports("avx2")) found.push_back(&avx2_kernels);
#endif
    found.push_back(&plain_kernels);
    found.push_back(nullptr);
    return found;
  }();
  return all;
}

/// Within TERN_SIMD, which names Highway's sets and those for bfloat16.
bool allowed(std::string_view own) {
  const char* const name = std::getenv("TERN_SIMD");
  const std::string_view limit = name == nullptr ? "" : name;
  if (limit.empty() || limit == "AMX" || own == "plain") return true;
  if (own == "AVX2") return limit != "baseline";
  return own != "AMX" && (limit == "AVX512_BF16" || limit.starts_with("AVX3"));
}

const Kernels& chosen() {
  static const Kernels& best = []() -> const Kernels& {
    for (const Kernels* const* each = present().data();; ++each)
      if (allowed((*each)->name)) return **each;
  }();
  return best;
}

std::atomic<const Kernels*> forced = nullptr;

}  // namespace

const Kernels& kernels() {
  const Kernels* const own = forced.load(std::memory_order_relaxed);
  return own == nullptr ? chosen() : *own;
}
const WinogradKernels* winograd_kernels() {
  if (kernels().winograd != nullptr) return kernels().winograd;
  for (const Kernels* const each : present())
    if (each != nullptr && each->winograd != nullptr && allowed(each->name)) return each->winograd;
  return nullptr;
}
const Kernels* const* all_kernels() { return present().data(); }
void force_kernels(const Kernels* kernels) { forced = kernels; }

}  // namespace tern::vectorized::int8

#pragma once
// For the files that are compiled for more instructions than the others. No function here is one for the whole program,
// which a linker could take from such a file for all.

#include <immintrin.h>

#include "vectorized/bfloat16/kernels.hpp"

namespace tern::vectorized::bfloat16 {

/// See Kernels.
void pack_a(std::uint16_t* out, const Source& source);
void pack_b(std::uint16_t* out, const Source& source);
void pack_rounded_a(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers);
void pack_rounded_b(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers);
void round(std::uint16_t* out, const float* in, const float* mask, std::int64_t n);
void copy(std::uint16_t* out, const std::uint16_t* in, std::int64_t n);

static inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
static inline std::int64_t clamp(std::int64_t value, std::int64_t most) { return value < 0 ? 0 : least(value, most); }

static inline __mmask16 first(std::int64_t count) { return static_cast<__mmask16>((1U << clamp(count, 16)) - 1U); }

}  // namespace tern::vectorized::bfloat16

#pragma once
// For files that are compiled for more instructions than the others. No function here has external linkage: a linker
// could otherwise use such a file's version for the whole program.

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

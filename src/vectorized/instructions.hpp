#pragma once

namespace tern::vectorized {

/// TERN_SIMD=AVX2 excludes better instruction sets, TERN_SIMD=baseline all but the least; those for bfloat16 are the
/// best. Called before any kernel runs. Throws DeviceUnavailable with the names that this library and this processor
/// support.
void limit_instructions();

}  // namespace tern::vectorized

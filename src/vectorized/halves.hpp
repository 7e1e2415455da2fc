#pragma once

#include <cstdint>

#include "tern/core/dtype.hpp"

namespace tern::vectorized {

/// n elements, by the best instructions of this processor.
void convert_float16(Float16* out, const float* in, std::int64_t n);
void convert_float16(float* out, const Float16* in, std::int64_t n);

}  // namespace tern::vectorized

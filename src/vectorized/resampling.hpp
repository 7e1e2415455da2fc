#pragma once

#include "tern/kernels/resampling.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized {

/// Parts of kernels::Resampling for some rows: of neighbours, and of single elements.
struct ResampleKernels {
  void (*rows)(float* out, const float* in, const std::int64_t* index, const float* weight, const kernels::Resample&,
               Range some);
  void (*columns)(float* out, const float* in, const std::int32_t* index, const float* weight, const kernels::Resample&,
                  Range some);
};

}  // namespace tern::vectorized

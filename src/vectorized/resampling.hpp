#pragma once

#include "tern/kernels/resampling.hpp"

namespace tern::vectorized {

/// Parts of kernels::Resampling: for rows of neighbours, and for single elements.
struct ResampleKernels {
  void (*rows)(float* out, const float* in, const std::int64_t* index, const float* weight, const kernels::Resample&,
               std::int64_t begin, std::int64_t end);
  void (*columns)(float* out, const float* in, const std::int32_t* index, const float* weight, const kernels::Resample&,
                  std::int64_t begin, std::int64_t end);
};

}  // namespace tern::vectorized

#pragma once

#include "tern/kernels/quantized.hpp"

namespace tern::vectorized::int8 {

/// See kernels::Quantized.
void max_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const kernels::Pool2d& sizes);
void avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const kernels::Pool2d& sizes,
                const kernels::Rescale& rescale);
void adaptive_avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in,
                         const kernels::AdaptivePool2d& sizes, const kernels::Rescale& rescale);

}  // namespace tern::vectorized::int8

#pragma once

#include "tern/kernels/quantized.hpp"

namespace tern::vectorized::int8 {

struct WinogradKernels;

/// See kernels::Quantized.
void conv2d(Context& context, std::uint8_t* y, const std::uint8_t* x, const std::int8_t* weight,
            const std::int32_t* bias, const float* scale, const std::uint8_t* other, const kernels::Conv2d& sizes,
            const kernels::Rescale& rescale);
void conv2d_float(Context& context, float* y, const std::uint8_t* x, const std::int8_t* weight,
                  const std::int32_t* bias, const float* scale, const kernels::Conv2d& sizes,
                  const kernels::Rescale& rescale);

struct LayerArrays {
  std::uint8_t* y;
  float* real;
  const std::uint8_t* x;
  const std::int8_t* weight;
  const std::int32_t* bias;
  const float* scale;
  const std::uint8_t* other;
};
/// One kernel per channel.
void run_depthwise(Context& context, const LayerArrays& arrays, const kernels::Conv2d& sizes,
                   const kernels::Rescale& rescale);

/// Whether Winograd's convolution has these sizes, and roughly the time it takes.
bool takes_winograd(const kernels::Conv2d& sizes);
double winograd_nanoseconds(const kernels::Conv2d& sizes);
/// False: the weights are too large for it, and nothing was written.
bool run_winograd(Context& context, const LayerArrays& arrays, const kernels::Conv2d& sizes,
                  const kernels::Rescale& rescale, const WinogradKernels& kernels);

}  // namespace tern::vectorized::int8

#pragma once
// Space-to-depth for strided convolutions of few channels, such as the first one of a network: the pixels that a stride
// steps over become the channels of one position, each padded to four numbers. The result is a convolution with stride
// 1 and long runs, from one copy of the image.

#include "tern/kernels/conv.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::int8 {

/// Whether it applies, and the convolution that results: without padding, with channels [stride_h][stride_w][4].
bool takes_space_to_depth(const kernels::Conv2d& sizes);
kernels::Conv2d space_to_depth(const kernels::Conv2d& sizes);

/// Weights [O, KH, KW, C] in the order of the resulting convolution, zeros where it has more.
void weights_to_depth(std::int8_t* out, const std::int8_t* weight, const kernels::Conv2d& sizes);
/// Some rows of image n after space-to-depth; `zero` is the padding.
void rows_to_depth(std::uint8_t* out, const std::uint8_t* x, std::uint8_t zero, const kernels::Conv2d& sizes,
                   std::int64_t n, Range rows);

}  // namespace tern::vectorized::int8

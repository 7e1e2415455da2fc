#pragma once
// Strided convolutions of few channels, as the first one of a network. The pixels that one stride steps over lie side
// by side as the channels of one position, each filled up to four numbers. That makes a convolution with stride 1 whose
// runs are long, from one copy of the image.

#include "tern/kernels/conv.hpp"

namespace tern::vectorized::int8 {

/// Whether the convolution can be folded, into one without padding whose channels are [stride_h][stride_w][4].
bool folds(const kernels::Conv2d& sizes);
kernels::Conv2d folded(const kernels::Conv2d& sizes);

/// Weights [O, KH, KW, C] in the order of the folded convolution, zeros where it has more.
void fold_weights(std::int8_t* out, const std::int8_t* weight, const kernels::Conv2d& sizes);
/// Rows [first, first + rows) of the folded image n; `zero` is the padding.
void fold_rows(std::uint8_t* out, const std::uint8_t* x, std::uint8_t zero, const kernels::Conv2d& sizes,
               std::int64_t n, std::int64_t first, std::int64_t rows);

}  // namespace tern::vectorized::int8

#pragma once
// Groups of few channels, channels first. Their outputs read little, so tiles of a product would be mostly empty: a
// thread has a strip of rows of several outputs, and sums over the group's channels with multiply-adds.

#include "cuda/convolution/single.cuh"

namespace tern::cuda::convolution::narrow {

/// Square kernels of 3, 5 or 7, as single::walks says.
bool fits(const Problem& problem);
/// Whether it is faster than tiles of products.
bool is_preferred(const Problem& problem);

}  // namespace tern::cuda::convolution::narrow

#pragma once
// 1x1, depthwise and 1x1 convolutions, a few rows of an image at a time: what is between them stays in the cache.

#include "tern/kernels/context.hpp"
#include "tern/kernels/conv.hpp"

namespace tern::vectorized::convolution {

/// See kernels::Conv. True where each of the three takes the algorithm whose bits these are: rows, depthwise, rows.
template <class T>
bool fuses_inverted_residual(const Context& context, const kernels::InvertedResidual& shape);
template <class T>
void inverted_residual(Context& context, T* y, const T* x, const T* expand, const T* expand_bias, const T* depthwise,
                       const T* depthwise_bias, const T* project, const T* project_bias, const T* added,
                       const kernels::InvertedResidual& shape);

}  // namespace tern::vectorized::convolution

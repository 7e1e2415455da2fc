#pragma once
// Linear layers of inferences: a linear layer is a convolution of 1x1 over its rows, whose packed weights are kept.

#include "tern/kernels/context.hpp"
#include "tern/kernels/dot.hpp"

namespace tern::vectorized::convolution {

/// y = activation(x weight^T + bias). The bits are those of a product whose
/// elements are chains along k. kernels::weight_version is set; false where nothing is kept of these weights: their
/// first call.
template <class T>
bool kept_linear(Context& context, int threads, T* y, const T* x, const T* weight, const T* bias,
                 const kernels::Linear& shape);

}  // namespace tern::vectorized::convolution

#pragma once
// Linear layers of inferences: a linear layer is a convolution of 1x1 over its rows, whose packed weights are kept.

#include "tern/kernels/context.hpp"
#include "tern/kernels/dot.hpp"
#include "vectorized/product.hpp"

namespace tern::vectorized::convolution {

/// c = activation(a b^T + column_bias), b being the weight. The bits are those of a product whose elements are chains
/// along k. kernels::weight_version is set; false where nothing is kept of these weights: their first call.
template <class T>
bool kept_linear(Context& context, int threads, const product::Arrays<T>& arrays, const kernels::Linear& shape);

}  // namespace tern::vectorized::convolution

#pragma once

#include "tern/operators/shape.hpp"

namespace tern::operators {

/// x with `stride` - 1 zeros between its elements along `dim`, moved on by `before`, in a dimension of `total`.
inline Tensor spread_along(const Tensor& x, std::int64_t dim, std::int64_t stride, std::int64_t before,
                           std::int64_t total) {
  const std::int64_t size = x.size(dim), span = (size - 1) * stride + 1;
  Tensor spaced = x;
  if (stride > 1 && size > 1) {
    Shape shape = x.shape();
    shape[static_cast<int>(dim)] = size * stride;
    spaced = pad(x.unsqueeze(dim + 1), {{dim + 1, 0, stride - 1}}, 0).reshape(shape);
  }
  return pad(slice(spaced, dim, 0, span), {{dim, before, total - before - span}}, 0);
}

}  // namespace tern::operators

#include "tern/nn/sequential.hpp"

#include "nn/observer.hpp"

namespace tern::nn {

const Module& Sequential::operator[](std::size_t i) const {
  expects(i < size(), "Sequential: module ", i, " of ", size());
  return child(i);
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  const bool fuse = observer() == nullptr;
  for (std::size_t i = 0; i < size(); ++i) {
    const kernels::Activation next =
        fuse && i + 1 < size() ? child(i + 1).fusable_activation() : kernels::Activation::none;
    const std::size_t first = i;
    try {
      if (next == kernels::Activation::none) {
        y = child(i)(y);
      } else {
        y = child(i).forward_activated(y, next);
        ++i;
      }
    } catch (const ShapeError& error) {
      throw ShapeError(message("layer ", first, " (", child(first).describe(), "): ", error.what()));
    }
  }
  return y;
}

}  // namespace tern::nn

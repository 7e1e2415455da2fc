#include "tern/nn/sequential.hpp"

#include "nn/call_log.hpp"

namespace tern::nn {

const Module& Sequential::operator[](std::size_t i) const {
  expects(i < size(), "Sequential: module ", i, " of ", size());
  return child(i);
}

Sequential Sequential::part(std::size_t begin, std::size_t end) const {
  expects<ShapeError>(begin <= end && end <= size(), "Sequential: modules [", begin, ", ", end, ") of ", size());
  Sequential some;
  some.add_children(*this, begin, end);
  some.train(training());
  return some;
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  const bool fuse = call_log() == nullptr;
  for (std::size_t i = 0; i < size(); ++i) {
    const kernels::Activation next =
        fuse && i + 1 < size() ? child(i + 1).fusable_activation() : kernels::Activation::none;
    if (next == kernels::Activation::none) {
      y = child(i)(y);
    } else {
      y = child(i).call_activated(y, next);
      ++i;
    }
  }
  return y;
}

}  // namespace tern::nn

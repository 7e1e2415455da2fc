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
  const bool fuse = !one_by_one();
  const auto fusable = [&](std::size_t i) { return fuse && i < size(); };
  for (std::size_t i = 0; i < size();) {
    const Module& module = child(i++);
    const kernels::Activation activation = fusable(i) ? child(i).fusable_activation() : kernels::Activation::none;
    const bool activates = activation != kernels::Activation::none;
    i += activates;
    const bool pools = fusable(i) && child(i).fusable_max_pool2d();
    i += pools;
    y = pools ? module.call_pooled(y, activation) : activates ? module.call_activated(y, activation) : module(y);
  }
  return y;
}

}  // namespace tern::nn

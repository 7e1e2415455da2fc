#include "tern/nn/linear.hpp"

#include <typeinfo>

#include "nn/layer.hpp"

namespace tern::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options, Generator& generator)
    : activation_(options.activation),
      weight_(parameter("weight", start_weight("Linear", {out, in}, options.dtype, options.start, generator))),
      bias_(parameter("bias", options.bias ? start_bias(weight_, options.start, generator) : Tensor())) {}

Tensor Linear::forward_activated(const Tensor& x, Activation activation) const {
  return typeid(*this) == typeid(Linear) ? compute(x, activation) : Module::forward_activated(x, activation);
}

Tensor Linear::compute(const Tensor& x, Activation activation) const {
  // A kernel computes one activation; a second one runs separately.
  if (activation_ != Activation::none)
    return operators::activate(operators::linear(x, weight_, bias_, activation_), activation);
  return operators::linear(x, weight_, bias_, activation);
}

std::string Linear::describe() const {
  return message("Linear(", weight_->size(1), ", ", weight_->size(0), bias_->defined() ? "" : ", no bias",
                 suffix(activation_), ")");
}

std::int64_t Linear::flops(const Shape& /*input*/, const Shape& output) const {
  return 2 * element_count(output) * weight_->size(1);
}

}  // namespace tern::nn

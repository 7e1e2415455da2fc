#include "tern/nn/linear.hpp"

#include "nn/layer.hpp"

namespace tern::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options, Generator& generator)
    : activation_(options.activation),
      weight_(parameter("weight", start_weight("Linear", {out, in}, options.dtype, options.start, generator))),
      bias_(parameter("bias", options.bias ? start_bias(weight_, options.start, generator) : Tensor())) {}

AsOperator Linear::as_operator(bool) const {
  return {{&operators::op("linear"), operators::Attributes({activation_})}, {weight_, bias_}};
}

std::string Linear::describe() const {
  return message("Linear(", weight_->size(1), ", ", weight_->size(0), bias_->defined() ? "" : ", no bias",
                 suffix(activation_), ")");
}

}  // namespace tern::nn

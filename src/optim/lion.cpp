#include "tern/optim/lion.hpp"

#include "optim/composed.hpp"

namespace tern::optim {

Lion::Lion(std::vector<Tensor> parameters, const LionOptions& options)
    : Optimizer("Lion", std::move(parameters), options.learning_rate), options_(options), momenta_(size()) {
  expects(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, "Lion: betas ",
          options.beta1, " and ", options.beta2, " are not in [0, 1)");
  expects(options.weight_decay >= 0, "Lion: weight decay ", options.weight_decay, " must not be negative");
}

std::string Lion::describe() const {
  return message(Optimizer::describe(), ", betas ", options_.beta1, " and ", options_.beta2, ", weight decay ",
                 options_.weight_decay);
}

void Lion::step() {
  const NoGrad no_grad;
  for (const std::size_t i : active()) {
    if (!momenta_[i].defined()) {
      momenta_[i] = zeros(parameter(i).shape(), slot_dtype(i));
      made(momenta_[i]);
    }
    const Tensor gradient = decayed_gradient(parameter(i), 0);
    Tensor change = operators::sign(momenta_[i] * options_.beta1 + gradient * (1 - options_.beta1));
    if (options_.weight_decay > 0) change = change + wide(parameter(i)) * options_.weight_decay;
    subtract(parameter(i), change * learning_rate_tensor());
    blend(momenta_[i], options_.beta2, gradient * (1 - options_.beta2));
  }
}

}  // namespace tern::optim

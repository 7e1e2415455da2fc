#include "tern/optim/rms.hpp"

#include "optim/composed.hpp"

namespace tern::optim {

RMSprop::RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options)
    : Optimizer("RMSprop", std::move(parameters), options.learning_rate), options_(options), squares_(size()) {
  expects(options.alpha >= 0 && options.alpha < 1 && options.epsilon >= 0 && options.weight_decay >= 0 &&
              options.momentum >= 0,
          "RMSprop: alpha ", options.alpha, " is in [0, 1), epsilon ", options.epsilon, ", weight decay ",
          options.weight_decay, " and momentum ", options.momentum, " must not be negative");
  if (options.momentum > 0) momenta_.resize(size());
  if (options.centered) means_.resize(size());
}

std::vector<Optimizer::Slot> RMSprop::slots() {
  return {{"square_avg", &squares_}, {"momentum_buffer", &momenta_}, {"grad_avg", &means_}};
}

std::string RMSprop::describe() const {
  return message(Optimizer::describe(), ", alpha ", options_.alpha, ", epsilon ", options_.epsilon, ", weight decay ",
                 options_.weight_decay, ", momentum ", options_.momentum, options_.centered ? ", centered" : "");
}

void RMSprop::step() {
  const NoGrad no_grad;
  for (const std::size_t i : active()) {
    for (const Slot& slot : slots())
      if (!slot.tensors->empty() && !(*slot.tensors)[i].defined()) {
        (*slot.tensors)[i] = zeros(parameter(i).shape(), slot_dtype(i));
        made((*slot.tensors)[i]);
      }
    const Tensor gradient = decayed_gradient(parameter(i), options_.weight_decay);
    const double alpha = options_.alpha;
    blend(squares_[i], alpha, operators::square(gradient) * (1 - alpha));
    Tensor variance = squares_[i];
    if (options_.centered) {
      blend(means_[i], alpha, gradient * (1 - alpha));
      variance = variance - operators::square(means_[i]);
    }
    Tensor change = gradient / (operators::sqrt(variance) + options_.epsilon);
    if (!momenta_.empty()) {
      blend(momenta_[i], options_.momentum, change);
      change = momenta_[i];
    }
    subtract(parameter(i), change * learning_rate_tensor());
  }
}

Adagrad::Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options)
    : Optimizer("Adagrad", std::move(parameters), options.learning_rate), options_(options), sums_(size()) {
  expects(options.weight_decay >= 0 && options.initial_accumulator >= 0 && options.epsilon >= 0,
          "Adagrad: weight decay ", options.weight_decay, ", initial accumulator ", options.initial_accumulator,
          " and epsilon ", options.epsilon, " must not be negative");
}

std::string Adagrad::describe() const {
  return message(Optimizer::describe(), ", weight decay ", options_.weight_decay, ", initial accumulator ",
                 options_.initial_accumulator, ", epsilon ", options_.epsilon);
}

void Adagrad::step() {
  const NoGrad no_grad;
  for (const std::size_t i : active()) {
    if (!sums_[i].defined()) {
      sums_[i] = full(parameter(i).shape(), options_.initial_accumulator, slot_dtype(i));
      made(sums_[i]);
    }
    const Tensor gradient = decayed_gradient(parameter(i), options_.weight_decay);
    blend(sums_[i], 1, operators::square(gradient));
    subtract(parameter(i), gradient / (operators::sqrt(sums_[i]) + options_.epsilon) * learning_rate_tensor());
  }
}

}  // namespace tern::optim

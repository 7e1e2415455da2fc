#include "tern/optim/adam.hpp"

#include "tern/operators/update.hpp"

namespace tern::optim {

Adam::Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(parameters), options.learning_rate),
      options_(options),
      decoupled_(decoupled),
      first_(size()),
      second_(size()),
      count_(zeros({1}, DType::int64)) {
  expects(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, name, ": betas ",
          options.beta1, " and ", options.beta2, " are not in [0, 1)");
  expects(options.epsilon >= 0 && options.weight_decay >= 0, name, ": epsilon ", options.epsilon, " and weight decay ",
          options.weight_decay, " must not be negative");
}

void Adam::step() {
  std::vector<Tensor> parameters, gradients, first, second;
  for (const std::size_t i : active()) {
    if (!first_[i].defined()) {
      first_[i] = zeros(parameter(i).shape(), parameter(i).dtype());
      second_[i] = zeros(parameter(i).shape(), parameter(i).dtype());
      made(first_[i]);
      made(second_[i]);
    }
    parameters.push_back(parameter(i));
    gradients.push_back(parameter(i).grad());
    first.push_back(first_[i]);
    second.push_back(second_[i]);
  }
  if (parameters.empty()) return;
  operators::adam(parameters, gradients, first, second, learning_rate_tensor(), count_,
                  {.beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .weight_decay = options_.weight_decay,
                   .decoupled = decoupled_});
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : Adam("AdamW", std::move(parameters),
           {options.learning_rate, options.beta1, options.beta2, options.epsilon, options.weight_decay}, true) {}

}  // namespace tern::optim

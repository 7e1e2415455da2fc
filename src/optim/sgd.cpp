#include "tern/optim/sgd.hpp"

#include "tern/operators/update.hpp"

namespace tern::optim {

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : Optimizer("SGD", std::move(parameters), options.learning_rate), options_(options) {
  expects(options.momentum >= 0 && options.weight_decay >= 0, "SGD: momentum ", options.momentum, " and weight decay ",
          options.weight_decay, " must not be negative");
  expects(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
          "SGD: nesterov needs a momentum above 0 and no dampening; found momentum ", options.momentum, ", dampening ",
          options.dampening);
  if (options.momentum > 0) momenta_.resize(size());
}

std::vector<Optimizer::Slot> SGD::slots() { return {{"momentum_buffer", &momenta_}}; }

std::string SGD::describe() const {
  return message(Optimizer::describe(), ", momentum ", options_.momentum, ", dampening ", options_.dampening,
                 ", weight decay ", options_.weight_decay, options_.nesterov ? ", nesterov" : "");
}

void SGD::step() {
  // A parameter's first momentum is its gradient. All take their first step in one call, unless one gets its first
  // gradient later.
  std::vector<std::size_t> fresh, known;
  for (const std::size_t i : active()) (!momenta_.empty() && !momenta_[i].defined() ? fresh : known).push_back(i);
  if (!fresh.empty()) update(fresh, true);
  if (!known.empty()) update(known, false);
}

void SGD::update(const std::vector<std::size_t>& positions, bool first) {
  std::vector<Tensor> parameters, gradients, momenta;
  for (const std::size_t i : positions) {
    parameters.push_back(parameter(i));
    gradients.push_back(parameter(i).grad());
    if (!momenta_.empty()) momenta.push_back(first ? empty(parameter(i).shape(), slot_dtype(i)) : momenta_[i]);
  }
  operators::sgd(parameters, gradients, momenta, learning_rate_tensor(),
                 {.momentum = options_.momentum,
                  .dampening = options_.dampening,
                  .weight_decay = options_.weight_decay,
                  .nesterov = options_.nesterov,
                  .first_step = first});
  if (first)
    for (std::size_t i = 0; i < positions.size(); ++i) {
      momenta_[positions[i]] = momenta[i];
      made(momenta_[positions[i]]);
    }
}

}  // namespace tern::optim

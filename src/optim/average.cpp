#include "tern/optim/average.hpp"

#include "optim/composed.hpp"

namespace tern::optim {

WeightAverage::WeightAverage(const nn::Module& module, double decay)
    : weights_(module.named_parameters()), decay_(decay) {
  expects(decay >= 0 && decay < 1, "WeightAverage: decay ", decay, " is not in [0, 1)");
  for (const auto& [name, weight] : weights_) {
    const Tensor start = weight.detach();
    averages_.push_back({name, start.dtype() == scalar_of(start.dtype()) ? start.clone() : wide(start)});
  }
}

void WeightAverage::update() {
  expects(!swapped_, "WeightAverage: update() while the averages are the module's weights; swap() back first");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    blend(averages_[i].tensor, decay_, wide(weights_[i].tensor) * (1 - decay_));
}

void WeightAverage::swap() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    Tensor& weight = weights_[i].tensor;
    if (!swapped_) kept_.push_back(weight.clone());
    weight.copy_(swapped_ ? kept_[i] : averages_[i].tensor);
  }
  if (swapped_) kept_.clear();
  swapped_ = !swapped_;
}

nn::State WeightAverage::state() const {
  nn::State state;
  for (const auto& [name, tensor] : averages_) state.emplace(name, tensor);
  return state;
}

void WeightAverage::load_state(const nn::State& state) {
  nn::load_tensors("load_state: the state does not fit this WeightAverage", averages_, state);
}

}  // namespace tern::optim

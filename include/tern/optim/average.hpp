#pragma once

#include "tern/nn/module.hpp"

namespace tern::optim {

/// The exponential moving average of a module's parameters, which often generalises better than the last weights:
///
///     optim::WeightAverage average{net, 0.999};
///     ... optimizer.step(); average.update(); ...
///     average.swap();  // the net computes with the averages
///     ... evaluate or save ...
///     average.swap();  // and continues training
///
/// Buffers, such as the running statistics of BatchNorm2d, are not averaged. (Polyak and Juditsky, 1992.)
class WeightAverage {
 public:
  /// Starts with the current weights. Throws Error unless `decay` is in [0, 1).
  explicit WeightAverage(const nn::Module& module, double decay = 0.999);
  /// average = decay average + (1 - decay) weight, in the mode of the scope. Throws Error between two swaps.
  void update();
  /// Writes the averages into the module's weights; the next call restores the weights.
  void swap();
  bool swapped() const { return swapped_; }

  /// The averages by parameter name, sharing the elements.
  nn::State state() const;
  /// See nn::load_tensors.
  void load_state(const nn::State& state);

 private:
  std::vector<nn::NamedTensor> weights_, averages_;  // 16-bit weights have float32 averages
  std::vector<Tensor> kept_;                         // the weights, while the averages replace them
  double decay_;
  bool swapped_ = false;
};

}  // namespace tern::optim

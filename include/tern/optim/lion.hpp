#pragma once

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;  ///< decoupled: p -= rate weight_decay p
};

/// p -= rate (sign(beta1 m + (1 - beta1) g) + weight_decay p), then m = beta2 m + (1 - beta2) g. (Chen and others,
/// 2023.)
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Tensor> parameters, const LionOptions& options = {});
  void step() override;
  std::string describe() const override;

 protected:
  std::vector<Slot> slots() override { return {{"exp_avg", &momenta_}}; }

 private:
  LionOptions options_;
  std::vector<Tensor> momenta_;
};

}  // namespace tern::optim

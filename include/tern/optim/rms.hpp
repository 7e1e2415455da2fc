#pragma once

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

struct RMSpropOptions {
  double learning_rate = 1e-2;
  double alpha = 0.99;  ///< decay of the mean square
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  ///< divide by the deviation instead of the root of the mean square
};

/// torch.optim.RMSprop: s = alpha s + (1 - alpha) g^2, p -= rate g / (sqrt(s) + epsilon), where g includes weight_decay
/// p. With momentum b = momentum b + g / (sqrt(s) + epsilon), p -= rate b. (Tieleman and Hinton, 2012.)
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options = {});
  void step() override;
  std::string describe() const override;

 protected:
  std::vector<Slot> slots() override;

 private:
  RMSpropOptions options_;
  std::vector<Tensor> squares_, momenta_, means_;  // the last two are empty if unused
};

struct AdagradOptions {
  double learning_rate = 1e-2;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double epsilon = 1e-10;
};

/// torch.optim.Adagrad without its decay of the rate, which schedules provide: s += g^2, p -= rate g / (sqrt(s) +
/// epsilon). (Duchi and others, 2011.)
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options = {});
  void step() override;
  std::string describe() const override;

 protected:
  std::vector<Slot> slots() override { return {{"sum", &sums_}}; }

 private:
  AdagradOptions options_;
  std::vector<Tensor> sums_;
};

}  // namespace tern::optim

#pragma once

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< requires a momentum and no dampening
};

/// torch.optim.SGD; see kernels::Sgd for the formula.
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SgdOptions& options = {});
  void step() override;
  bool conditional() const override { return true; }
  const SgdOptions& options() const { return options_; }
  std::string describe() const override;

 protected:
  std::vector<Slot> slots() override;

 private:
  void update(const std::vector<std::size_t>& positions, bool first);

  SgdOptions options_;
  std::vector<Tensor> momenta_;  // empty without momentum
};

}  // namespace tern::optim

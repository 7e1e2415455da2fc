#pragma once

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// torch.optim.Adam; see kernels::Adam for the formula. Every parameter counts its own steps: those in which it had a
/// gradient. One kernel updates all parameters with the same count.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {})
      : Adam("Adam", std::move(parameters), options, false) {}
  void step() override;
  bool conditional() const override { return true; }
  nn::State state() const override;
  void load_state(const nn::State& state) override;
  std::string describe() const override;

 protected:
  Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled);
  std::vector<Slot> slots() override { return {{"exp_avg", &first_}, {"exp_avg_sq", &second_}}; }

 private:
  AdamOptions options_;
  bool decoupled_;
  /// The step count of the parameters that share it.
  struct Counter {
    Tensor steps = zeros({1}, DType::int64);                     // incremented by the kernel
    std::shared_ptr<bool> whole = std::make_shared<bool>(true);  // false once some of the parameters have left it
    /// A counter for parameters that leave this one; a Step that was recorded with all of them is recorded again.
    std::shared_ptr<Counter> part();
  };
  void step(const std::vector<std::size_t>& positions, const Tensor& steps);

  std::vector<Tensor> first_, second_;
  std::vector<std::shared_ptr<Counter>> counters_;  // one per parameter
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

/// torch.optim.AdamW: Adam with decoupled weight decay.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
};

}  // namespace tern::optim

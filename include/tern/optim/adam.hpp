#pragma once

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// torch.optim.Adam; kernels::Adam has the formula. All parameters count the same steps.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {})
      : Adam("Adam", std::move(parameters), options, false) {}
  void step() override;

 protected:
  Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled);
  std::vector<Slot> slots() override { return {{"exp_avg", &first_}, {"exp_avg_sq", &second_}}; }
  std::vector<nn::NamedTensor> extras() const override { return {{"step", count_}}; }

 private:
  AdamOptions options_;
  bool decoupled_;
  std::vector<Tensor> first_, second_;
  Tensor count_;  // int64, counted up by the kernel
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

/// torch.optim.AdamW: Adam whose weight decay does not pass through the moments.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
};

}  // namespace tern::optim

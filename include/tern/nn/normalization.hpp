#pragma once

#include "tern/nn/module.hpp"
#include "tern/operators/normalization.hpp"

namespace tern::nn {

using operators::LocalResponseNormOptions;

class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(const LocalResponseNormOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) const override { return operators::local_response_norm(x, options_); }
  std::string describe() const override { return message("LocalResponseNorm(", options_.size, ")"); }

 private:
  LocalResponseNormOptions options_;
};

struct BatchNorm2dOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;            ///< running = (1 - momentum) running + momentum batch
  bool affine = true;               ///< with weight (at first 1) and bias (at first 0)
  bool track_running_stats = true;  ///< else the batch's statistics are used in evaluation too
  DType dtype = DType::float32;
};

/// operators::batch_norm of x [N, channels, H, W], with torch's names: parameters weight and bias, buffers running_mean
/// and running_var. There is no num_batches_tracked: nothing here depends on it, and load_state passes over it.
/// One value per channel has no deviation: with the batch's statistics it is a ShapeError, as in torch.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options = {});
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return message("BatchNorm2d(", channels_, ")"); }

 private:
  std::int64_t channels_;
  double epsilon_, momentum_;
  Parameter weight_, bias_;
  Tensor running_mean_, running_var_;
};

}  // namespace tern::nn

#pragma once

#include <optional>

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

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;            ///< running = (1 - momentum) running + momentum batch
  bool affine = true;               ///< with weight (initially 1) and bias (initially 0)
  bool track_running_stats = true;  ///< if false, evaluation also uses the batch's statistics
  DType dtype = DType::float32;
};

using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;

/// operators::batch_norm with torch's names: parameters weight and bias, buffers running_mean and running_var. There is
/// no num_batches_tracked: nothing here depends on it, and load_state ignores it. A batch with one value per channel
/// has no deviation and is a ShapeError, as in torch.
class BatchNorm : public Module {
 public:
  using Module::operator();
  /// `forward`, plus `added`, which has its shape or is undefined, and then the activation: in one kernel where that is
  /// none or relu.
  Tensor operator()(const Tensor& x, const Tensor& added, Activation activation) const;
  Tensor forward(const Tensor& x) const override { return compute(x, {}, Activation::none); }
  AsOperator as_operator(bool training) const;
  std::string describe() const override { return message(name_, "(", channels_, ")"); }

 protected:
  /// For x of `least_rank` to `most_rank` dimensions, 2 to 4.
  BatchNorm(const char* name, int least_rank, int most_rank, std::int64_t channels, const BatchNormOptions& options);

 private:
  Tensor compute(const Tensor& x, const Tensor& added, Activation activation) const;
  void check(const Tensor& x) const;
  operators::BatchNormOptions options_in(bool training, Activation activation) const;

  const char* name_;
  int least_rank_, most_rank_;
  std::int64_t channels_;
  double epsilon_, momentum_;
  Parameter weight_, bias_;
  Tensor running_mean_, running_var_;
};

/// For x [N, channels] or [N, channels, L].
class BatchNorm1d : public BatchNorm {
 public:
  using Operator = BatchNorm1d;
  explicit BatchNorm1d(std::int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", 2, 3, channels, options) {}
};

/// For x [N, channels, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  using Operator = BatchNorm2d;
  explicit BatchNorm2d(std::int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", 4, 4, channels, options) {}
};

struct NormOptions {
  std::optional<double> epsilon = {};  ///< if absent 1e-5, and for RmsNorm the default of operators::rms_norm
  bool affine = true;                  ///< with weight (initially 1) and, where there is one, bias (initially 0)
  DType dtype = DType::float32;
};

/// operators::layer_norm over the last dimensions, whose sizes are listed here; torch's names weight and bias.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const NormOptions& options = {});
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return message("LayerNorm(", shape_, ")"); }

 private:
  Shape shape_;
  double epsilon_;
  Parameter weight_, bias_;
};

/// operators::rms_norm over the last dimensions, whose sizes are listed here; torch's name weight.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(const Shape& normalized_shape, const NormOptions& options = {});
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return message("RmsNorm(", shape_, ")"); }

 private:
  Shape shape_;
  std::optional<double> epsilon_;
  Parameter weight_;
};

/// operators::group_norm for x [N, channels, ...]; torch's names weight and bias. Throws ShapeError unless `groups`
/// divides `channels`.
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options = {});
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return message("GroupNorm(", groups_, ", ", channels_, ")"); }

 private:
  std::int64_t groups_, channels_;
  double epsilon_;
  Parameter weight_, bias_;
};

}  // namespace tern::nn

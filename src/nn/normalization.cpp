#include "tern/nn/normalization.hpp"

#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::nn {

BatchNorm2d::BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options)
    : channels_(channels),
      epsilon_(options.epsilon),
      momentum_(options.momentum),
      weight_(parameter("weight", options.affine ? ones({channels}, options.dtype) : Tensor())),
      bias_(parameter("bias", options.affine ? zeros({channels}, options.dtype) : Tensor())),
      running_mean_(
          buffer("running_mean", options.track_running_stats ? zeros({channels}, scalar_of(options.dtype)) : Tensor())),
      running_var_(
          buffer("running_var", options.track_running_stats ? ones({channels}, scalar_of(options.dtype)) : Tensor())) {
  ignore("num_batches_tracked");
}

Tensor BatchNorm2d::forward(const Tensor& x) const {
  expects<ShapeError>(x.rank() == 4 && x.size(1) == channels_, "BatchNorm2d: input is ", x.shape(), ", expected [N,",
                      channels_, ",H,W]");
  const bool batch_statistics = training() || !running_mean_.defined();
  expects<ShapeError>(!batch_statistics || x.numel() != channels_, "BatchNorm2d: input ", x.shape(),
                      " has one value per channel, whose deviation is 0; train with more, or call eval()");
  if (!batch_statistics && autograd::recording(x, weight_.tensor(), bias_.tensor())) {
    // Frozen statistics with gradients, as in fine-tuning: the operator's inference form has none, so it is composed.
    if (weight_->defined())
      expects<DTypeError>(weight_->dtype() == x.dtype(), "BatchNorm2d: input is ", x.dtype(), ", weight ",
                          weight_->dtype(), "; convert one with to(...)");
    // Of 16-bit images in float32, like the statistics.
    const auto wide = [](const Tensor& tensor) { return tensor.to(scalar_of(tensor.dtype())); };
    const auto channel = [&](const Tensor& tensor) { return wide(tensor).reshape({1, tensor.numel(), 1, 1}); };
    const Tensor normal = (wide(x) - channel(running_mean_)) / operators::sqrt(channel(running_var_) + epsilon_);
    return (weight_->defined() ? normal * channel(weight_) + channel(bias_) : normal).to(x.dtype());
  }
  return operators::batch_norm(x, weight_, bias_, running_mean_, running_var_,
                               {.training = batch_statistics, .momentum = momentum_, .epsilon = epsilon_});
}

}  // namespace tern::nn

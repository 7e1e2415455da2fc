#include "tern/parallel/batch_norm.hpp"

#include "parallel/filled.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"
#include "tern/parallel/layout.hpp"

namespace tern::parallel {

Tensor all_reduce(const Group& group, const Tensor& x) { return exchange(group, x, Layout::partial, Layout::copies); }

BatchNorm2d::BatchNorm2d(const Group& group, std::int64_t channels, const nn::BatchNorm2dOptions& options)
    : group_(on_devices(group)),
      channels_(channels),
      epsilon_(options.epsilon),
      momentum_(options.momentum),
      weight_(parameter("weight", options.affine ? ones({channels}, options.dtype) : Tensor())),
      bias_(parameter("bias", options.affine ? zeros({channels}, options.dtype) : Tensor())),
      running_mean_(buffer("running_mean", zeros({channels}, scalar_of(options.dtype)))),
      running_var_(buffer("running_var", ones({channels}, scalar_of(options.dtype)))) {
  ignore("num_batches_tracked");
}

Tensor BatchNorm2d::forward(const Tensor& images) const {
  // 16-bit images in float32, as operators::batch_norm computes.
  const auto wide = [](const Tensor& tensor) { return tensor.to(scalar_of(tensor.dtype())); };
  const Tensor x = wide(images);
  expects<ShapeError>(x.rank() == 4 && x.size(1) == channels_, "BatchNorm2d: input is ", x.shape(), ", expected [N,",
                      channels_, ",H,W]");
  expects<ShapeError>(!training() || group_.size() > 1 || x.numel() != channels_, "BatchNorm2d: input ", x.shape(),
                      " has one value per channel, whose deviation is 0; use a larger batch, or call eval()");
  const auto channel = [&](const Tensor& tensor) { return wide(tensor).reshape({1, channels_, 1, 1}); };
  Tensor normal;
  if (training()) {
    // Two passes, because deviations may be small beside a large mean. The count travels with the sum.
    const std::int64_t values = x.numel() / channels_;
    const Tensor own = filled({1}, values, x.dtype());
    const Tensor sums = all_reduce(group_, operators::cat({operators::sum(x, {0, 2, 3}), own}, 0));
    const Tensor count = sums.slice(0, channels_, channels_ + 1).detach();
    const Tensor mean = sums.slice(0, 0, channels_) / count;
    const Tensor deviation = x - channel(mean);
    const Tensor var = all_reduce(group_, operators::sum(deviation * deviation, {0, 2, 3})) / count;
    normal = deviation / operators::sqrt(channel(var) + epsilon_);
    const NoGrad no_grad;
    const auto move = [&](Tensor running, const Tensor& batch) {
      running.copy_(running * (1 - momentum_) + batch.detach() * momentum_);
    };
    move(running_mean_, mean);
    move(running_var_, var * (count / (count - 1)));
  } else {
    normal = (x - channel(running_mean_)) / operators::sqrt(channel(running_var_) + epsilon_);
  }
  return (weight_->defined() ? normal * channel(weight_) + channel(bias_) : normal).to(images.dtype());
}

}  // namespace tern::parallel

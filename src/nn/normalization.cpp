#include "tern/nn/normalization.hpp"

#include "nn/call_log.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::nn {

namespace {

// "[N,3] or [N,3,L]".
std::string shapes_of(int least_rank, int most_rank, std::int64_t channels) {
  constexpr const char* ends[]{"]", ",L]", ",H,W]"};
  std::string text;
  for (int rank = least_rank; rank <= most_rank; ++rank)
    text += message(text.empty() ? "[N," : " or [N,", channels, ends[rank - 2]);
  return text;
}

}  // namespace

BatchNorm::BatchNorm(const char* name, int least_rank, int most_rank, std::int64_t channels,
                     const BatchNormOptions& options)
    : name_(name),
      least_rank_(least_rank),
      most_rank_(most_rank),
      channels_(channels),
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

Tensor BatchNorm::operator()(const Tensor& x, const Tensor& added, Activation activation) const {
  if (call_log() != nullptr) [[unlikely]] {
    const Tensor y = (*this)(x);
    return operators::activate(added.defined() ? operators::add(y, added) : y, activation);
  }
  return run([&] { return compute(x, added, activation); });
}

void BatchNorm::check(const Tensor& x) const {
  if (x.rank() < least_rank_ || x.rank() > most_rank_ || x.size(1) != channels_)
    throw ShapeError(
        message(name_, ": input is ", x.shape(), ", expected ", shapes_of(least_rank_, most_rank_, channels_)));
  expects<ShapeError>(!options_in(training(), {}).training || x.numel() != channels_, name_, ": input ", x.shape(),
                      " has one value per channel, whose deviation is 0; use a larger batch, or call eval()");
}

operators::BatchNormOptions BatchNorm::options_in(bool training, Activation activation) const {
  return {.training = training || !running_mean_.defined(),
          .momentum = momentum_,
          .epsilon = epsilon_,
          .activation = activation};
}

Tensor BatchNorm::compute(const Tensor& x, const Tensor& added, Activation activation) const {
  check(x);
  return operators::batch_norm(x, weight_, bias_, running_mean_, running_var_, options_in(training(), activation),
                               added);
}

AsOperator BatchNorm::as_operator(bool training) const {
  return {{&operators::op("batch_norm"), operators::Attributes({options_in(training, Activation::none)})},
          {weight_, bias_, running_mean_, running_var_},
          [module = *this](const Tensor& x) { module.check(x); }};
}

namespace {

const Shape& checked(const char* layer, const Shape& shape) {
  for (const std::int64_t size : shape) expects<ShapeError>(size > 0, layer, ": sizes are positive, not ", shape);
  return shape;
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, const NormOptions& options)
    : shape_(checked("LayerNorm", normalized_shape)),
      epsilon_(options.epsilon.value_or(1e-5)),
      weight_(parameter("weight", options.affine ? ones(shape_, options.dtype) : Tensor())),
      bias_(parameter("bias", options.affine ? zeros(shape_, options.dtype) : Tensor())) {}

Tensor LayerNorm::forward(const Tensor& x) const { return operators::layer_norm(x, shape_, weight_, bias_, epsilon_); }

RmsNorm::RmsNorm(const Shape& normalized_shape, const NormOptions& options)
    : shape_(checked("RmsNorm", normalized_shape)),
      epsilon_(options.epsilon),
      weight_(parameter("weight", options.affine ? ones(shape_, options.dtype) : Tensor())) {}

Tensor RmsNorm::forward(const Tensor& x) const { return operators::rms_norm(x, shape_, weight_, epsilon_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options)
    : groups_(groups),
      channels_(channels),
      epsilon_(options.epsilon.value_or(1e-5)),
      weight_(parameter("weight", options.affine ? ones(checked("GroupNorm", {channels}), options.dtype) : Tensor())),
      bias_(parameter("bias", options.affine ? zeros({channels}, options.dtype) : Tensor())) {
  expects<ShapeError>(groups > 0 && channels % groups == 0, "GroupNorm: ", groups, " groups do not divide ", channels,
                      " channels");
}

Tensor GroupNorm::forward(const Tensor& x) const {
  expects<ShapeError>(x.rank() >= 2 && x.size(1) == channels_, "GroupNorm: input is ", x.shape(), ", expected [N,",
                      channels_, ",...]");
  return operators::group_norm(x, groups_, weight_, bias_, epsilon_);
}

}  // namespace tern::nn

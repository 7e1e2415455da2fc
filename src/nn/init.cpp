#include "tern/nn/init.hpp"

#include <cmath>

#include "tern/autograd/tape.hpp"

namespace tern::nn::init {
namespace {

/// Elements of the kernel per (output, input) pair.
std::int64_t receptive_field(const Tensor& weight) {
  expects<ShapeError>(weight.rank() >= 2, "init: fan in and fan out need a weight [out, in, ...], this one is ",
                      weight.shape());
  std::int64_t count = 1;
  for (int i = 2; i < weight.rank(); ++i) count *= weight.size(i);
  return count;
}

double kaiming_deviation(const Tensor& weight, const KaimingOptions& options) {
  const std::int64_t fan = options.fan == Fan::in ? fan_in(weight) : fan_out(weight);
  return fan == 0 ? 0 : gain(options.nonlinearity, options.negative_slope) / std::sqrt(static_cast<double>(fan));
}

double xavier_deviation(const Tensor& weight, double gain) {
  const std::int64_t fans = fan_in(weight) + fan_out(weight);
  return fans == 0 ? 0 : gain * std::sqrt(2.0 / static_cast<double>(fans));
}

}  // namespace

double gain(Nonlinearity nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2.0 / (1 + negative_slope * negative_slope));
    default:
      return 1;
  }
}

std::int64_t fan_in(const Tensor& weight) {
  const std::int64_t field = receptive_field(weight);
  return weight.size(1) * field;
}
std::int64_t fan_out(const Tensor& weight) {
  const std::int64_t field = receptive_field(weight);
  return weight.size(0) * field;
}

Tensor uniform_(Tensor tensor, Generator& generator, double low, double high) {
  const NoGrad no_grad;
  return tensor.copy_(rand(tensor.shape(), generator, low, high, tensor.dtype()));
}

Tensor normal_(Tensor tensor, Generator& generator, double mean, double deviation) {
  const NoGrad no_grad;
  return tensor.copy_(randn(tensor.shape(), generator, mean, deviation, tensor.dtype()));
}

Tensor constant_(Tensor tensor, double value) {
  const NoGrad no_grad;
  return tensor.fill_(value);
}

Tensor kaiming_uniform_(Tensor weight, Generator& generator, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_deviation(weight, options);
  return uniform_(std::move(weight), generator, -bound, bound);
}

Tensor kaiming_normal_(Tensor weight, Generator& generator, const KaimingOptions& options) {
  const double deviation = kaiming_deviation(weight, options);
  return normal_(std::move(weight), generator, 0, deviation);
}

Tensor xavier_uniform_(Tensor weight, Generator& generator, double gain) {
  const double bound = std::sqrt(3.0) * xavier_deviation(weight, gain);
  return uniform_(std::move(weight), generator, -bound, bound);
}

Tensor xavier_normal_(Tensor weight, Generator& generator, double gain) {
  const double deviation = xavier_deviation(weight, gain);
  return normal_(std::move(weight), generator, 0, deviation);
}

}  // namespace tern::nn::init

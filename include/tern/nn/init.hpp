#pragma once
// Initial values, with torch.nn.init's names and formulas. They overwrite the tensor (never recorded) and return it.
// The numbers come from the generator's next stream, so one seed gives the same bits in every mode.

#include "tern/tensor/create.hpp"

namespace tern::nn {

/// How a layer's weight and bias are initialised.
enum class Start : std::uint8_t {
  torch,    ///< as PyTorch's layers: both uniform in +-1 / sqrt(fan in)
  kaiming,  ///< for a relu after the layer: weight uniform in +-sqrt(6 / fan in), bias 0
  none,     ///< not initialised, and no memory allocated yet: for a module whose state is loaded next
};

namespace init {

/// What follows the layer; determines the gain.
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu };
/// The factor by which the deviation must grow to keep the variance: torch's calculate_gain.
double gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// Number of inputs per output (outputs per input) of a weight [out, in, ...]. Throws ShapeError below rank 2.
std::int64_t fan_in(const Tensor& weight);
std::int64_t fan_out(const Tensor& weight);
enum class Fan : std::uint8_t { in, out };

Tensor uniform_(Tensor tensor, Generator& generator, double low = 0, double high = 1);
Tensor normal_(Tensor tensor, Generator& generator, double mean = 0, double deviation = 1);
Tensor constant_(Tensor tensor, double value);

struct KaimingOptions {
  double negative_slope = 0;
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// Uniform in +-gain sqrt(3 / fan).
Tensor kaiming_uniform_(Tensor weight, Generator& generator, const KaimingOptions& options = {});
/// Normal with the deviation gain / sqrt(fan).
Tensor kaiming_normal_(Tensor weight, Generator& generator, const KaimingOptions& options = {});
/// Uniform in +-gain sqrt(6 / (fan_in + fan_out)).
Tensor xavier_uniform_(Tensor weight, Generator& generator, double gain = 1);
/// Normal with the deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal_(Tensor weight, Generator& generator, double gain = 1);

}  // namespace init
}  // namespace tern::nn

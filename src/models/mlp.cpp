#include "tern/models/mlp.hpp"

#include "tern/nn/activation.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/shape.hpp"
#include "tern/operators/loss.hpp"

namespace tern::models {

Mlp::Mlp(const MlpOptions& options, std::uint64_t seed) {
  expects<ShapeError>(options.layers.size() >= 2, "Mlp: `layers` has the sizes of input and output at least, it has ",
                      options.layers.size());
  Generator generator(seed);
  const std::size_t last = options.layers.size() - 2;
  for (std::size_t i = 0; i <= last; ++i) {
    add(nn::Linear(options.layers[i], options.layers[i + 1], {}, generator));
    if (i == last) break;
    if (options.activation == Activation::relu) add(nn::Relu());
    if (options.activation == Activation::sigmoid) add(nn::Sigmoid());
    if (options.activation == Activation::tanh) add(nn::Tanh());
    if (options.activation == Activation::relu6) add(nn::Relu6());
    if (options.activation == Activation::gelu) add(nn::Gelu());
    if (options.activation == Activation::silu) add(nn::Silu());
    if (options.activation == Activation::hardswish) add(nn::Hardswish());
    if (options.dropout > 0) add(nn::Dropout(options.dropout));
  }
}

Tensor Mlp::forward(const Tensor& x) const { return Sequential::forward(x.rank() > 2 ? x.flatten(1) : x); }

Tensor Mlp::loss(const Tensor& x, const Tensor& labels) const { return operators::cross_entropy((*this)(x), labels); }

Mlp mlp_small(std::uint64_t seed) { return Mlp({.layers = {784, 196, 196, 196, 10}}, seed); }
Mlp mlp_medium(std::uint64_t seed) { return Mlp({.layers = {784, 392, 392, 392, 10}}, seed); }
Mlp mlp_big(std::uint64_t seed) { return Mlp({.layers = {784, 784, 784, 784, 10}}, seed); }

}  // namespace tern::models

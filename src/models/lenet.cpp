#include "tern/models/lenet.hpp"

#include "tern/nn/activation.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/shape.hpp"
#include "tern/operators/loss.hpp"

namespace tern::models {

LeNet::LeNet(std::uint64_t seed) {
  Generator generator(seed);
  add(nn::Conv2d(1, 20, 5, {}, generator)).add(nn::MaxPool2d(2));
  add(nn::Conv2d(20, 50, 5, {}, generator)).add(nn::MaxPool2d(2));
  add(nn::Flatten());
  add(nn::Linear(800, 500, {}, generator)).add(nn::Relu());
  add(nn::Linear(500, 10, {}, generator));
}

Tensor LeNet::loss(const Tensor& x, const Tensor& labels) const { return operators::cross_entropy((*this)(x), labels); }

}  // namespace tern::models

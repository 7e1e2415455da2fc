#pragma once

#include "tern/nn/conv.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

/// A convolution with bias and relu in one kernel; its parameters are conv.weight and conv.bias, as in torchvision's
/// GoogLeNet.
class ConvRelu : public nn::Module {
 public:
  /// `options.activation` is set to relu.
  ConvRelu(std::int64_t in, std::int64_t out, Pair kernel, nn::Conv2dOptions options, Generator& generator);
  Tensor forward(const Tensor& x) const override { return conv_(x); }
  std::string describe() const override { return "ConvRelu"; }
  const nn::Conv2d& conv() const { return conv_; }

 private:
  nn::Conv2d conv_;
};

/// The channels of an inception module.
struct InceptionChannels {
  std::int64_t in = 0;
  std::int64_t conv1x1 = 0;
  std::int64_t reduce3x3 = 0, conv3x3 = 0;
  std::int64_t reduce5x5 = 0, conv5x5 = 0;
  std::int64_t pool = 0;

  std::int64_t out() const { return conv1x1 + conv3x3 + conv5x5 + pool; }
};

/// Four parallel branches over x [N, in, H, W], concatenated to [N, out, H, W]: branch1 is a 1x1 convolution; branch2
/// 1x1 and 3x3; branch3 1x1 and 5x5; branch4 a 3x3 max pooling and 1x1. A relu follows every convolution.
class Inception : public nn::Module {
 public:
  Inception(const InceptionChannels& channels, nn::Start start, Generator& generator);
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return "Inception"; }

 private:
  ConvRelu conv1x1_;
  ConvRelu reduce3x3_, conv3x3_;
  ConvRelu reduce5x5_, conv5x5_;
  nn::MaxPool2d pool_;
  ConvRelu project_;
};

}  // namespace tern::models

#pragma once

#include "tern/models/resnet18.hpp"

namespace tern::models {

/// Convolutions of 1x1 to fewer channels, of 3x3 and of 1x1 to four times as many, each with batch normalisation, added
/// to the input, then relu. The stride is the 3x3's; a stride, or another number of channels, takes a convolution of
/// 1x1 on the way of the input ("downsample").
class Bottleneck : public nn::Module {
 public:
  static constexpr std::int64_t expansion = 4;
  /// From `in` to expansion * `width` channels.
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, nn::Start start, Generator& generator);
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return "Bottleneck"; }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
  nn::Sequential downsample_;  // empty: the input as it is
};

using ResNet50Options = ResNet18Options;

/// The residual network of 50 layers of He, Zhang, Ren and Sun. 25,557,032 parameters, those of torchvision's resnet50.
class ResNet50 : public ImageClassifier {
 public:
  explicit ResNet50(const ResNet50Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential layers_;
};

}  // namespace tern::models

#pragma once

#include "tern/models/resnet18.hpp"

namespace tern::models {

/// Convolutions 1x1 to fewer channels, 3x3, and 1x1 to four times as many, each with batch normalisation, added to the
/// input, then relu. The 3x3 convolution has the stride. If the stride or the number of channels changes, a 1x1
/// convolution adapts the shortcut ("downsample").
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
  nn::Sequential downsample_;  // empty: identity shortcut
};

using ResNet50Options = ResNet18Options;

/// The 50-layer residual network of He, Zhang, Ren and Sun. 25,557,032 parameters, as torchvision's resnet50.
class ResNet50 : public ImageClassifier {
 public:
  explicit ResNet50(const ResNet50Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential layers_;
};

}  // namespace tern::models

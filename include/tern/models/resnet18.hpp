#pragma once

#include "tern/models/image_classifier.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

/// Two 3x3 convolutions with batch normalisation, added to the input, then relu. If the stride or the number of
/// channels changes, a 1x1 convolution adapts the shortcut ("downsample").
class ResidualBlock : public nn::Module {
 public:
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Start start, Generator& generator);
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override { return "ResidualBlock"; }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Sequential downsample_;  // empty: identity shortcut
};

/// How a residual network begins.
enum class Stem : std::uint8_t {
  photographs,  ///< a 7x7 convolution with stride 2 and a pool: height and width shrink to a quarter
  small,        ///< a 3x3 convolution and no pool: for 32x32 images such as CIFAR-10
};

struct ResNet18Options {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;
  std::int64_t width_divisor = 1;  ///< divides the channels: small nets for small data
  nn::Start start = nn::Start::kaiming;
  Stem stem = Stem::photographs;
};

/// The 18-layer residual network of He, Zhang, Ren and Sun. 11,689,512 parameters, as torchvision's resnet18; with the
/// small stem and 10 classes 11,173,962.
class ResNet18 : public ImageClassifier {
 public:
  explicit ResNet18(const ResNet18Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential layers_;
};

}  // namespace tern::models

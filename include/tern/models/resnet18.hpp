#pragma once

#include "tern/models/image_classifier.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

/// Two convolutions of 3x3 with batch normalisation, added to the input, then relu: a stride, or another number of
/// channels, takes a convolution of 1x1 on the way of the input ("downsample").
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
  nn::Sequential downsample_;  // empty: the input as it is
};

/// How a residual network takes images in.
enum class Stem : std::uint8_t {
  photographs,  ///< a convolution of 7x7 with stride 2 and a pool: a quarter of the height and width go on
  small,        ///< a convolution of 3x3 and no pool: for images of 32x32, as those of CIFAR-10
};

struct ResNet18Options {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;
  std::int64_t width_divisor = 1;  ///< divides the channels: small nets for small data
  nn::Start start = nn::Start::kaiming;
  Stem stem = Stem::photographs;
};

/// The residual network of 18 layers of He, Zhang, Ren and Sun. 11,689,512 parameters, those of torchvision's resnet18;
/// with the small stem and 10 classes 11,173,962.
class ResNet18 : public ImageClassifier {
 public:
  explicit ResNet18(const ResNet18Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential layers_;
};

}  // namespace tern::models

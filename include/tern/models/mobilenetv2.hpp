#pragma once

#include "tern/models/image_classifier.hpp"
#include "tern/nn/init.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

struct MobileNetV2Options {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;
  double dropout = 0.2;            ///< before the last layer; 0: none
  std::int64_t width_divisor = 1;  ///< divides the channels: small nets for small data
  nn::Start start = nn::Start::kaiming;
};

/// The network of inverted residuals of Sandler, Howard, Zhu, Zhmoginov and Chen: blocks that widen by 1x1, convolve
/// each channel separately by 3x3, and narrow by 1x1. 3,504,872 parameters, as torchvision's mobilenet_v2.
class MobileNetV2 : public ImageClassifier {
 public:
  explicit MobileNetV2(const MobileNetV2Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential features_, classifier_;
};

}  // namespace tern::models

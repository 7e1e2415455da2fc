#pragma once

#include "tern/models/image_classifier.hpp"
#include "tern/nn/init.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

struct Vgg16Options {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;   ///< at least 32; the first linear layer adapts to it
  double dropout = 0.5;            ///< after each of the two hidden linear layers; 0: none
  std::int64_t width_divisor = 1;  ///< divides channels and hidden sizes: small nets for small data
  nn::Start start = nn::Start::kaiming;
};

/// The 16-layer network of Simonyan and Zisserman: thirteen 3x3 convolutions in five stages, each followed by max
/// pooling, and three linear layers. 138,357,544 parameters, as torchvision's vgg16.
class Vgg16 : public ImageClassifier {
 public:
  explicit Vgg16(const Vgg16Options& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential features_, classifier_;
};

}  // namespace tern::models

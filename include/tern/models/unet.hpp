#pragma once

#include <vector>

#include "tern/nn/conv.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

struct UNetOptions {
  std::int64_t channels = 3;       ///< of the images
  std::int64_t classes = 2;        ///< number of classes of a pixel
  std::int64_t width_divisor = 1;  ///< divides the inner channels: small nets for small data
  nn::Start start = nn::Start::kaiming;
};

/// The U-Net of Ronneberger, Fischer and Brox with padding and batch normalisation, which classifies every pixel: four
/// levels down by pooling and up by transposed convolutions, with skip connections between equal levels. 31,037,698
/// parameters for three channels and two classes.
class UNet : public nn::Module {
 public:
  explicit UNet(const UNetOptions& options = {}, std::uint64_t seed = 0);
  /// Logits [N, classes, H, W] for images [N, channels, H, W]; throws ShapeError unless H and W are multiples of 16.
  Tensor forward(const Tensor& images) const override;
  /// The mean cross-entropy of all pixels; labels [N, H, W] int64.
  Tensor loss(const Tensor& images, const Tensor& labels) const;
  std::string describe() const override { return "UNet"; }

 private:
  std::int64_t channels_;
  std::vector<nn::Sequential> down_;        // two convolutions at each level, from the top
  std::vector<nn::ConvTranspose2d> raise_;  // from the bottom
  std::vector<nn::Sequential> join_;        // two convolutions after each of these
  nn::Sequential out_;
};

}  // namespace tern::models

#pragma once

#include "tern/models/image_classifier.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/sequential.hpp"

namespace tern::models {

/// The default is the small form, ViT-S/16; {.width = 768, .heads = 12, .hidden = 3072} is torchvision's vit_b_16.
struct VisionTransformerOptions {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;
  std::int64_t patch = 16;   ///< height and width of a patch; must divide the image size
  std::int64_t width = 384;  ///< features of a patch
  std::int64_t layers = 12;
  std::int64_t heads = 6;      ///< must divide the width
  std::int64_t hidden = 1536;  ///< hidden size of the MLP blocks
};

/// The vision transformer of Dosovitskiy and others: patches of the image and a class token attend to each other.
/// 22,050,664 parameters as ViT-S/16, 86,567,656 as ViT-B/16, with the names of torchvision's VisionTransformer.
class VisionTransformer : public ImageClassifier {
 public:
  /// Throws ShapeError if a size does not divide another that it must.
  explicit VisionTransformer(const VisionTransformerOptions& options = {}, std::uint64_t seed = 0);

 private:
  VisionTransformer(const VisionTransformerOptions& options, Generator generator);
  Tensor logits(const Tensor& images) const override;

  /// Adds the position embeddings, then applies the layers.
  class Encoder : public nn::Module {
   public:
    Encoder(const VisionTransformerOptions& options, Generator& generator);
    Tensor forward(const Tensor& x) const override;
    std::string describe() const override { return "Encoder"; }

   private:
    nn::Parameter pos_embedding_;
    nn::Sequential layers_;
    nn::LayerNorm ln_;
  };

  nn::Conv2d conv_proj_;
  nn::Parameter class_token_;
  Encoder encoder_;
  nn::Sequential heads_;
};

}  // namespace tern::models

#pragma once

#include <string>

#include "tern/nn/module.hpp"

namespace tern::models {

/// A network that classifies square RGB images. Its parameter names are those of torchvision's network of the same
/// name.
class ImageClassifier : public nn::Module {
 public:
  /// Logits [N, classes] for images [N, 3, image_size, image_size]. Throws ShapeError for images of another shape.
  Tensor forward(const Tensor& images) const final;
  /// The mean cross-entropy of the logits, which a network may override; labels [N] int64.
  virtual Tensor loss(const Tensor& images, const Tensor& labels) const;
  std::string describe() const override { return name_; }

  std::int64_t classes() const { return classes_; }
  /// Height and width of the images, in pixels.
  std::int64_t image_size() const { return image_size_; }

 protected:
  /// Throws ShapeError unless there is a class and images are at least `smallest_image` pixels wide.
  ImageClassifier(const char* name, std::int64_t classes, std::int64_t image_size, std::int64_t smallest_image);
  /// `forward` after the shape check.
  virtual Tensor logits(const Tensor& images) const = 0;
  void check_images(const Tensor& images) const;

 private:
  std::string name_;
  std::int64_t classes_, image_size_;
};

}  // namespace tern::models

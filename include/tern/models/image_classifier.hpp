#pragma once

#include <string>

#include "tern/nn/module.hpp"

namespace tern::models {

/// A network that sorts square RGB images into classes. Its parameters are named as torchvision's network of the same
/// name has them.
class ImageClassifier : public nn::Module {
 public:
  /// Logits [N, classes] of images [N, 3, image_size, image_size]. ShapeError for images of another shape.
  Tensor forward(const Tensor& images) const final;
  /// The mean cross-entropy of the logits; labels [N] int64. Unless a network says otherwise, this is what it is
  /// trained with.
  virtual Tensor loss(const Tensor& images, const Tensor& labels) const;
  std::string describe() const override { return name_; }

  std::int64_t classes() const { return classes_; }
  /// Height and width of the images, in pixels.
  std::int64_t image_size() const { return image_size_; }

 protected:
  /// ShapeError unless there is a class, and images are `smallest_image` pixels wide at least.
  ImageClassifier(const char* name, std::int64_t classes, std::int64_t image_size, std::int64_t smallest_image);
  /// `forward` once the shape is checked.
  virtual Tensor logits(const Tensor& images) const = 0;
  void check_images(const Tensor& images) const;

 private:
  std::string name_;
  std::int64_t classes_, image_size_;
};

}  // namespace tern::models

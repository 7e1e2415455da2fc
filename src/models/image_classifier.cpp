#include "tern/models/image_classifier.hpp"

#include "tern/operators/loss.hpp"

namespace tern::models {

ImageClassifier::ImageClassifier(const char* name, std::int64_t classes, std::int64_t image_size,
                                 std::int64_t smallest_image)
    : name_(name), classes_(classes), image_size_(image_size) {
  expects<ShapeError>(classes >= 1, name, ": ", classes, " classes, expected at least 1");
  expects<ShapeError>(image_size >= smallest_image, name, ": images of ", image_size, "x", image_size,
                      " are too small for its layers, expected at least ", smallest_image, "x", smallest_image);
}

Tensor ImageClassifier::forward(const Tensor& images) const {
  check_images(images);
  return logits(images);
}

Tensor ImageClassifier::loss(const Tensor& images, const Tensor& labels) const {
  return operators::cross_entropy((*this)(images), labels);
}

void ImageClassifier::check_images(const Tensor& images) const {
  expects(images.defined(), name_, ": the images are undefined");
  const Shape& shape = images.shape();
  const auto expected = [&] { return message("expected [N,3,", image_size_, ",", image_size_, "]"); };
  if (shape.rank() != 4 || shape[1] != 3) [[unlikely]]
    throw ShapeError(message(name_, ": input ", shape, ", ", expected(), ": a batch of images of three channels"));
  if (shape[2] != image_size_ || shape[3] != image_size_) [[unlikely]] {
    const std::string other = shape[2] == shape[3]
                                  ? message("or construct ", name_, " with image_size ", shape[2])
                                  : message("or cut them square and construct ", name_, " with their size");
    throw ShapeError(message(name_, ": input ", shape, ", ", expected(), "; resize the images ", other));
  }
}

}  // namespace tern::models
